"""Ops in columns: what every reader makes of its format in the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import polars as pl

from placement_viz.model import OPS_SCHEMA, RowKind

__all__ = ["LONGEST_BYTES", "SEPARATOR", "Row", "longest_bytes", "ops_table"]

#: Between the tensors in a text of several. TensorFlow's names cannot have it; in
#: somebody else's it is shown as what cannot be shown.
SEPARATOR = "\x1f"
#: No name of TensorFlow's, and no list of inputs, is nearly as long.
LONGEST_BYTES = 1 << 20
#: How many ops' inputs are taken apart at a time.
_SLICE = 1 << 16
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
        ops: ``name``, ``op_type``, ``row``, ``lane``, ``start_us``, ``duration_us``
            and ``inputs``, joined by :data:`SEPARATOR` and null for none; rows and
            lanes as the file numbers them. ``step`` may be there, and is 0 if not.
        rows: Label of each row to what it says.
    """
    origin_us = int(ops["start_us"].min() or 0)  # type: ignore[arg-type]
    kinds = {label: row.kind for label, row in rows.items()}
    devices = {label: row.device for label, row in rows.items()}
    if "step" not in ops.columns:
        ops = ops.with_columns(step=pl.lit(0, pl.Int32))
    # Step by step, each giving up what it replaces: of a large trace nothing may be in
    # memory twice.
    ops = ops.sort("start_us", maintain_order=True)
    ops = ops.with_columns(
        start_us=pl.col("start_us") - origin_us,
        row_kind=pl.when(_IS_RECEIVED)
        .then(pl.lit(RowKind.RECEIVE))
        .otherwise(pl.col("row").replace_strict(kinds)),
    )
    ops = ops.with_columns(lane=_lanes(ops.select("row", "lane", "row_kind")))
    ops = ops.with_columns(inputs=_separated(ops["inputs"]))
    # Looked up and not cast: so all ops of a row share one text.
    labels = {label: label for label in rows}
    ops = ops.with_columns(
        device=pl.col("row").replace_strict(devices, return_dtype=pl.String),
        row=pl.col("row").replace_strict(labels, return_dtype=pl.String),
    )
    columns = (pl.col(name).cast(dtype) for name, dtype in OPS_SCHEMA.items())
    return ops.select(columns), origin_us


def longest_bytes(ops: pl.DataFrame) -> int:
    """Return the size of the longest name, type or list of inputs in ``ops``."""
    texts = pl.col("name", "op_type", "inputs").str.len_bytes().max()
    return max(ops.select(texts).row(0), key=lambda size: size or 0) or 0


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


def _separated(joined: pl.Series) -> pl.Series:
    """Return the texts in each text; none for null."""
    pieces = [
        joined.slice(start, _SLICE).str.split(SEPARATOR).fill_null([])
        for start in range(0, max(1, len(joined)), _SLICE)
    ]
    return pl.concat(pieces)
