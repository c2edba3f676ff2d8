"""What is recorded of sizes and memory, in tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import polars as pl

from placement_viz import names
from placement_viz.schema import Allocation, CopyRecord

__all__ = [
    "ALLOCATIONS_SCHEMA",
    "COPIES_SCHEMA",
    "TENSORS_SCHEMA",
    "Recorded",
    "recorded_tables",
]

#: Columns of :attr:`Recorded.tensors`, one row a tensor.
#:
#: ``name``     node that makes it
#: ``slot``     number of that node's output
#: ``n_bytes``  its size; 0 is legal
TENSORS_SCHEMA = pl.Schema(
    {"name": pl.String(), "slot": pl.Int32(), "n_bytes": pl.Int64()}
)

#: Columns of :attr:`Recorded.allocations`, one row an allocation, in order of start.
#:
#: ``name``       node that took the memory
#: ``device``     canonical device
#: ``allocator``  whose memory it is; devices may share one
#: ``start_us``   from the first op of the run
#: ``end_us``     when it was given back, likewise; null when not in this step
#: ``n_bytes``    above 0
ALLOCATIONS_SCHEMA = pl.Schema(
    {
        "name": pl.String(),
        "device": pl.String(),
        "allocator": pl.String(),
        "start_us": pl.Int64(),
        "end_us": pl.Int64(),
        "n_bytes": pl.Int64(),
    }
)

#: Columns of :attr:`Recorded.copies`, a row a copy between devices, in order of start.
#:
#: ``name``         node that made the tensor; null when not told
#: ``source``       canonical device it came from; null when not told
#: ``device``       canonical device that got it, likewise
#: ``start_us``     from the first op of the run
#: ``duration_us``  how long it took
#: ``n_bytes``      above 0
COPIES_SCHEMA = pl.Schema(
    {
        "name": pl.String(),
        "source": pl.String(),
        "device": pl.String(),
        "start_us": pl.Int64(),
        "duration_us": pl.Int64(),
        "n_bytes": pl.Int64(),
    }
)


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """What is recorded of sizes and memory beside the ops; a table is empty if nothing.

    Attributes:
        tensors: A table with the columns of :data:`TENSORS_SCHEMA`.
        allocations: A table with the columns of :data:`ALLOCATIONS_SCHEMA`.
        copies: A table with the columns of :data:`COPIES_SCHEMA`.
    """

    tensors: pl.DataFrame = dataclasses.field(default_factory=TENSORS_SCHEMA.to_frame)
    allocations: pl.DataFrame = dataclasses.field(
        default_factory=ALLOCATIONS_SCHEMA.to_frame
    )
    copies: pl.DataFrame = dataclasses.field(default_factory=COPIES_SCHEMA.to_frame)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is recorded."""
        tables = (self.tensors, self.allocations, self.copies)
        return all(table.is_empty() for table in tables)

    def moved(self, by_us: int) -> Recorded:
        """Return the same, ``by_us`` later."""
        times = pl.col("start_us") + by_us
        ends = pl.col("end_us") + by_us
        return Recorded(
            self.tensors,
            self.allocations.with_columns(times, ends),
            self.copies.with_columns(times),
        )


def recorded_tables(
    tensor_bytes: Mapping[str, int],
    allocations: Mapping[str, Mapping[str, Iterable[Allocation]]],
    copies: Iterable[CopyRecord],
    origin_us: int,
) -> Recorded:
    """Return in tables what a run file or a RunMetadata says.

    Args:
        tensor_bytes: As in :class:`~placement_viz.schema.RunSection`, like the next.
        allocations: As there.
        copies: As there.
        origin_us: Clock time of the first op's start.
    """
    return Recorded(
        tensors=_tensors(tensor_bytes),
        allocations=_allocations(allocations, origin_us),
        copies=_copies(copies, origin_us),
    )


def _tensors(sizes: Mapping[str, int]) -> pl.DataFrame:
    slots = [names.producer_and_slot(tensor) for tensor in sizes]
    columns = {
        "name": [name for name, _ in slots],
        "slot": [slot for _, slot in slots],
        "n_bytes": list(sizes.values()),
    }
    return pl.DataFrame(columns, schema=TENSORS_SCHEMA)


def _allocations(
    taken: Mapping[str, Mapping[str, Iterable[Allocation]]], origin_us: int
) -> pl.DataFrame:
    rows = [
        (
            each.op,
            names.canonical_device(device),
            allocator,
            each.at_us - origin_us,
            None if each.freed_us is None else each.freed_us - origin_us,
            each.n_bytes,
        )
        for device, allocators in taken.items()
        for allocator, found in allocators.items()
        for each in found
    ]
    table = pl.DataFrame(rows, schema=ALLOCATIONS_SCHEMA, orient="row")
    return table.sort("start_us", maintain_order=True)


def _copies(copies: Iterable[CopyRecord], origin_us: int) -> pl.DataFrame:
    rows = [
        (
            each.op or None,
            names.canonical_device(each.source) or None,
            names.canonical_device(each.target) or None,
            each.at_us - origin_us,
            each.duration_us,
            each.n_bytes,
        )
        for each in copies
    ]
    table = pl.DataFrame(rows, schema=COPIES_SCHEMA, orient="row")
    return table.sort("start_us", maintain_order=True)
