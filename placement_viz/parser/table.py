"""Ops in columns: what every reader makes of its format in the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import polars as pl

from placement_viz.model import OPS_SCHEMA, RowKind

__all__ = ["SEPARATOR", "Row", "ops_table"]

#: Between the tensors in a text of several. TensorFlow's names cannot have it; in
#: somebody else's it is shown as what cannot be shown.
SEPARATOR = "\x1f"
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
    ops = ops.sort("start_us", maintain_order=True)
    ops = (
        # By first use, so that neither pids nor tids show through.
        ops.with_columns(
            start_us=pl.col("start_us") - origin_us,
            row_kind=pl.when(_IS_RECEIVED)
            .then(pl.lit(RowKind.RECEIVE))
            .otherwise(pl.col("row").replace_strict(kinds)),
        )
        .with_row_index("first_use")
        .with_columns(lane=pl.col("first_use").min().over("row", "lane", "row_kind"))
        .drop("first_use")
        .with_columns(lane=pl.col("lane").rank("dense").over("row") - 1)
    )
    ops = ops.with_columns(device=pl.col("row").replace_strict(devices))
    # Last, for lists are what takes most memory while a table is rearranged.
    ops = ops.with_columns(inputs=pl.col("inputs").str.split(SEPARATOR).fill_null([]))
    columns = (pl.col(name).cast(dtype) for name, dtype in OPS_SCHEMA.items())
    return ops.select(columns), origin_us
