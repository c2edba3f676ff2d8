"""Ops in columns: what every reader makes of its format in the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import polars as pl

from placement_viz.model import OPS_SCHEMA, RowKind

__all__ = ["LONGEST_BYTES", "Row", "longest_bytes", "ops_table"]

#: No name of TensorFlow's, and no list of inputs, is nearly as long.
LONGEST_BYTES = 1 << 20
#: What an op has where a format says nothing of it.
_ABSENT = {"inputs": pl.lit([], pl.List(pl.String)), "step": pl.lit(0, pl.Int32)}
#: No ops of the graph: a worker logs one for each tensor, or piece of a collective op,
#: that it gets from another task. TensorFlow's timeline can read no type of the second
#: (``WorkerCacheLogger::RecordDataTransfer``).
_IS_RECEIVED = (pl.col("op_type") == "RecvTensor") | (
    (pl.col("op_type") == "unknown") & (pl.col("name") == "RecvBuf")
)


@dataclasses.dataclass(frozen=True)
class Row:
    """What a row of a timeline says about its ops.

    Attributes:
        device: Where they ran, in canonical spelling.
        kind: What it records.
    """

    device: str
    kind: RowKind


def ops_table(ops: pl.DataFrame, rows: Mapping[str, Row]) -> tuple[pl.DataFrame, int]:
    """Return the ops as :data:`OPS_SCHEMA` has them, and when the first one started.

    Args:
        ops: ``name``, ``op_type``, ``row``, ``lane``, ``start_us`` and
            ``duration_us``; rows and lanes as the file numbers them. ``inputs`` may be
            there, and are none if not; likewise ``step``, which is 0 if not.
        rows: Label of each row to what it says.
    """
    origin_us = int(ops["start_us"].min() or 0)  # type: ignore[arg-type]
    kinds = {label: row.kind for label, row in rows.items()}
    devices = {label: row.device for label, row in rows.items()}
    missing = [name for name in _ABSENT if name not in ops.columns]
    ops = ops.with_columns(_ABSENT[name].alias(name) for name in missing)
    # Step by step, each giving up what it replaces: of a large trace nothing may be in
    # memory twice.
    ops = _in_order(ops)
    ops = ops.with_columns(
        start_us=pl.col("start_us") - origin_us,
        row_kind=pl.when(_IS_RECEIVED)
        .then(pl.lit(RowKind.RECEIVE))
        .otherwise(pl.col("row").replace_strict(kinds)),
    )
    ops = ops.with_columns(lane=_lanes(ops.select("row", "lane", "row_kind")))
    ops = ops.with_columns(device=pl.col("row").replace_strict(devices))
    ops = ops.with_columns(row=_texts(ops["row"]))
    for name, dtype in OPS_SCHEMA.items():
        ops = ops.with_columns(pl.col(name).cast(dtype))
    return ops.select(list(OPS_SCHEMA)), origin_us


def _in_order(ops: pl.DataFrame) -> pl.DataFrame:
    """Return ``ops`` by start; nothing of them stays where they were."""
    starts = ops.select("start_us").rechunk()
    order = starts.select(pl.arg_sort_by("start_us", maintain_order=True)).to_series()
    # Lists first: in the memory that they give up there is room for every other column.
    names = sorted(ops.columns, key=lambda name: name != "inputs")
    # From the pieces of a column, gathering takes ten times as long.
    return pl.DataFrame(
        [ops.drop_in_place(name).rechunk().gather(order) for name in names]
    )


def _texts(labels: pl.Series) -> pl.Series:
    """Return ``labels`` as texts; each that there is stays in memory once."""
    if not isinstance(labels.dtype, pl.Enum):
        return labels
    # A cast would write the text of each op.
    return labels.dtype.categories.gather(labels.to_physical())


def longest_bytes(ops: pl.DataFrame) -> int:
    """Return the size of the longest name, type or list of inputs in ``ops``."""
    names = pl.col("name", "op_type").str.len_bytes().max()
    inputs = pl.col("inputs").list.eval(pl.element().str.len_bytes()).list.sum().max()
    return max(size or 0 for size in ops.select(names, inputs).row(0))


def _lanes(ops: pl.DataFrame) -> pl.Series:
    """Return lanes numbered from 0 in each row by first use.

    So neither pids nor tids show through.
    """
    lane = ["row", "lane", "row_kind"]
    numbered = (
        ops.with_row_index("first_use")
        .group_by(lane)
        .agg(pl.col("first_use").min())
        .with_columns(number=pl.col("first_use").rank("dense").over("row") - 1)
    )
    return ops.join(numbered, on=lane, how="left", maintain_order="left")["number"]
