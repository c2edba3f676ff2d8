"""The frame of a timeline: its axes, its device labels and its window."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from placement_viz import names
from placement_viz.figures.looks import MARKS, Look, OpClass
from placement_viz.figures.rows import RowGroup, Rows
from placement_viz.model import RowKind

__all__ = ["dress_figure", "frame_figure", "show_window", "whole_window"]

_US = 1e-6
_LINE_PX = ((24, 22), (64, 15), (10**9, 10))
_MARGIN_PX = {"l": 92, "r": 18, "t": 30, "b": 44}
#: A frame has no buttons above, and only the times below.
_FRAME_MARGIN_PX = {"r": 18, "t": 6, "b": 26}
#: What is drawn above the ops of one run.
_METER_PX = 24
#: Least and most room for the labels.
_LABELS_PX = 56, 168
_LABEL_GAP_PX = 18
_MARKUP = re.compile(r"<[^>]*>")


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


def dress_figure(figure: go.Figure, parts: Sequence[Rows], look: Look) -> None:
    """Give ``figure`` its axes, its device labels and a band behind each device.

    Args:
        figure: What to dress.
        parts: The lines of each run, from top to bottom.
        look: The colours.
    """
    n_lines = parts[-1].bottom - parts[0].top
    line_px = next(px for most, px in _LINE_PX if n_lines <= most)
    ticks = [tick for rows in parts for tick in _ticks(rows, look)]
    figure.update_layout(
        **_manners(look),
        height=int(n_lines * line_px) + _MARGIN_PX["t"] + _MARGIN_PX["b"] + 8,
        margin=_MARGIN_PX,
        paper_bgcolor=look.surface,
        plot_bgcolor=look.surface,
        shapes=[_band(group, look) for rows in parts for group in rows.groups],
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
        range=[parts[-1].bottom + 0.2, parts[0].top - 0.2],
        fixedrange=True,
        showgrid=False,
        zeroline=False,
        tickvals=[y for y, _ in ticks],
        ticktext=[text for _, text in ticks],
        ticklabelstandoff=6,
    )


def frame_figure(
    figure: go.Figure,
    parts: Sequence[Rows],
    whole_us: tuple[float, float],
    look: Look,
) -> None:
    """Make ``figure`` a frame into which somebody else draws ops and times.

    Args:
        figure: Dressed already.
        parts: The lines of each run, from top to bottom.
        whole_us: First and last moment that can be looked at.
        look: The colours.
    """
    figure.add_scatter(x=[0], y=[0], visible=True, opacity=0, hoverinfo="skip")
    figure.update_layout(
        meta={
            "whole": list(whole_us),
            "sources": [rows.lines.sort("y")["y"].to_list() for rows in parts],
            "groups": [
                {"device": group.device, "top": group.top, "bottom": group.bottom}
                for rows in parts
                for group in rows.groups
            ],
            "classes": [each.value for each in OpClass],
            "fills": [look.fills[each] for each in OpClass],
            "hatches": [MARKS[each].hatch for each in OpClass],
            "text": look.text,
            "muted": look.muted,
            "surface": look.surface,
            "grid": look.grid,
        }
    )
    margin = dict(_FRAME_MARGIN_PX)
    if len(parts) == 1 and len(parts[0].groups) > 1:
        # For how many of the devices are busy.
        margin["t"] += _METER_PX
    saved_px = sum(_MARGIN_PX[side] - margin[side] for side in "tb")
    least, most = _LABELS_PX
    labels_px = max(map(_label_px, figure.layout.yaxis.ticktext), default=0)
    left_px = min(max(int(labels_px) + _LABEL_GAP_PX, least), most)
    figure.update_layout(
        margin={**margin, "l": left_px},
        height=figure.layout.height - saved_px,
    )
    figure.update_xaxes(
        range=[t * _US for t in whole_us],
        fixedrange=True,
        showticklabels=False,
        showgrid=False,
        title=None,
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
    proved = rows.lines.filter(pl.col("row_kind") == RowKind.EXECUTOR)
    middles = dict(
        proved.group_by("device")
        .agg((pl.col("y").min() + pl.col("y").max()) / 2)
        .iter_rows()
    )
    ticks = [
        (middles[group.device], f"<b>{html.escape(group.label)}</b>")
        for group in rows.groups
        if group.device in middles
    ]
    alone = {g.device: g.label for g in rows.groups if g.device not in middles}
    tracer = rows.lines.filter(pl.col("row_kind") != RowKind.EXECUTOR)
    for (row, kind, home), lines in tracer.group_by(
        "row", "row_kind", "home", maintain_order=True
    ):
        is_received = kind == RowKind.RECEIVE
        label = "received" if is_received else html.escape(_tracer_label(str(row)))
        # Nothing else names a device of which nothing but this is known.
        if (device := alone.get(str(home))) and names.device_type(str(home)):
            label = f"<b>{html.escape(device)}</b> {label}"
        markup = f'<span style="color:{look.muted};font-size:10px">{label}</span>'
        middle = lines.select((pl.col("y").min() + pl.col("y").max()) / 2).item()
        ticks.append((middle, markup))
    return ticks


def _label_px(markup: str) -> float:
    """Return how wide a label of :func:`_ticks` is, more or less."""
    letter_px = 7.5 if markup.startswith("<b>") else 6.2
    return len(html.unescape(_MARKUP.sub("", markup))) * letter_px


def _tracer_label(row: str) -> str:
    label = row.rpartition("/")[2]
    return label if len(label) <= 16 else f"{label[:15]}…"


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
