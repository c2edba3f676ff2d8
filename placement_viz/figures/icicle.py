"""The scopes of a step as an icicle: width is time, colour the device."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from placement_viz.analysis.step.scopes import ScopeTree
from placement_viz.figures.devices import device_fills
from placement_viz.figures.looks import Look
from placement_viz.names import short_device
from placement_viz.units import format_count, format_us

__all__ = ["icicle_figure"]

_MOST_LEVELS_SHOWN = 6


def icicle_figure(tree: ScopeTree, devices: Sequence[str], look: Look) -> go.Figure:
    """Return an icicle of the scopes, from the whole step at the top to single ops.

    A scope has the colour of the device on which most of its time was spent, and a
    hatch if some of it went to misplaced gradient ops. ``customdata`` of each has its
    first and its last moment.

    Args:
        tree: The scopes.
        devices: The devices of the run, in order.
        look: The colours of the page.
    """
    scopes = tree.scopes
    fills = device_fills(devices, look)
    figure = go.Figure()
    if scopes.is_empty():
        return figure
    misplaced = scopes["misplaced_us"] > 0
    figure.add_icicle(
        ids=[f"/{scope}" for scope in scopes["scope"]],
        labels=[html.escape(label) or "step" for label in scopes["label"]],
        parents=["" if each is None else f"/{each}" for each in scopes["parent"]],
        values=scopes["duration_us"].to_list(),
        branchvalues="total",
        maxdepth=_MOST_LEVELS_SHOWN,
        sort=False,
        tiling={"orientation": "v"},
        customdata=scopes.select("start_us", "end_us").rows(),
        hovertext=_hover(scopes, devices),
        hovertemplate="%{hovertext}<extra></extra>",
        textinfo="label",
        leaf={"opacity": 1},
        marker={
            "colors": [fills[device] for device in scopes["device"]],
            "line": {"color": look.surface, "width": 1},
            "pattern": {
                "shape": ["/" if each else "" for each in misplaced],
                "fillmode": "overlay",
                "fgcolor": look.surface,
                "size": 6,
                "solidity": 0.28,
            },
        },
    )
    figure.update_layout(
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        paper_bgcolor=look.surface,
        font={"color": look.text},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
    return figure


def _hover(scopes: pl.DataFrame, devices: Sequence[str]) -> list[str]:
    return ["<br>".join(_told(row, devices)) for row in scopes.iter_rows(named=True)]


def _told(row: dict[str, Any], devices: Sequence[str]) -> Iterator[str]:
    """Yield the lines that the pointer is told about a scope."""
    yield f"<b>{html.escape(row['scope'] or 'step')}</b>"
    ops = format_count(row["n_ops"], "op")
    yield f"{ops}, {format_us(row['duration_us'])} of durations"
    device = short_device(row["device"], devices)
    yield f"{100 * row['device_share']:.0f} % of it on {html.escape(device)}"
    if row["misplaced_us"]:
        yield f"{format_us(row['misplaced_us'])} in misplaced gradient ops"
