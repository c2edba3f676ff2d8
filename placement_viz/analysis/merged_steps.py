"""Steps that somebody put into one file, with rows that do not belong together.

Row numbers are only valid within a file, and TensorFlow numbers devices anew in each
step. A script that appends the events of several steps under the row names of the
first may therefore show one step's CPU ops on the GPU, and the other way round.

An op that runs once a step shows it: it is on one device in most steps and on another
in the odd one. Where nearly all ops of a step changed places in the same way, the
rows were swapped.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.model import Notice, RowKind, Trace
from placement_viz.names import short_device
from placement_viz.units import format_count

__all__ = ["put_rows_right"]

#: Fewer witnesses than this prove nothing.
_FEWEST_OPS = 5
#: The share of a step's ops that must have changed places alike.
_LEAST_SHARE = 0.9


def put_rows_right(trace: Trace) -> tuple[Trace, Notice | None]:
    """Return ``trace`` with swapped rows put right, and what was found.

    A trace of one step comes back as it is.
    """
    if trace.ops["name"].is_unique().all():
        return trace, None
    counted = _with_repeats(trace)
    if counted["repeat"].max() == 0:
        return trace, None
    # With two repeats no majority can tell which of them is odd.
    usual = (
        counted.group_by("name", "device")
        .agg(n=pl.len(), of=pl.col("repeats").first())
        .filter(2 * pl.col("n") > pl.col("of"))
        .select("name", usual="device")
    )
    compared = counted.join(usual, on="name", how="inner")
    swaps = _find_swaps(compared)
    if swaps.is_empty():
        return trace, None
    # Steps follow each other, so each lasts until the first op of the next.
    starts = counted.group_by("repeat").agg(pl.col("start_us").min()).sort("repeat")
    step_of = starts["start_us"].search_sorted(trace.ops["start_us"], side="right")
    numbered = trace.ops.with_columns(
        repeat=(step_of.cast(pl.Int64) - 1).clip(lower_bound=0)
    )
    is_placed = pl.col("row_kind") == RowKind.EXECUTOR
    ops = numbered.join(
        swaps, on=["repeat", "device"], how="left", maintain_order="left"
    ).with_columns(becomes=pl.when(is_placed).then("becomes").otherwise(pl.lit(None)))
    n_moved = ops["becomes"].count()
    ops = ops.with_columns(device=pl.coalesce("becomes", "device"))
    n_steps, n_odd = counted["repeat"].n_unique(), swaps["repeat"].n_unique()
    rows = sorted({short_device(d) for d in (*swaps["device"], *swaps["becomes"])})
    notice = Notice(
        "rows-swapped",
        f"{format_count(n_steps, 'step')} were put into this file, and in {n_odd} of "
        f"them the rows of {' and '.join(rows)} are swapped; "
        f"{format_count(n_moved, 'op')} of the odd steps were put right",
    )
    return dataclasses.replace(trace, ops=ops.select(trace.ops.columns)), notice


def _with_repeats(trace: Trace) -> pl.DataFrame:
    """Return the executed ops with ``repeat``, how often the op had run before.

    Ops that run several times a step, as in a loop, cannot tell steps apart, so
    only those are left that run once a step: as often as the fewest, if that is
    more than a handful of ops.
    """
    ops = (
        trace.ops.with_row_index("op")
        .filter(pl.col("row_kind") == RowKind.EXECUTOR)
        .filter(~pl.col("name").is_in(["_SOURCE", "_SINK", "RecvTensor"]))
        .with_columns(
            repeat=pl.int_range(pl.len()).over("name"), repeats=pl.len().over("name")
        )
    )
    if ops.is_empty():
        return ops.with_columns(repeat=pl.lit(0), repeats=pl.lit(1))
    often = ops.unique("name")["repeats"].value_counts().sort("repeats")
    once_a_step = often.filter(pl.col("count") >= _FEWEST_OPS)["repeats"].min() or 1
    return ops.filter(pl.col("repeats") == once_a_step)


def _find_swaps(compared: pl.DataFrame) -> pl.DataFrame:
    """Return ``repeat``, ``device``, ``becomes`` of rows that were swapped."""
    by_step = compared.group_by("repeat", "device", "usual").len()
    shares = by_step.with_columns(
        share=pl.col("len") / pl.col("len").sum().over("repeat", "device"),
    )
    n_odd = (
        compared.filter(pl.col("device") != pl.col("usual"))
        .group_by("repeat")
        .len("odd")
    )
    return (
        shares.filter(
            (pl.col("share") >= _LEAST_SHARE) & (pl.col("device") != pl.col("usual"))
        )
        .join(n_odd, on="repeat")
        .filter(pl.col("odd") >= _FEWEST_OPS)
        .select("repeat", "device", becomes="usual")
    )
