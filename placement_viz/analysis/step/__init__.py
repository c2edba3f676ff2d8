"""Where the time of a step went: devices, transfers, waiting, memory.

``edges`` finds what each execution took from which, ``roles`` what it is for, and
``flow`` holds both for the modules that answer the questions.
"""

from __future__ import annotations

from placement_viz.analysis.step.flow import Flow

__all__ = ["Flow"]
