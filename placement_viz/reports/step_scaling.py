"""Sentences about what more towers gain."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis.step.scaling import Scaling
from placement_viz.units import format_count, format_us

__all__ = ["scaling_sentences"]

_SERIAL = "All towers ran on one device: they share it, and add none to it."
#: A part of a loss that is less than this share of it is not named by itself.
_LEAST_SHARE = 0.05


def scaling_sentences(scaling: Scaling) -> list[str]:
    """Return what more towers gained, and what ate the rest."""
    return [
        _step_times(scaling),
        _gain(scaling),
        *([_SERIAL] if scaling.is_serial else []),
        _losses(scaling),
    ]


def _step_times(scaling: Scaling) -> str:
    """Return what a step takes in both runs, and what it gets."""
    how = "median of untraced steps" if scaling.is_untraced else "traced step"
    towers = format_count(scaling.candidate_towers, "tower")
    return (
        f"A step takes {format_us(scaling.candidate_us)} with {towers} and "
        f"{format_us(scaling.baseline_us)} with {scaling.baseline_towers} ({how}); by "
        f"{scaling.work_from} it gets {scaling.work:.3g} times the input."
    )


def _gain(scaling: Scaling) -> str:
    """Return what more towers gained."""
    loss = format_us(abs(scaling.loss_us))
    return (
        f"That is {scaling.speed_up:.2f} times the throughput, "
        f"{scaling.efficiency:.0%} of the ideal; a step is {loss} "
        f"{'longer' if scaling.loss_us >= 0 else 'shorter'} than an ideal one."
    )


def _losses(scaling: Scaling) -> str:
    """Return what the loss of a traced step is made of; the numbers add up to it."""
    total = scaling.traced_loss_us
    large = scaling.parts.filter(
        pl.col("lost_us").abs() >= max(_LEAST_SHARE * abs(total), 1)
    ).sort(pl.col("lost_us").abs(), descending=True)
    named = [
        f"{part} {_signed(lost_us)}"
        for part, lost_us in large.select("part", "lost_us").iter_rows()
    ]
    rest_us = total - int(large["lost_us"].sum())
    if rest_us:
        named.append(f"all else {_signed(rest_us)}")
    known = (
        "; of the untraced steps the parts are not known" if scaling.is_untraced else ""
    )
    return (
        f"Of the traced steps, the {_signed(total)} against an ideal one are: "
        f"{', '.join(named) or 'nothing'}{known}."
    )


def _signed(duration_us: int) -> str:
    return f"{'+' if duration_us >= 0 else ''}{format_us(duration_us)}"
