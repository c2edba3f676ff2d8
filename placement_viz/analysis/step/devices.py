"""How each device spent the step: busy with what, idle waiting for what."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import polars as pl

from placement_viz import names
from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.gaps import find_gaps, split_waits
from placement_viz.analysis.step.idle import list_gaps, sum_idle
from placement_viz.analysis.step.input_time import InputTime, find_input_time
from placement_viz.analysis.step.overlap import count_at_once, find_steps
from placement_viz.analysis.step.roles import Role
from placement_viz.analysis.step.waits import Reason
from placement_viz.analysis.step.work import Work, find_work

__all__ = ["DEVICES_SCHEMA", "ROLES_SCHEMA", "StepDevices", "find_device_time"]

#: Columns of :attr:`StepDevices.devices`, in the order of ``Trace.devices``.
#:
#: ``device``     one of them
#: ``is_compute`` whether the step is meant to compute there: it is no CPU, or all are
#: ``times``      what the times are of: ``ops``; ``kernels``; or ``launches``, where
#:                ops only start kernels and these are not known
#: ``ops``        number of ops; of kernels where only a tracer tells devices
#: ``busy_us``    time during which one at least of ``times`` ran; null without times
#: ``idle_us``    the rest of the steps; null without times
#: ``launch_us``  time during which an op ran that only starts kernels; null for others
#: ``kernel_us``  time during which a kernel ran; null where they are not known
DEVICES_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "is_compute": pl.Boolean,
        "times": pl.String,
        "ops": pl.Int64,
        "busy_us": pl.Int64,
        "idle_us": pl.Int64,
        "launch_us": pl.Int64,
        "kernel_us": pl.Int64,
    }
)

#: Columns of :attr:`StepDevices.roles`, by device and then in the order of ``Role``.
#:
#: ``share_us``  busy time that counts for this role: those of a device add up to its
#:               ``busy_us``
#: ``busy_us``   time during which an op of the role ran, whatever else did
#: ``ops``       number of them, or of kernels
ROLES_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "role": pl.String,
        "ops": pl.Int64,
        "busy_us": pl.Int64,
        "share_us": pl.Int64,
    }
)


@dataclasses.dataclass(frozen=True, eq=False)
class StepDevices:
    """How the devices of a run spent its steps.

    Attributes:
        is_timed: Whether anything took time. If not, only numbers of ops are known.
        span_us: Time in which a step ran. What lies between steps is no part of it.
        devices: Each device, as in :data:`DEVICES_SCHEMA`.
        roles: What they were busy with, as in :data:`ROLES_SCHEMA`; empty unless the
            trace is placed, for then nothing tells what an op is for.
        gaps: The longest gaps of each device, the longest first, as in
            ``LISTED_GAPS_SCHEMA``; at most ``MOST_GAPS`` a device.
        idle: Idle time of all gaps by reason, as in ``IDLE_SCHEMA``.
        overlap: For how long so many devices were busy, as in ``OVERLAP_SCHEMA``.
        compute_overlap: The same of the compute devices alone.
        steps: Each step, as in ``STEPS_SCHEMA``.
        unused: Compute devices that the session had and nothing ran on; None where its
            devices are not recorded.
        input: What the input of the step costs; None where no op's role is known.
        lost_kernels: Number of kernels whose device is not known.
    """

    is_timed: bool
    span_us: int
    devices: pl.DataFrame
    roles: pl.DataFrame
    gaps: pl.DataFrame
    idle: pl.DataFrame
    overlap: pl.DataFrame
    compute_overlap: pl.DataFrame
    steps: pl.DataFrame
    unused: tuple[str, ...] | None = None
    input: InputTime | None = None
    lost_kernels: int = 0


def find_device_time(flow: Flow) -> StepDevices:
    """Return how each device of ``flow`` spent the steps.

    A device is busy while one of its ops runs; while one of its kernels does, where a
    tracer tells these and each of them can be told its device.
    """
    ops, work = flow.ops, find_work(flow)
    steps = find_steps(ops)
    is_timed = bool((ops["duration_us"] > 0).any())
    # Without a duration nothing is known of the time in between either.
    time = cover(steps["start_us"], steps["span_us"].to_numpy() * is_timed)
    compute = _compute_devices(flow.trace.devices)
    busy, roles = _attribute(flow, work)
    # A list of what took no time would be a list of what is not known.
    gaps = find_gaps(flow, work, busy if is_timed else {}, steps)
    waits = split_waits(gaps)
    for_input = waits.filter(
        pl.col("reason") == Reason.INPUT, pl.col("device").is_in(compute)
    )
    input_time = find_input_time(
        flow, work, cover(for_input["start_us"], for_input["duration_us"]), time
    )
    is_placed = flow.trace.is_placed
    return StepDevices(
        is_timed=is_timed,
        span_us=time.total_us,
        devices=_tell_devices(flow, work, busy, time),
        roles=roles if is_placed and is_timed else roles.clear(),
        gaps=list_gaps(gaps, ops),
        idle=sum_idle(waits, flow),
        overlap=count_at_once(list(busy.values()), time),
        compute_overlap=count_at_once([busy[device] for device in compute], time),
        steps=steps,
        unused=_unused(flow, compute),
        input=input_time if is_placed and is_timed else None,
        lost_kernels=work.lost_kernels,
    )


def _compute_devices(devices: Collection[str]) -> tuple[str, ...]:
    others = tuple(d for d in devices if _starts_kernels(d))
    return others or tuple(devices)


def _starts_kernels(device: str) -> bool:
    kind = names.device_type(device)
    return bool(kind) and not kind.endswith("CPU")


def _attribute(flow: Flow, work: Work) -> tuple[dict[str, Cover], pl.DataFrame]:
    """Return when each device was busy, and the shares of the roles in that."""
    rows = work.rows.select("device", "role", "start_us", "duration_us")
    parts = rows.partition_by("device", "role", as_dict=True)
    busy, shares = {}, []
    for device in flow.trace.devices:
        seen = cover([], [])
        for role in Role:
            part = parts.get((device, role.value))
            if part is None:
                continue
            of_role = cover(part["start_us"], part["duration_us"])
            share_us = (of_role - seen).total_us
            shares.append((device, role, part.height, of_role.total_us, share_us))
            seen = seen | of_role
        busy[device] = seen
    return busy, pl.DataFrame(shares, schema=ROLES_SCHEMA, orient="row")


def _tell_devices(
    flow: Flow, work: Work, busy: Mapping[str, Cover], time: Cover
) -> pl.DataFrame:
    compute = _compute_devices(flow.trace.devices)
    is_placed = flow.trace.is_placed
    n_ops = (flow.executed if is_placed else work.rows)["device"].value_counts()
    count = dict(n_ops.iter_rows())
    rows = []
    for device, moments in busy.items():
        busy_us, idle_us = moments.total_us, (time - moments).total_us
        launch_us = kernel_us = None
        times = "ops"
        if is_placed and _starts_kernels(device):
            ops = work.ops.filter(pl.col("device") == device)
            launch_us = cover(ops["start_us"], ops["duration_us"]).total_us
            times = "launches"
        if device in work.with_kernels:
            kernel_us, times = busy_us, "kernels"
        facts = (busy_us, idle_us, launch_us, kernel_us)
        known = facts if time.total_us else (None,) * len(facts)
        rows.append((device, device in compute, times, count.get(device, 0), *known))
    return pl.DataFrame(rows, schema=DEVICES_SCHEMA, orient="row")


def _unused(flow: Flow, compute: Collection[str]) -> tuple[str, ...] | None:
    """Return the compute devices of the session that ran nothing."""
    section = flow.run.section
    if section is None or not section.devices or not flow.trace.is_placed:
        return None
    had = {record.name for record in section.devices}
    meant = _compute_devices([*had, *compute])
    idle = had.intersection(meant) - set(flow.trace.devices)
    return tuple(sorted(idle, key=names.device_order))
