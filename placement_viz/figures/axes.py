"""The frame of a timeline: its axes, its device labels and its window."""

from __future__ import annotations

import html
from typing import Any

import plotly.graph_objects as go

from placement_viz.figures.looks import Look
from placement_viz.figures.rows import RowGroup, RowLabel, Rows, label_rows

__all__ = ["dress_figure", "show_window", "whole_window"]

_US = 1e-6
_LINE_PX = ((24, 22), (64, 15), (10**9, 10))
_MARGIN_PX = {"l": 92, "r": 18, "t": 30, "b": 44}
_LONGEST_ROW = 16


def whole_window(span_us: int) -> tuple[float, float]:
    """Return the window of a whole run, with a little air on both sides."""
    margin = max(span_us, 1) * 0.01
    return -margin, span_us + margin


def show_window(
    figure: go.Figure, window_us: tuple[float, float], whole_us: tuple[float, float]
) -> None:
    """Let ``figure`` show ``window_us`` and remember the whole in its ``meta``."""
    whole = [t * _US for t in whole_us]
    air = (whole[1] - whole[0]) * 0.05
    figure.update_layout(meta={"whole": whole})
    figure.update_xaxes(
        range=[t * _US for t in window_us],
        minallowed=whole[0] - air,
        maxallowed=whole[1] + air,
    )


def dress_figure(figure: go.Figure, rows: Rows, look: Look) -> None:
    """Give ``figure`` its axes, its device labels and a band behind each device.

    Args:
        figure: What to dress.
        rows: The lines of the run.
        look: The colours.
    """
    n_lines = rows.groups[-1].bottom
    line_px = next(px for most, px in _LINE_PX if n_lines <= most)
    ticks = _ticks(rows, look)
    figure.update_layout(
        **_manners(look),
        height=int(n_lines * line_px) + _MARGIN_PX["t"] + _MARGIN_PX["b"] + 8,
        margin=_MARGIN_PX,
        paper_bgcolor=look.surface,
        plot_bgcolor=look.surface,
        shapes=[_band(group, look) for group in rows.groups],
    )
    figure.update_xaxes(
        title={"text": "time since the step's first op", "standoff": 6},
        tickformat="~s",
        ticksuffix="s",
        gridcolor=look.grid,
        zeroline=False,
        color=look.muted,
    )
    figure.update_yaxes(
        range=[n_lines + 0.2, -0.2],
        fixedrange=True,
        showgrid=False,
        zeroline=False,
        tickvals=[y for y, _ in ticks],
        ticktext=[text for _, text in ticks],
        ticklabelstandoff=6,
    )


def _manners(look: Look) -> dict[str, Any]:
    """Return how every timeline looks and behaves, whatever is in it."""
    return {
        "barmode": "overlay",
        "font": {"color": look.text, "size": 12, "family": "system-ui, sans-serif"},
        "showlegend": False,
        "dragmode": "zoom",
        "hovermode": "closest",
        "hoverlabel": {
            "align": "left",
            "bgcolor": look.band,
            "bordercolor": look.muted,
            "font": {"color": look.text, "size": 12},
        },
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": look.muted,
            "activecolor": look.text,
        },
    }


def _ticks(rows: Rows, look: Look) -> list[tuple[float, str]]:
    """Return the height and the markup of each label beside the lines."""
    heights = rows.lines["y"]
    return [
        ((heights[label.first] + heights[label.last]) / 2, _markup(label, look))
        for label in label_rows(rows)
    ]


def _markup(label: RowLabel, look: Look) -> str:
    device = f"<b>{html.escape(label.device)}</b>" if label.device else ""
    if not label.row:
        return device
    is_long = len(label.row) > _LONGEST_ROW
    row = f"{label.row[: _LONGEST_ROW - 1]}…" if is_long else label.row
    parts = f"{device} {html.escape(row)}".strip()
    return f'<span style="color:{look.muted};font-size:10px">{parts}</span>'


def _band(group: RowGroup, look: Look) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": group.top,
        "y1": group.bottom,
        "fillcolor": look.band,
        "line": {"width": 0},
        "layer": "below",
    }
