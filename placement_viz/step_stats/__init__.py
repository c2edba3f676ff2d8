"""What FULL_TRACE records of a step and TensorFlow's timeline leaves out.

All functions take a ``StepStats`` protocol buffer; none loads TensorFlow.
"""

from __future__ import annotations

from placement_viz.step_stats.memory import find_allocations, tensor_sizes
from placement_viz.step_stats.traffic import find_copies

__all__ = ["find_allocations", "find_copies", "tensor_sizes"]
