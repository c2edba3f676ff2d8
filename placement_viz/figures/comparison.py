"""Two runs, one above the other, on one time axis."""

from __future__ import annotations

import html

import plotly.graph_objects as go

from placement_viz.analysis import Comparison
from placement_viz.analysis.compare import Side
from placement_viz.figures.axes import (
    dress_figure,
    frame_figure,
    show_window,
    whole_window,
)
from placement_viz.figures.bars import View, add_marks
from placement_viz.figures.detail import MAX_MARKS
from placement_viz.figures.looks import LIGHT, Look
from placement_viz.figures.marks import marks_table
from placement_viz.figures.rows import Rows, place_rows

__all__ = ["comparison_figure", "comparison_frame"]

#: Room between the two runs for the second one's name, in lines.
_TITLE_LINES = 1.6
_US = 1e-6


def comparison_figure(
    comparison: Comparison,
    look: Look = LIGHT,
    window_us: tuple[float, float] | None = None,
) -> go.Figure:
    """Return both timelines, aligned at the start of their first op.

    ``window_us`` is the part of the common time axis that is shown, all by default. A
    dotted line marks the end of each run.

    The first half of the traces is the baseline, the second the candidate; in each
    half trace ``k`` is the ``k``-th class of :class:`OpClass`.
    """
    figure = go.Figure()
    sides = (comparison.baseline, comparison.candidate)
    whole = whole_window(max(side.span_us for side in sides))
    window = window_us or whole
    parts = []
    top = _TITLE_LINES
    for side in sides:
        rows = place_rows(side.run.trace, top)
        marks = marks_table(side.run, side.colocation, rows, window, MAX_MARKS // 2)
        add_marks(figure, marks, View(look=look, window_us=window))
        parts.append(rows)
        top = rows.bottom + _TITLE_LINES
    dress_figure(figure, parts, look)
    figure.update_yaxes(range=[parts[-1].bottom + 0.2, 0])
    show_window(figure, window, whole)
    for word, side, rows in zip(("Before", "After"), sides, parts, strict=True):
        _name_side(figure, f"<b>{word}</b>: {_short_source(side)}", rows, look)
        _mark_end(figure, side, rows, look)
    return figure


def comparison_frame(comparison: Comparison, look: Look = LIGHT) -> go.Figure:
    """Return both timelines without their ops: what they are drawn into.

    ``meta`` is that of :func:`~placement_viz.figures.timeline_frame`, with the baseline
    as the first of its sources.
    """
    figure = go.Figure()
    sides = (comparison.baseline, comparison.candidate)
    parts = []
    top = _TITLE_LINES
    for side in sides:
        parts.append(place_rows(side.run.trace, top))
        top = parts[-1].bottom + _TITLE_LINES
    dress_figure(figure, parts, look)
    figure.update_yaxes(range=[parts[-1].bottom + 0.2, 0])
    whole = whole_window(max(side.span_us for side in sides))
    frame_figure(figure, parts, whole, look)
    for word, side, rows in zip(("Before", "After"), sides, parts, strict=True):
        _name_side(figure, f"<b>{word}</b>: {_short_source(side)}", rows, look)
    return figure


def _short_source(side: Side) -> str:
    return html.escape(side.run.source.replace("\\", "/").rpartition("/")[2])


def _name_side(figure: go.Figure, markup: str, rows: Rows, look: Look) -> None:
    figure.add_annotation(
        text=markup,
        xref="paper",
        x=0,
        y=rows.top - 0.1,
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        font={"color": look.text, "size": 13},
    )


def _mark_end(figure: go.Figure, side: Side, rows: Rows, look: Look) -> None:
    figure.add_shape(
        type="line",
        x0=side.span_us * _US,
        x1=side.span_us * _US,
        y0=rows.top,
        y1=rows.bottom,
        line={"color": look.muted, "width": 1, "dash": "dot"},
    )
