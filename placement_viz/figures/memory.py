"""What each device held over the step, as curves."""

from __future__ import annotations

import html
from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from placement_viz.analysis.step.memory import Memory
from placement_viz.figures.devices import device_fills
from placement_viz.figures.looks import Look
from placement_viz.names import short_device
from placement_viz.units import format_bytes, format_us

__all__ = ["memory_figure"]

#: More points than this a device are more than a screen has pixels.
_MOST_POINTS = 2_000
_MS = 1e-3
_MIB = 2**20


def memory_figure(memory: Memory, devices: Sequence[str], look: Look) -> go.Figure:
    """Return a curve for each device, with a mark where it held most.

    Long curves are drawn in parts of which each has the most that was held in it, so
    that no peak is lost.

    Args:
        memory: What was held.
        devices: The devices of the run, in order.
        look: The colours of the page.
    """
    figure = go.Figure()
    fills = device_fills([*devices, *(peak.device for peak in memory.peaks)], look)
    for peak in memory.peaks:
        curve = _thinned(memory.curves.filter(pl.col("device") == peak.device))
        name = html.escape(short_device(peak.device, devices))
        color = fills[peak.device]
        told = f"{name}: {format_bytes(peak.n_bytes)} at {format_us(peak.at_us)}"
        figure.add_scatter(
            x=(curve["at_us"] * _MS).to_list(),
            y=(curve["n_bytes"] / _MIB).to_list(),
            name=name,
            mode="lines",
            fill="tozeroy",
            line={"shape": "hv", "color": color, "width": 1.5},
            hovertemplate=f"{name}: %{{y:.1f}} MiB at %{{x:.2f}} ms<extra></extra>",
        )
        figure.add_scatter(
            x=[peak.at_us * _MS],
            y=[peak.n_bytes / _MIB],
            name=told,
            mode="markers",
            marker={"color": color, "size": 9, "symbol": "diamond"},
            hovertemplate=f"most on {told}<extra></extra>",
            showlegend=False,
        )
    axis = {"gridcolor": look.grid, "zeroline": False, "rangemode": "tozero"}
    figure.update_layout(
        margin={"l": 56, "r": 8, "t": 8, "b": 40},
        paper_bgcolor=look.surface,
        plot_bgcolor=look.surface,
        font={"color": look.text},
        xaxis={"title": "ms", **axis},
        yaxis={"title": "MiB", **axis},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    return figure


def _thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """Return the curve, or the peaks of its parts if it has too many points."""
    if curve.height <= _MOST_POINTS:
        return curve
    part = pl.int_range(pl.len()) * (_MOST_POINTS // 2) // pl.len()
    parts = curve.group_by(part.alias("part"), maintain_order=True).agg(
        at_us=pl.col("at_us").sort_by("n_bytes").last(),
        n_bytes=pl.col("n_bytes").max(),
        end_us=pl.col("at_us").last(),
        last=pl.col("n_bytes").last(),
    )
    ends = parts.select("part", at_us="end_us", n_bytes="last")
    peaks = parts.select("part", "at_us", "n_bytes")
    return pl.concat([peaks, ends]).sort("part", "at_us", maintain_order=True)
