"""Two runs, one above the other, on one time axis."""

from __future__ import annotations

import html

import plotly.graph_objects as go

from placement_viz.analysis import Comparison
from placement_viz.analysis.compare import Side
from placement_viz.figures.axes import (
    dress_figure,
    frame_figure,
    whole_window,
)
from placement_viz.figures.looks import LIGHT, Look
from placement_viz.figures.rows import Rows, place_rows

__all__ = ["comparison_frame"]

#: Room between the two runs for the second one's name, in lines.
_TITLE_LINES = 1.6


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
