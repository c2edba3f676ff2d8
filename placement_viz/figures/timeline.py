"""The timeline of one run: a bar for each op, a group of lines for each device."""

from __future__ import annotations

import dataclasses

import plotly.graph_objects as go

from placement_viz.analysis import Analysis
from placement_viz.figures.axes import (
    dress_figure,
    show_window,
    whole_window,
)
from placement_viz.figures.bars import View, add_marks
from placement_viz.figures.detail import MAX_MARKS
from placement_viz.figures.marks import marks_table
from placement_viz.figures.rows import place_rows
from placement_viz.model import RowKind
from placement_viz.units import format_count, format_us

__all__ = [
    "timeline_caption",
    "timeline_figure",
]


def timeline_figure(analysis: Analysis, view: View | None = None) -> go.Figure:
    """Return the timeline of ``analysis``, with time in seconds from its first op.

    Trace ``k`` holds the ``k``-th class of :class:`OpClass`, empty or not, and is
    named after it in ``meta``; ``customdata`` is the op's position in the trace.
    """
    run, view = analysis.run, view or View()
    rows = place_rows(run.trace)
    whole = whole_window(run.trace.span_us)
    window = view.window_us or whole
    marks = marks_table(run, analysis.colocation, rows, window, view.max_marks)
    figure = go.Figure()
    add_marks(figure, marks, dataclasses.replace(view, window_us=window))
    dress_figure(figure, rows, view.look)
    show_window(figure, window, whole)
    return figure


def timeline_caption(analysis: Analysis, max_marks: int = MAX_MARKS) -> str:
    """Return what the timeline shows, and how it differs from the whole truth."""
    trace = analysis.run.trace
    devices = format_count(len(trace.devices), "device")
    if RowKind.OTHER in trace.device_rows:
        devices = format_count(len(trace.devices), "process", "processes")
    caption = (
        f"{format_count(trace.ops.height, 'op')} on {devices}, "
        f"{format_us(trace.span_us)}"
    )
    if trace.ops.height > max_marks:
        caption += "; narrow neighbours are drawn as one block: zoom in"
    return caption
