"""How long each device was busy, and with what."""

from __future__ import annotations

import dataclasses

import numpy.typing as npt
import polars as pl

from placement_viz.analysis.intervals import cover
from placement_viz.model import RowKind, Trace

__all__ = ["DeviceUsage", "busy_us", "device_usage", "told_once"]

#: All other columns would be copied for nothing.
_TIMES = ("device", "start_us", "duration_us")


@dataclasses.dataclass(frozen=True)
class DeviceUsage:
    """What one device did during the run.

    All times are unions of intervals: overlapping ops count once.

    Attributes:
        device: Canonical name, in full where a row proves it.
        ops: Number of ops that ran on it; of kernels where only a tracer tells them.
        busy_us: Time during which at least one of these ran.
        gradient_busy_us: Time during which at least one gradient op ran.
        misplaced_busy_us: Time during which at least one misplaced gradient op ran.
        copy_busy_us: Time during which at least one copy to, from or on it ran; 0
            where a tracer calls the devices otherwise than the executors do.
    """

    device: str
    ops: int
    busy_us: int
    gradient_busy_us: int
    misplaced_busy_us: int
    copy_busy_us: int = 0


def busy_us(start_us: npt.ArrayLike, duration_us: npt.ArrayLike) -> int:
    """Return the time during which at least one interval is open.

    Overlapping intervals count once, so the result never exceeds the span that
    they cover. The sum of durations is no substitute: a device runs several ops
    at a time.

    Args:
        start_us: (n,) starts, in any order.
        duration_us: (n,) lengths, not negative.

    Returns:
        Microseconds; 0 for no intervals.
    """
    return cover(start_us, duration_us).total_us


def device_usage(trace: Trace, gradients: pl.DataFrame) -> tuple[DeviceUsage, ...]:
    """Return the usage of each device of ``trace``, in the order of its devices.

    Args:
        trace: What ran.
        gradients: Its judged gradient ops, with ``op``, ``device``, ``verdict``,
            ``start_us`` and ``duration_us``.
    """
    misplaced = gradients.filter(pl.col("verdict") == "misplaced")
    copies = trace.ops.select(*_TIMES, "row_kind").filter(
        pl.col("row_kind") == RowKind.MEMCPY
    )
    busy, gradient_busy, misplaced_busy, copy_busy = (
        {
            device: (ops.height, busy_us(ops["start_us"], ops["duration_us"]))
            for (device,), ops in table.partition_by("device", as_dict=True).items()
        }
        for table in (
            each.select(_TIMES) for each in (_ran(trace), gradients, misplaced, copies)
        )
    )
    nothing = (0, 0)
    return tuple(
        DeviceUsage(
            device=device,
            ops=busy.get(device, nothing)[0],
            busy_us=busy.get(device, nothing)[1],
            gradient_busy_us=gradient_busy.get(device, nothing)[1],
            misplaced_busy_us=misplaced_busy.get(device, nothing)[1],
            copy_busy_us=copy_busy.get(device, nothing)[1],
        )
        for device in trace.devices
    )


def told_once(of_all: str = "/stream:all$") -> pl.Expr:
    """Return which rows hold what a tracer saw of each device once.

    What stands on the row of a stream stands also on that of all streams, if there is
    one.

    Args:
        of_all: A regular expression for the labels of rows that hold everything.
    """
    is_of_all = pl.col("row").str.contains(of_all)
    return is_of_all | ~is_of_all.any().over("device")


def _ran(trace: Trace) -> pl.DataFrame:
    """Return what ran on the devices of ``trace``, each op or kernel once."""
    kinds = [kind for kind in trace.device_rows if kind != RowKind.MEMCPY]
    ran = trace.ops.select(*_TIMES, "row_kind", "row").filter(
        pl.col("row_kind").is_in(kinds)
    )
    return ran.filter(told_once())
