"""Results into Plotly figures: pure functions, nothing read and nothing served."""

from __future__ import annotations

from placement_viz.figures.axes import whole_window
from placement_viz.figures.bars import View
from placement_viz.figures.config import GRAPH_CONFIG
from placement_viz.figures.detail import MAX_MARKS
from placement_viz.figures.icicle import icicle_figure
from placement_viz.figures.looks import DARK, LIGHT, MARKS, Look, Mark, OpClass
from placement_viz.figures.marks import count_classes, op_classes
from placement_viz.figures.memory import memory_figure
from placement_viz.figures.rows import RowLabel, Rows, label_rows, place_rows
from placement_viz.figures.timeline import (
    timeline_caption,
    timeline_figure,
)

__all__ = [
    "DARK",
    "GRAPH_CONFIG",
    "LIGHT",
    "MARKS",
    "MAX_MARKS",
    "Look",
    "Mark",
    "OpClass",
    "RowLabel",
    "Rows",
    "View",
    "count_classes",
    "icicle_figure",
    "label_rows",
    "memory_figure",
    "op_classes",
    "place_rows",
    "timeline_caption",
    "timeline_figure",
    "whole_window",
]
