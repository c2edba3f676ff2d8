"""Idle time in tables: the longest gaps, and all of them by reason."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.gaps import GAPS_SCHEMA
from placement_viz.analysis.step.waits import Reason

__all__ = [
    "IDLE_SCHEMA",
    "LISTED_GAPS_SCHEMA",
    "MOST_GAPS",
    "list_gaps",
    "sum_idle",
]

#: So many gaps of each device are listed; totals count all.
MOST_GAPS = 50

#: Columns of :func:`list_gaps`: those of ``GAPS_SCHEMA`` and, in words, what the
#: positions are.
LISTED_GAPS_SCHEMA = pl.Schema(
    GAPS_SCHEMA
    | {
        "before_name": pl.String,
        "after_name": pl.String,
        "awaited_name": pl.String,
        "awaited_device": pl.String,
    }
)

#: Columns of :func:`sum_idle`, by device, what costs most first.
#:
#: ``place``             a ``Place``
#: ``reason``            a ``Reason``
#: ``awaited_device``    device of the op that was waited for; null if there is none
#: ``gaps``              number of gaps, or parts of gaps, for that reason
#: ``idle_us``           their time; that of all rows of a device is its ``idle_us``
#: ``longest_us``        that of the longest
#: ``longest_start_us``  begin of the longest
#: ``longest_name``      op that the longest was spent waiting for; null if none
IDLE_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "place": pl.String,
        "reason": pl.String,
        "awaited_device": pl.String,
        "gaps": pl.Int64,
        "idle_us": pl.Int64,
        "longest_us": pl.Int64,
        "longest_start_us": pl.Int64,
        "longest_name": pl.String,
    }
)


def list_gaps(gaps: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return the longest gaps, with the columns of :data:`LISTED_GAPS_SCHEMA`.

    Args:
        gaps: All of them, as in ``GAPS_SCHEMA``.
        ops: What ran, by position.
    """
    longest = gaps.sort("duration_us", descending=True, maintain_order=True)
    listed = longest.filter(pl.int_range(pl.len()).over("device") < MOST_GAPS)
    found = {
        f"{at}_name": ops["name"].gather(listed[at])
        for at in ("before", "after", "awaited")
    }
    found["awaited_device"] = ops["device"].gather(listed["awaited"])
    return listed.with_columns(**found).select(LISTED_GAPS_SCHEMA.names())


def sum_idle(waits: pl.DataFrame, flow: Flow) -> pl.DataFrame:
    """Return idle time by reason, with the columns of :data:`IDLE_SCHEMA`.

    Args:
        waits: Gaps in parts of one reason each, as in ``WAITS_SCHEMA``.
        flow: What ran.
    """
    ops, devices = flow.ops, flow.trace.devices
    # What was there already is not what was waited for.
    is_wait = ~pl.col("reason").is_in([Reason.UNKNOWN, Reason.LAUNCH])
    waits = waits.with_columns(awaited=pl.when(is_wait).then("awaited"))
    length = pl.col("duration_us")
    summed = (
        waits.with_columns(awaited_device=ops["device"].gather(waits["awaited"]))
        .sort("duration_us", "start_us", descending=[True, False])
        .group_by("device", "place", "reason", "awaited_device", maintain_order=True)
        .agg(
            gaps=pl.len(),
            idle_us=length.sum(),
            longest_us=length.first(),
            longest_start_us=pl.col("start_us").first(),
            longest=pl.col("awaited").first(),
        )
    )
    order = pl.DataFrame({"device": devices}, schema={"device": pl.String})
    return (
        summed.with_columns(longest_name=ops["name"].gather(summed["longest"]))
        .join(order.with_row_index("order"), on="device")
        .sort("order", "idle_us", descending=[False, True], maintain_order=True)
        .select(IDLE_SCHEMA.names())
        .cast(IDLE_SCHEMA)
    )
