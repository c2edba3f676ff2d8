"""The sizes of tensors, from the snapshots that TensorFlow writes with show_memory."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from placement_viz.model import TENSORS_SCHEMA

__all__ = ["TensorSizes"]

#: Columns of :attr:`TensorSizes.table`. A name is kept as its hash, for there may be a
#: million of them, each of which an op of the trace has already.
_SCHEMA = pl.Schema({"key": pl.UInt64, "slot": pl.Int32, "n_bytes": pl.Int64})
# In the text of a TensorDescription. Neither has ``\d`` or ``\b``, which stand for all
# digits and words there are and take more memory than the sizes of a large trace.
_SIZE = r"requested_bytes: ([0-9]+)"
_SLOT = r":([0-9]+)$"


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
            n_bytes=pl.col("told").str.extract(_SIZE).cast(pl.Int64, strict=False)
        ).drop_nulls(["name", "n_bytes"])
        self._tables.append(
            sized.select(
                key=name.str.replace(_SLOT, "").hash(),
                slot=name.str.extract(_SLOT).cast(pl.Int32, strict=False).fill_null(0),
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
        # Numbers, for a table of all names would be the most memory that reading takes.
        keys = names.hash()
        wanted = keys.is_in(sizes["key"].implode()).arg_true()
        first = pl.DataFrame({"key": keys.gather(wanted), "op": wanted}).unique(
            "key", keep="first", maintain_order=True
        )
        largest = (
            sizes.join(first, on="key", how="inner")
            .group_by("op", "slot")
            .agg(pl.col("n_bytes").max())
            .sort("op", "slot")
        )
        return largest.select(
            names.gather(largest["op"]).alias("name"), "slot", "n_bytes"
        )
