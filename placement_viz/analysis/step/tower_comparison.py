"""The ops of each tower beside those of the first."""

from __future__ import annotations

import enum

import polars as pl

from placement_viz import names
from placement_viz.analysis.step.flow import Flow
from placement_viz.model import RowKind

__all__ = ["COMPARISON_SCHEMA", "Difference", "compare_towers"]


class Difference(enum.StrEnum):
    """What sets an op of a tower apart from that of the first tower."""

    MISSING = "missing"
    EXTRA = "extra"
    DEVICE = "device"
    SLOWER = "slower"
    FASTER = "faster"


#: Columns of :func:`compare_towers`, by step and tower, what differs most first.
#:
#: ``step``         as in ``Trace.ops``
#: ``tower``        number of the tower, from 1
#: ``relative``     what the op is called in both
#: ``first_op``     position of it in tower 0, where it ran first; null if it did not
#: ``op``           position of it in this tower, likewise
#: ``first_us``     how long it ran in tower 0, all executions together; null if it did
#:                  not
#: ``duration_us``  how long it ran in this tower, likewise
#: ``difference``   a :class:`Difference`; null when there is none to speak of
COMPARISON_SCHEMA = pl.Schema(
    {
        "step": pl.Int32,
        "tower": pl.Int32,
        "relative": pl.String,
        "first_op": pl.UInt32,
        "op": pl.UInt32,
        "first_us": pl.Int64,
        "duration_us": pl.Int64,
        "difference": pl.String,
    }
)

_MADE_AT_WILL = ("Const", "NoOp")
#: An op that takes this many times as long is another matter …
_LEAST_RATIO = 2
#: … when the step is at stake with this share of its time.
_LEAST_SHARE = 0.01


def compare_towers(flow: Flow, members: pl.DataFrame) -> pl.DataFrame:
    """Return the ops of towers, matched by what they are called in each.

    Constants are left out, for an optimiser makes and merges them as it likes, and
    what only passes control on.

    Args:
        flow: What ran.
        members: What is in which tower, with the columns of ``MEMBERS_SCHEMA``.

    Returns:
        A table with the columns of :data:`COMPARISON_SCHEMA`.
    """
    ops = _ops_by_name(flow, members)
    first = ops.filter(pl.col("tower") == 0).drop("tower")
    first = first.rename(
        {"op": "first_op", "duration_us": "first_us", "kind": "first_kind"}
    )
    others = ops.filter(pl.col("tower") > 0)
    towers = others.select("step", "tower").unique()
    expected = first.join(towers, on="step")
    both = expected.join(
        others, on=["step", "tower", "relative"], how="full", coalesce=True
    )
    span_us = flow.trace.span_us / flow.trace.n_steps
    low = pl.min_horizontal("first_us", "duration_us")
    high = pl.max_horizontal("first_us", "duration_us")
    differs = (high > _LEAST_RATIO * low) & (high - low >= _LEAST_SHARE * span_us)
    is_slower = pl.col("duration_us") > pl.col("first_us")
    return (
        both.with_columns(
            difference=pl.when(pl.col("op").is_null())
            .then(pl.lit(Difference.MISSING.value))
            .when(pl.col("first_op").is_null())
            .then(pl.lit(Difference.EXTRA.value))
            .when(pl.col("kind") != pl.col("first_kind"))
            .then(pl.lit(Difference.DEVICE.value))
            .when(differs & is_slower)
            .then(pl.lit(Difference.SLOWER.value))
            .when(differs)
            .then(pl.lit(Difference.FASTER.value)),
            by=(
                pl.col("duration_us").fill_null(0) - pl.col("first_us").fill_null(0)
            ).abs(),
        )
        .sort("step", "tower", -pl.col("by"), "first_op", "op")
        .select(COMPARISON_SCHEMA.names())
        .cast(COMPARISON_SCHEMA)
    )


def _ops_by_name(flow: Flow, members: pl.DataFrame) -> pl.DataFrame:
    """Return each op of each tower and step once, with its whole time."""
    kinds = {device: names.device_type(device) for device in flow.trace.devices}
    # Ops are keyed by their position.
    facts = flow.ops.select("step", "device", "duration_us", "row_kind", "op_type")
    return (
        members.with_columns(facts[members["op"]])
        .filter(
            pl.col("row_kind") == RowKind.EXECUTOR,
            ~pl.col("op_type").is_in(_MADE_AT_WILL),
        )
        .group_by("step", "tower", "relative")
        .agg(
            pl.col("op").first(),
            pl.col("duration_us").sum(),
            kind=pl.col("device").first(),
        )
        .with_columns(
            pl.col("kind").replace_strict(kinds, default=None, return_dtype=pl.String)
        )
    )
