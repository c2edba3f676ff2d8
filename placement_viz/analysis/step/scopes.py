"""The step by name scope: how the time of each scope is made up of what is in it."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.analysis.step.flow import Flow

__all__ = ["SCOPES_SCHEMA", "ScopeTree", "scope_tree"]

#: Columns of :attr:`ScopeTree.scopes`, by depth and then with most time first.
#:
#: ``scope``         full name, without a slash at the end; empty for the whole step
#: ``parent``        the scope it is in; null for the whole step
#: ``label``         the last part of its name
#: ``depth``         0 for the whole step
#: ``n_ops``         executions in it
#: ``duration_us``   sum of their durations
#: ``misplaced_us``  of that, misplaced gradient ops
#: ``device``        where most of the time was spent
#: ``device_share``  how much of it, 0 … 1
#: ``start_us``      when the first of them began, from the first op of the run
#: ``end_us``        when the last of them ended, likewise
SCOPES_SCHEMA = pl.Schema(
    {
        "scope": pl.String,
        "parent": pl.String,
        "label": pl.String,
        "depth": pl.Int32,
        "n_ops": pl.UInt32,
        "duration_us": pl.Int64,
        "misplaced_us": pl.Int64,
        "device": pl.String,
        "device_share": pl.Float64,
        "start_us": pl.Int64,
        "end_us": pl.Int64,
    }
)

#: No picture shows more levels; a name that goes on is counted at the last one.
_MOST_LEVELS = 12


@dataclasses.dataclass(frozen=True, eq=False)
class ScopeTree:
    """The scopes of a step, from the whole down to single ops.

    Attributes:
        scopes: A table with the columns of :data:`SCOPES_SCHEMA`.
        n_left_out: How many further scopes and ops there are, none of which has more
            time than any in the table; their time is part of the scopes around them.
    """

    scopes: pl.DataFrame
    n_left_out: int


def scope_tree(flow: Flow, most: int = 2_000) -> ScopeTree:
    """Return the scopes of the ops whose device is proved.

    Args:
        flow: The step.
        most: How many scopes and ops are wanted, besides the whole.
    """
    misplaced = flow.colocation.misplaced["op"].implode()
    ops = flow.executed.select(
        "name",
        "device",
        "start_us",
        "end_us",
        "duration_us",
        misplaced_us=pl.col("duration_us") * pl.col("op").is_in(misplaced),
    ).with_columns(parts=pl.col("name").str.split("/"))
    levels = [_level(ops, depth) for depth in range(1, _deepest(ops) + 1)]
    if not levels:
        return ScopeTree(pl.DataFrame(schema=SCOPES_SCHEMA), 0)
    whole = _summed(ops.with_columns(scope=pl.lit(""), parent=pl.lit(None, pl.String)))
    inner = pl.concat(levels)
    kept = _largest(inner, most)
    found = _finished([whole.with_columns(depth=pl.lit(0, pl.Int32)), kept])
    order = ["depth", "duration_us", "scope"]
    found = found.sort(order, descending=[False, True, False])
    return ScopeTree(found, inner.height - kept.height)


def _deepest(ops: pl.DataFrame) -> int:
    deepest = ops["parts"].list.len().max()
    return min(int(deepest or 0), _MOST_LEVELS)  # type: ignore[arg-type]


def _level(ops: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Return the scopes and ops whose names have ``depth`` parts."""
    reaching = ops.filter(pl.col("parts").list.len() >= depth)
    parts = pl.col("parts").list
    named = reaching.with_columns(
        scope=parts.head(depth).list.join("/"),
        parent=parts.head(depth - 1).list.join("/"),
    )
    return _summed(named).with_columns(depth=pl.lit(depth, pl.Int32))


def _summed(ops: pl.DataFrame) -> pl.DataFrame:
    """Return the sums of ``ops`` by ``scope``."""
    by_device = ops.group_by("scope", "parent", "device").agg(
        n_ops=pl.len(),
        duration_us=pl.col("duration_us").sum(),
        misplaced_us=pl.col("misplaced_us").sum(),
        start_us=pl.col("start_us").min(),
        end_us=pl.col("end_us").max(),
    )
    most_first = by_device.sort(
        "duration_us", "n_ops", "device", descending=[True, True, False]
    )
    return most_first.group_by("scope", "parent", maintain_order=True).agg(
        pl.col("n_ops", "misplaced_us").sum(),
        pl.col("start_us").min(),
        pl.col("end_us").max(),
        pl.col("device").first(),
        device_us=pl.col("duration_us").first(),
        duration_us=pl.col("duration_us").sum(),
    )


def _largest(inner: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return the scopes with most time.

    With each one come those it is in: they have as much time and less depth.
    """
    order = ["duration_us", "depth", "scope"]
    return inner.sort(order, descending=[True, False, False]).head(most)


def _finished(tables: list[pl.DataFrame]) -> pl.DataFrame:
    return (
        pl.concat(tables, how="diagonal")
        .with_columns(
            label=pl.col("scope").str.split("/").list.last(),
            device_share=pl.when(pl.col("duration_us") > 0)
            .then(pl.col("device_us") / pl.col("duration_us"))
            .otherwise(1.0),
        )
        .select(SCOPES_SCHEMA.names())
        .cast(SCOPES_SCHEMA)
    )
