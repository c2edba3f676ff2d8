"""Results into Plotly figures: pure functions, nothing read and nothing served."""

from __future__ import annotations

from placement_viz.figures.bars import View
from placement_viz.figures.comparison import comparison_figure
from placement_viz.figures.config import GRAPH_CONFIG
from placement_viz.figures.detail import MAX_MARKS
from placement_viz.figures.looks import DARK, LIGHT, MARKS, Look, Mark, OpClass
from placement_viz.figures.marks import count_classes
from placement_viz.figures.timeline import op_box, timeline_caption, timeline_figure

__all__ = [
    "DARK",
    "GRAPH_CONFIG",
    "LIGHT",
    "MARKS",
    "MAX_MARKS",
    "Look",
    "Mark",
    "OpClass",
    "View",
    "comparison_figure",
    "count_classes",
    "op_box",
    "timeline_caption",
    "timeline_figure",
]
