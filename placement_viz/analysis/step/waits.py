"""What a device that had nothing to do waited for."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.roles import Role
from placement_viz.analysis.step.work import Work
from placement_viz.model import RowKind

__all__ = ["Inputs", "Reason", "explained", "find_inputs", "find_received"]

_Ints = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]

# A chain of more ops that took no time is none.
_LONGEST_CHAIN = 100
_NONE = -1


class Reason(enum.StrEnum):
    """Why a device had nothing to do; the first that holds.

    ``INPUT``: an op that brings a batch in was still running. ``OTHER_DEVICE``: an op
    on another device was. ``HANDOVER``: that op had ended, and what it made had to come
    over; a trace does not tell the transfer from the wait for a thread. ``LAUNCH``: the
    host was not done with the op that starts the kernel. ``NOTHING_LEFT``: no op of the
    step came after. ``UNKNOWN``: all that the op after takes was there, as far as is
    recorded.
    """

    INPUT = "input"
    OTHER_DEVICE = "other-device"
    NOTHING_LEFT = "nothing-left"
    HANDOVER = "handover"
    LAUNCH = "launch"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
    """What each op of a trace waited for, by position.

    Attributes:
        awaited: (n,) of what it takes, what ended last; -1 if nothing of it ran.
        done_us: (n,) end of it and of the kernels that it started.
        start_us: (n,) begin of it.
        end_us: (n,) end of it.
        device: (n,) number of its device.
        is_input: (n,) whether it brings a batch in.
    """

    awaited: _Ints
    done_us: _Ints
    start_us: _Ints
    end_us: _Ints
    device: _Ints
    is_input: _Flags


def find_inputs(flow: Flow, work: Work) -> Inputs:
    """Return what each op of ``flow`` waited for, and when that had ended."""
    ops, edges = flow.ops, flow.edges
    done = ops["end_us"].to_numpy().copy()
    kernels = work.rows.filter(
        pl.col("executed").is_not_null() & (pl.col("executed") != pl.col("op"))
    )
    ends = kernels["start_us"] + kernels["duration_us"]
    np.maximum.at(done, kernels["executed"].to_numpy(), ends.to_numpy())
    producer, consumer = (
        edges[end].to_numpy().astype(np.int64) for end in ("producer", "consumer")
    )
    latest = np.full(ops.height, np.iinfo(np.int64).min)
    np.maximum.at(latest, consumer, done[producer])
    is_last = done[producer] == latest[consumer]
    awaited = np.full(ops.height, _NONE, dtype=np.int64)
    awaited[consumer[is_last]] = producer[is_last]
    numbers = pl.DataFrame({"device": flow.trace.devices}).with_row_index("number")
    device = ops.join(numbers, on="device", how="left", maintain_order="left")["number"]
    return Inputs(
        awaited=awaited,
        done_us=done,
        start_us=ops["start_us"].to_numpy(),
        end_us=ops["end_us"].to_numpy(),
        device=device.cast(pl.Int64).fill_null(_NONE).to_numpy(),
        is_input=(ops["role"] == Role.INPUT).to_numpy(),
    )


def find_received(flow: Flow) -> dict[str, Cover]:
    """Return when each device was receiving from another process."""
    received = flow.ops.filter(pl.col("row_kind") == RowKind.RECEIVE)
    return {
        device: cover(rows["start_us"], rows["duration_us"])
        for (device,), rows in received.partition_by("device", as_dict=True).items()
    }


def explained(
    gaps: pl.DataFrame, inputs: Inputs, device: int, received: Cover
) -> pl.DataFrame:
    """Add ``awaited``, ``wait_us``, ``reason`` and ``rest``, as in ``GAPS_SCHEMA``.

    What came from elsewhere was on its way in a gap if it had been made while the last
    op before ran, or later, or if the device was receiving. If it is older, the device
    may have had it all along.

    Args:
        gaps: Those of one device: ``start_us``, ``duration_us``, ``before``, ``after``
            and the op ``executed`` that is ``after`` or started it; -1 for none.
        inputs: What each op waited for.
        device: Number of the device.
        received: When it was receiving from another process.
    """
    awaited = _awaited(gaps, inputs, device)
    before, executed = gaps["before"].to_numpy(), gaps["executed"].to_numpy()
    start, duration = gaps["start_us"].to_numpy(), gaps["duration_us"].to_numpy()
    done = inputs.done_us[awaited]
    is_elsewhere = (awaited != _NONE) & (inputs.device[awaited] != device)
    is_input = (awaited != _NONE) & inputs.is_input[awaited]
    wait = np.where(is_elsewhere | is_input, (done - start).clip(0, duration), 0)
    is_fresh = (before == _NONE) | (done >= inputs.start_us[before])
    is_on_its_way = is_fresh | (received.within(start, start + duration) > 0)
    is_launched = (executed != gaps["after"].to_numpy()) & (executed != _NONE)
    is_late = is_launched & (inputs.end_us[executed] > start)
    is_last = gaps["after"].to_numpy() == _NONE
    told = (wait > 0) & is_input, wait > 0
    rest = is_last, is_elsewhere & is_on_its_way, is_late
    return gaps.with_columns(
        awaited=pl.Series(awaited),
        wait_us=pl.Series(wait),
        reason=_first_of((*told, *rest), tuple(Reason)),
        rest=_first_of(rest, tuple(Reason)[len(told) :]),
    )


def _first_of(are_so: Sequence[_Flags], reasons: Sequence[Reason]) -> pl.Series:
    """Return for each gap the first reason that holds, or the last of all if none."""
    number = np.full(len(are_so[0]), len(are_so))
    for place, is_so in reversed(list(enumerate(are_so))):
        number[is_so] = place
    return pl.Series([reason.value for reason in reasons]).gather(number)


def _awaited(gaps: pl.DataFrame, inputs: Inputs, device: int) -> _Ints:
    """Return what the ops that ended the gaps of a device waited for; -1 for nothing.

    What ended in the gap on the idle device itself took no time there: what that
    waited for is the reason.
    """
    ops, start = gaps["executed"].to_numpy(), gaps["start_us"].to_numpy()
    awaited = np.where(ops == _NONE, _NONE, inputs.awaited[ops])
    for _ in range(_LONGEST_CHAIN):
        is_passing = (
            (awaited != _NONE)
            & (inputs.device[awaited] == device)
            & (inputs.done_us[awaited] > start)
        )
        further = np.where(is_passing, inputs.awaited[awaited], _NONE)
        if (further == _NONE).all():
            break
        awaited = np.where(further == _NONE, awaited, further)
    return awaited
