"""How the devices spent the step, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from placement_viz.analysis.step.devices import StepDevices
from placement_viz.analysis.step.waits import Reason
from placement_viz.names import short_device
from placement_viz.reports.words import listed
from placement_viz.units import format_count, format_share, format_us

__all__ = ["device_sentences", "second_device_answer"]

#: So many devices have sentences of their own.
_MOST_DEVICES = 8
#: Less than this share of the step is hardly anything.
_HARDLY = 0.01
#: Reason to what a device waits for, and how the longest such wait ended or began.
_WAITS = {
    Reason.INPUT: ("for input ops on", "until {} ended"),
    Reason.OTHER_DEVICE: ("for ops on", "until {} ended"),
    Reason.HANDOVER: ("for values to come over from", "after {} had ended"),
}


def device_sentences(found: StepDevices) -> list[str]:
    """Return what each device did and waited for, and what they did at once."""
    if not found.is_timed:
        return ["How long its devices were busy is not recorded: no op has a duration."]
    rows = found.devices.head(_MOST_DEVICES).to_dicts()
    sentences = [sentence for row in rows for sentence in _about_device(found, row)]
    if left := found.devices.height - len(rows):
        sentences.append(f"{format_count(left, 'more device')} not told of here.")
    sentences += _about_kernels(found)
    if _n_compute(found) > 1:
        sentences.append(_together(found))
    return sentences + _about_steps(found)


def second_device_answer(found: StepDevices) -> str:
    """Return whether a second device is used, with its figures."""
    compute = found.devices.filter("is_compute")
    names = [_short(device, found) for device in compute["device"]]
    if found.unused:
        idle = listed(_short(device, found) for device in found.unused)
        return f"No op of this step ran on {idle}, which the session had."
    if not names:
        return "Not known: this run names no device."
    if len(names) == 1 and found.unused is None:
        return (
            f"All that computes ran on {names[0]}; whether there was another device is "
            "not recorded."
        )
    if len(names) == 1:
        return f"There is none: the session had no other device like {names[0]}."
    if not found.is_timed:
        return f"Ops ran on {listed(names)}; for how long is not recorded."
    least = compute.sort("busy_us", maintain_order=True).row(0, named=True)
    answer = "Yes"
    if _together_us(found) < _HARDLY * found.span_us:
        answer = "Only in turns"
    if least["busy_us"] < _HARDLY * found.span_us:
        answer = "Hardly"
    return (
        f"{answer}: {_short(least['device'], found)}, the least busy of {len(names)} "
        f"devices, was busy {_share(least['busy_us'], found)}. {_together(found)}"
    )


def _about_device(found: StepDevices, row: dict[str, Any]) -> Iterator[str]:
    name = _short(row["device"], found)
    idle = found.idle.filter(pl.col("device") == row["device"])
    parts = [f"{name} was busy {_share(row['busy_us'], found)}", *_waits(found, idle)]
    if launch_us := _sum_of(idle, Reason.LAUNCH):
        parts.append(f"it waited {format_us(launch_us)} for the host to launch kernels")
    if left_us := _sum_of(idle, Reason.NOTHING_LEFT):
        parts.append(f"no op was left for it in {format_us(left_us)}")
    if unknown_us := _sum_of(idle, Reason.UNKNOWN):
        parts.append(f"nothing tells why it idled for {format_us(unknown_us)}")
    yield "; ".join(parts) + "."
    shares = found.roles.filter(
        pl.col("device") == row["device"], pl.col("share_us") > 0
    ).sort("share_us", descending=True, maintain_order=True)
    if not shares.is_empty():
        listed = ", ".join(
            f"{role} {format_us(share_us)}"
            for role, share_us in shares.select("role", "share_us").iter_rows()
        )
        yield f"{name}'s {format_us(row['busy_us'])} went into {listed}."
    if row["kernel_us"] is not None and row["launch_us"] is not None:
        yield (
            f"{name}'s kernels ran for {format_us(row['kernel_us'])}; the ops that "
            f"launched them took {format_us(row['launch_us'])}."
        )


def _waits(found: StepDevices, idle: pl.DataFrame) -> Iterator[str]:
    """Yield how long a device waited for what, and the longest such wait."""
    waits = (
        idle.filter(pl.col("reason").is_in([reason.value for reason in _WAITS]))
        .sort("longest_us", descending=True, maintain_order=True)
        .group_by("reason", "awaited_device", maintain_order=True)
        .agg(
            pl.col("idle_us", "gaps").sum(),
            pl.col("longest_us", "longest_start_us", "longest_name").first(),
        )
        .sort("idle_us", descending=True, maintain_order=True)
    )
    for wait in waits.iter_rows(named=True):
        what, end = _WAITS[Reason(wait["reason"])]
        waited, on = format_us(wait["idle_us"]), _short(wait["awaited_device"], found)
        longest = format_us(wait["longest_us"])
        which = "" if wait["gaps"] == 1 else f"longest {longest} "
        begin = format_us(wait["longest_start_us"])
        end = end.format(wait["longest_name"])
        yield f"it waited {waited} {what} {on}, {which}from {begin}, {end}"


def _about_kernels(found: StepDevices) -> list[str]:
    """Return what the times of a device that runs kernels are really of."""
    launches = found.devices.filter(pl.col("times") == "launches")["device"]
    if not len(launches):
        return []
    which = listed(_short(device, found) for device in launches[:_MOST_DEVICES])
    why = f"{'its' if len(launches) == 1 else 'their'} kernels are not recorded"
    if found.lost_kernels:
        lost = format_count(found.lost_kernels, "kernel")
        why = f"nothing proves on which device {lost} ran"
    return [f"Times of {which} are those of ops that launch kernels: {why}."]


def _about_steps(found: StepDevices) -> list[str]:
    if found.steps.height < 2:
        return []
    ran = f"{found.steps.height:,} steps ran for {format_us(found.span_us)} in all"
    between = found.steps.drop_nulls("between_us").sort("between_us", descending=True)
    if between.is_empty():
        return [f"{ran}; the time between them is not recorded."]
    pauses_us = between["between_us"].to_list()
    longest = f"longest {format_us(pauses_us[0])} before step {between['step'][0]}"
    return [f"{ran}; between them lay {format_us(sum(pauses_us))} more, {longest}."]


def _together(found: StepDevices) -> str:
    """Return for how long several compute devices were busy at once."""
    overlap, n = found.compute_overlap, _n_compute(found)
    together_us = _together_us(found)
    if not together_us:
        return f"Never more than 1 of {n} devices was busy at a time."
    share = f"{format_us(together_us)} ({format_share(together_us, found.span_us)})"
    if n == 2:
        return f"Both devices were busy together for {share}."
    times = dict(overlap.filter(pl.col("time_us") > 0).iter_rows())
    most, mean = max(times), sum(k * us for k, us in times.items()) / found.span_us
    return (
        f"Two devices or more were busy together for {share}, at most {most} of {n}, "
        f"on average {mean:.1f}."
    )


def _together_us(found: StepDevices) -> int:
    overlap = found.compute_overlap
    return int(overlap.filter(pl.col("busy_devices") > 1)["time_us"].sum())


def _n_compute(found: StepDevices) -> int:
    return int(found.devices["is_compute"].sum())


def _sum_of(idle: pl.DataFrame, reason: Reason) -> int:
    return int(idle.filter(pl.col("reason") == reason)["idle_us"].sum())


def _share(part_us: int, found: StepDevices) -> str:
    """Return ``34 % of the step (3.6 ms of 10.5 ms)``."""
    step = "the step" if found.steps.height == 1 else "the steps"
    share = format_share(part_us, found.span_us)
    return f"{share} of {step} ({format_us(part_us)} of {format_us(found.span_us)})"


def _short(device: str, found: StepDevices) -> str:
    return short_device(device, [*found.devices["device"], *(found.unused or ())])
