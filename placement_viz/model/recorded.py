"""What a run file records of sizes and memory, in tables."""

from __future__ import annotations

import polars as pl

from placement_viz import names
from placement_viz.schema import RunSection

__all__ = [
    "ALLOCATIONS_SCHEMA",
    "COPIES_SCHEMA",
    "TENSORS_SCHEMA",
    "allocations_table",
    "copies_table",
    "tensors_table",
]

#: Columns of :attr:`Run.tensors`, one row a tensor.
#:
#: ``name``     node that makes it
#: ``slot``     number of that node's output
#: ``n_bytes``  its size; 0 is legal
TENSORS_SCHEMA = pl.Schema(
    {"name": pl.String(), "slot": pl.Int32(), "n_bytes": pl.Int64()}
)

#: Columns of :attr:`Run.allocations`, one row an allocation, in order of start.
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

#: Columns of :attr:`Run.copies`, one row a copy between devices, in order of start.
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


def tensors_table(section: RunSection | None) -> pl.DataFrame:
    """Return the sizes in ``section`` as :data:`TENSORS_SCHEMA` has them."""
    sizes = {} if section is None else section.tensor_bytes
    slots = [names.producer_and_slot(tensor) for tensor in sizes]
    columns = {
        "name": [name for name, _ in slots],
        "slot": [slot for _, slot in slots],
        "n_bytes": list(sizes.values()),
    }
    return pl.DataFrame(columns, schema=TENSORS_SCHEMA)


def allocations_table(section: RunSection | None, origin_us: int) -> pl.DataFrame:
    """Return the allocations in ``section`` as :data:`ALLOCATIONS_SCHEMA` has them.

    Args:
        section: What a run file records; None for any other run.
        origin_us: Clock time of the first op's start.
    """
    taken = {} if section is None else section.allocations
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


def copies_table(section: RunSection | None, origin_us: int) -> pl.DataFrame:
    """Return the copies in ``section`` as :data:`COPIES_SCHEMA` has them.

    Args:
        section: What a run file records; None for any other run.
        origin_us: Clock time of the first op's start.
    """
    rows = [
        (
            each.op or None,
            names.canonical_device(each.source) or None,
            names.canonical_device(each.target) or None,
            each.at_us - origin_us,
            each.duration_us,
            each.n_bytes,
        )
        for each in (() if section is None else section.copies)
    ]
    table = pl.DataFrame(rows, schema=COPIES_SCHEMA, orient="row")
    return table.sort("start_us", maintain_order=True)
