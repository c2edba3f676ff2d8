"""How much memory each device held over the step, and what was alive at the peak."""

from __future__ import annotations

import dataclasses
import enum

import numpy as np
import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.lifetimes import find_lifetimes

__all__ = [
    "CURVES_SCHEMA",
    "HELD_SCHEMA",
    "DevicePeak",
    "Memory",
    "MemoryFrom",
    "find_memory",
]

#: Columns of :attr:`Memory.held`, one row a piece of memory, in order of start.
#:
#: ``op``            position in ``Trace.ops`` of the execution that took it; null when
#:                   that is not there
#: ``name``          its node
#: ``device``        where the memory is
#: ``start_us``      when it was taken, from the first op of the run
#: ``end_us``        when it was given back; the end of the run when it was not
#: ``n_bytes``       how much
#: ``is_misplaced``  whether a misplaced gradient op took it
HELD_SCHEMA = pl.Schema(
    {
        "op": pl.UInt32,
        "name": pl.String,
        "device": pl.String,
        "start_us": pl.Int64,
        "end_us": pl.Int64,
        "n_bytes": pl.Int64,
        "is_misplaced": pl.Boolean,
    }
)

#: Columns of :attr:`Memory.curves`, by device and then in order of time.
#:
#: ``device``
#: ``at_us``    from here on
#: ``n_bytes``  so much is held, until the next row of the device
CURVES_SCHEMA = pl.Schema({"device": pl.String, "at_us": pl.Int64, "n_bytes": pl.Int64})


class MemoryFrom(enum.StrEnum):
    """How it is known what was held, strongest first."""

    ALLOCATIONS = "allocations"
    SIZES = "sizes"


@dataclasses.dataclass(frozen=True, eq=False)
class DevicePeak:
    """The moment at which a device held most.

    Attributes:
        device: Canonical name.
        at_us: When that began, from the first op of the run.
        n_bytes: How much it held.
        misplaced_bytes: How much of that misplaced gradient ops had taken.
        without_misplaced_bytes: The most that the device would hold at any moment had
            these ops run elsewhere.
        alive: The rows of ``HELD_SCHEMA`` that make up the peak, largest first.
    """

    device: str
    at_us: int
    n_bytes: int
    misplaced_bytes: int
    without_misplaced_bytes: int
    alive: pl.DataFrame


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """The memory that the ops of a step took; variables are not among it.

    Attributes:
        known_from: How it is known.
        held: Each piece, see :data:`HELD_SCHEMA`.
        curves: What each device held over time, see :data:`CURVES_SCHEMA`.
        peaks: One entry for each device that held anything, in the order of
            ``trace.devices``.
    """

    known_from: MemoryFrom
    held: pl.DataFrame
    curves: pl.DataFrame
    peaks: tuple[DevicePeak, ...]


def find_memory(flow: Flow) -> Memory | None:
    """Return what the devices held; None when neither that nor any size is recorded.

    Allocations, where they are recorded, include the workspace of an op and tell who
    took over whose memory. Otherwise a tensor is taken to be held from the start of
    its op to the end of the last op that takes it.
    """
    if not flow.run.allocations.is_empty():
        known_from, found = MemoryFrom.ALLOCATIONS, _recorded(flow)
    else:
        known_from, found = MemoryFrom.SIZES, find_lifetimes(flow)
    misplaced = flow.colocation.misplaced["op"].implode()
    held = (
        found.with_columns(
            is_misplaced=pl.col("op").is_in(misplaced).fill_null(value=False)
        )
        .select(HELD_SCHEMA.names())
        .cast(HELD_SCHEMA)
        .sort("start_us", maintain_order=True)
    )
    if held.is_empty():
        return None
    by_device = {
        device: table
        for (device,), table in held.partition_by("device", as_dict=True).items()
    }
    # Memory may be held where nothing ran.
    order = dict.fromkeys((*flow.trace.devices, *sorted(by_device)))
    curves = _curves(held)
    return Memory(
        known_from=known_from,
        held=held,
        curves=curves,
        peaks=tuple(
            _peak(curves.filter(pl.col("device") == device), by_device[device])
            for device in order
            if device in by_device
        ),
    )


def _recorded(flow: Flow) -> pl.DataFrame:
    """Return what ops allocated, each with the execution that did."""
    taken = flow.run.allocations.with_row_index("row")
    ran = flow.executed.select("name", "device", "start_us", "op").sort("start_us")
    # A clock that is read before it is the op's may be a moment early.
    found = taken.join_asof(
        ran,
        on="start_us",
        by=["name", "device"],
        strategy="nearest",
        check_sortedness=False,
    )
    return found.with_columns(pl.col("end_us").fill_null(flow.trace.span_us))


def _curves(held: pl.DataFrame) -> pl.DataFrame:
    """Return what is held after each moment at which that changes."""
    changes = pl.concat(
        [
            held.select("device", at_us="start_us", n_bytes="n_bytes"),
            held.select("device", at_us="end_us", n_bytes=-pl.col("n_bytes")),
        ]
    )
    return (
        changes.group_by("device", "at_us")
        .agg(pl.col("n_bytes").sum())
        .sort("device", "at_us")
        .with_columns(pl.col("n_bytes").cum_sum().over("device"))
        .cast(CURVES_SCHEMA)
    )


def _peak(curve: pl.DataFrame, held: pl.DataFrame) -> DevicePeak:
    """Return the peak of a device's ``curve``, which is that of what it ``held``."""
    at_us, n_bytes = _highest(curve)
    alive = held.filter(pl.col("start_us") <= at_us, pl.col("end_us") > at_us)
    others = held.filter(~pl.col("is_misplaced"))
    return DevicePeak(
        device=curve["device"][0],
        at_us=at_us,
        n_bytes=n_bytes,
        misplaced_bytes=int(alive.filter("is_misplaced")["n_bytes"].sum()),
        # With none that is misplaced nothing would leave.
        without_misplaced_bytes=(
            n_bytes if others.height == held.height else _highest(_curves(others))[1]
        ),
        alive=alive.sort("n_bytes", "start_us", descending=[True, False]),
    )


def _highest(curve: pl.DataFrame) -> tuple[int, int]:
    """Return when most is held for the first time, and how much; (0, 0) for nothing."""
    if curve.is_empty():
        return 0, 0
    place = int(np.argmax(curve["n_bytes"].to_numpy()))
    return curve["at_us"][place], curve["n_bytes"][place]
