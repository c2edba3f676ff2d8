"""The sizes of tensors, from the snapshots that TensorFlow writes with show_memory."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from placement_viz.model import TENSORS_SCHEMA

__all__ = ["TensorSizes"]

#: Columns of :attr:`TensorSizes.table`. A name is kept as its hash, for there may be a
#: million of them, each of which an op of the trace has already.
_SCHEMA = pl.Schema({"key": pl.UInt64, "slot": pl.Int32, "n_bytes": pl.Int64})
# The text of a TensorDescription, without its quotes.
_SIZE = r"\brequested_bytes: (\d{1,18})\b"
_SLOT = r":(\d{1,9})$"


class TensorSizes:
    """Sizes by tensor, as far as they have been read."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._tables: list[pl.DataFrame] = []

    @property
    def table(self) -> pl.DataFrame:
        """Return what was read, for :meth:`add_table` of another process."""
        return pl.concat([_SCHEMA.to_frame(), *self._tables])

    def add(self, names: Iterable[str | None], told: Iterable[str | None]) -> None:
        """Take in some snapshots.

        Args:
            names: The tensor of each, ``op`` or ``op:1``.
            told: Its description; what tells no size does not count.
        """
        snapshots = pl.DataFrame(
            [
                pl.Series("name", list(names), dtype=pl.String),
                pl.Series("told", list(told), dtype=pl.String),
            ]
        )
        name = pl.col("name")
        sized = snapshots.with_columns(
            n_bytes=pl.col("told").str.extract(_SIZE).cast(pl.Int64)
        ).drop_nulls(["name", "n_bytes"])
        self._tables.append(
            sized.select(
                key=name.str.replace(_SLOT, "").hash(),
                slot=name.str.extract(_SLOT).cast(pl.Int32).fill_null(0),
                n_bytes="n_bytes",
            )
        )

    def add_table(self, table: pl.DataFrame) -> None:
        """Take in what another one read."""
        self._tables.append(table)

    def of(self, names: pl.Series) -> pl.DataFrame:
        """Return the tensors that ops of some names make, in the order of the names.

        Of a tensor that was made several times it is the largest.

        Returns:
            A table with the columns of :data:`~placement_viz.model.TENSORS_SCHEMA`.
        """
        sizes = self.table
        if sizes.is_empty():
            return TENSORS_SCHEMA.to_frame()
        # Names are many and long: only those that are wanted are taken, in the end.
        keys = names.hash().alias("key").to_frame().with_row_index("op")
        first = keys.join(sizes.select("key").unique(), on="key", how="semi").unique(
            "key", keep="first", maintain_order=True
        )
        largest = sizes.group_by("key", "slot").agg(pl.col("n_bytes").max())
        found = first.join(largest, on="key", how="inner").sort("op", "slot")
        return found.select(names.gather(found["op"]).alias("name"), "slot", "n_bytes")
