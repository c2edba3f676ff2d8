"""A run: what happened in a training step and, where known, the graph behind it.

Ops are rows of a table, not objects, and the key of an op is its position: names
repeat (``RecvTensor``, loop iterations, ``_SOURCE`` on every device).
"""

from __future__ import annotations

from placement_viz.model.graph import Graph
from placement_viz.model.recorded import (
    ALLOCATIONS_SCHEMA,
    COPIES_SCHEMA,
    TENSORS_SCHEMA,
    Recorded,
    recorded_tables,
)
from placement_viz.model.run import Run
from placement_viz.model.trace import OPS_SCHEMA, Notice, RowKind, Trace

__all__ = [
    "ALLOCATIONS_SCHEMA",
    "COPIES_SCHEMA",
    "OPS_SCHEMA",
    "TENSORS_SCHEMA",
    "Graph",
    "Notice",
    "Recorded",
    "RowKind",
    "Run",
    "Trace",
    "recorded_tables",
]
