"""Marks into bars, and how to look at them."""

from __future__ import annotations

import dataclasses
from typing import Any

import plotly.graph_objects as go
import polars as pl

from placement_viz.figures.detail import MAX_MARKS
from placement_viz.figures.looks import LIGHT, MARKS, Look, OpClass

__all__ = ["View", "add_marks"]

_US = 1e-6
_BAR_LINES = 0.8
_TRACER_LINES = 0.45
# Narrower than this part of the window, a bar would be all outline.
_OUTLINED_SHARE = 0.004


@dataclasses.dataclass(frozen=True)
class View:
    """How to look at a run.

    Attributes:
        look: The colours.
        hidden: Classes that are switched off.
        window_us: First and last moment shown; None for the whole run.
        max_marks: How many bars to draw at most; narrow neighbours become one.
    """

    look: Look = LIGHT
    hidden: frozenset[OpClass] = frozenset()
    window_us: tuple[float, float] | None = None
    max_marks: int = MAX_MARKS


def add_marks(figure: go.Figure, marks: pl.DataFrame, view: View) -> None:
    """Add one trace of bars for each class.

    Args:
        figure: What to add them to.
        marks: As ``marks_table`` returns them.
        view: Colours, hidden classes, and the window, which must be given.
    """
    parts = marks.partition_by("op_class", as_dict=True)
    for op_class in OpClass:
        part = parts.get((op_class.value,), marks.clear())
        figure.add_bar(
            orientation="h",
            base=(part["start_us"] * _US).to_numpy(),
            x=(part["duration_us"] * _US).to_numpy(),
            y=part["y"].to_numpy(),
            width=_TRACER_LINES if op_class is OpClass.TRACER else _BAR_LINES,
            # A block is no op: to choose it is to zoom into it.
            customdata=part.select(
                pl.when(pl.col("n_ops") == 1)
                .then(pl.col("op").cast(pl.Int32))
                .otherwise(-1)
            )["op"].to_numpy(),
            hovertext=part["hover"].to_list(),
            hovertemplate="%{hovertext}<extra></extra>",
            marker=_marker(op_class, part, view),
            name=MARKS[op_class].label,
            meta=op_class.value,
            visible=op_class not in view.hidden,
        )


def _marker(op_class: OpClass, part: pl.DataFrame, view: View) -> dict[str, Any]:
    look = view.look
    fill = look.fills[op_class]
    # An outline keeps what is thinner than a pixel visible.
    line: dict[str, Any] = {"color": fill, "width": 1}
    if op_class is OpClass.MISPLACED:
        line = {"color": _outlines(part, view), "width": 1.2}
    marker: dict[str, Any] = {"color": fill, "line": line}
    if hatch := MARKS[op_class].hatch:
        marker["pattern"] = {
            "shape": hatch,
            "fgcolor": look.surface,
            "fgopacity": 0.9,
            "size": 6,
            "solidity": 0.28,
        }
    return marker


def _outlines(part: pl.DataFrame, view: View) -> list[str]:
    """Return a strong outline for each bar that is wide enough to have an inside."""
    from_us, to_us = view.window_us or (0, 0)
    return [
        view.look.text if is_wide else view.look.fills[OpClass.MISPLACED]
        for is_wide in part["duration_us"] > (to_us - from_us) * _OUTLINED_SHARE
    ]
