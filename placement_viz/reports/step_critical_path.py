"""The critical path of a step in sentences, and what is known of the clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from placement_viz.analysis.step.as_ran import Reason
from placement_viz.analysis.step.clocks import Clocks
from placement_viz.analysis.step.critical_path import CriticalPath
from placement_viz.analysis.step.flow import Flow
from placement_viz.model import RowKind
from placement_viz.names import short_device
from placement_viz.units import format_count, format_us

__all__ = ["clock_sentences", "critical_path_sentences"]

_NOT_KNOWN = "The critical path is not known"
#: Devices that a sentence names; the time of others is added up.
_MOST_DEVICES = 4
_Row = Mapping[str, Any]


def critical_path_sentences(found: CriticalPath, flow: Flow) -> list[str]:
    """Return how long the critical path is, what it consists of and what it waits for.

    Times of several steps are added up.

    Args:
        found: The critical path of ``flow``.
        flow: What ran.
    """
    if not flow.trace.is_placed:
        return [f"{_NOT_KNOWN}: no row of this trace proves on which device an op ran."]
    if found.steps.is_empty():
        return [f"{_NOT_KNOWN}: this run has no times."]
    total = found.steps.sum().row(0, named=True)
    return [
        _path_sentence(found, total, flow.trace.devices),
        *_wait_sentences(found, total, flow),
        *_misplaced_sentences(found, flow),
        *_slack_sentences(found, flow),
        *_limits(total, flow),
        *clock_sentences(found.clocks),
    ]


def clock_sentences(clocks: Clocks) -> list[str]:
    """Return by how much the clocks of tasks differ; nothing for a single task."""
    tasks = clocks.tasks.rows(named=True)
    if len(tasks) < 2:
        return []
    first, *others = tasks
    label = _labels(clocks)
    reference = label[first["task"]]
    differing = [each for each in others if _differs(each)]
    unknown = [each for each in others if not _is_bounded(each)]
    agreeing = [each for each in others if each not in (*differing, *unknown)]
    sentences = [_offset_sentence(each, label, reference) for each in differing]
    for some, what in (
        (agreeing, "Nothing shows that the clock of {} differs from that of {}."),
        (
            unknown,
            "What was passed on does not tell how the clock of {} and {} differ.",
        ),
    ):
        if some:
            who = " or ".join(label[each["task"]] for each in some)
            sentences.append(what.format(who, reference))
    return sentences


def _path_sentence(found: CriticalPath, total: _Row, devices: tuple[str, ...]) -> str:
    n_steps = found.steps.height
    subject = (
        "The critical path takes"
        if n_steps == 1
        else f"The critical paths of {n_steps:,} steps take"
    )
    times = found.by_device(devices).filter(pl.col("compute_us") > 0)
    named = times.sort("compute_us", descending=True).head(_MOST_DEVICES)
    parts = [
        f"{short_device(device, devices)} {format_us(time)}"
        for device, time in named.select("device", "compute_us").iter_rows()
    ]
    rest_us = total["compute_us"] - named["compute_us"].sum()
    if rest_us:
        parts.append(f"others {format_us(rest_us)}")
    where = f" ({', '.join(parts)})" if parts else ""
    afar = (
        f", of that {format_us(total['afar_us'])} for what came from another device"
        if total["afar_us"]
        else ""
    )
    return (
        f"{subject} {format_us(total['path_us'])} of {format_us(total['span_us'])}: "
        f"{format_us(total['compute_us'])} computing{where}, "
        f"{format_us(total['wait_us'])} waiting{afar}."
    )


def _wait_sentences(found: CriticalPath, total: _Row, flow: Flow) -> list[str]:
    """Return the longest wait, and what is left if none is."""
    if not total["wait_us"]:
        return []
    names, devices = flow.trace.ops["name"], flow.trace.devices
    has_waited = found.path.filter(pl.col("reason") != Reason.START)
    op = has_waited.sort("gap_us", descending=True, maintain_order=True).row(
        0, named=True
    )
    awaited = names[op["awaited"]]
    there = ""
    if op["is_from_afar"]:
        there = f" on {short_device(flow.trace.ops['device'][op['awaited']], devices)}"
    why = {
        Reason.DATA: f"after {awaited} had run{there}, whose value it takes",
        Reason.CONTROL: f"after {awaited} had run{there}, as a control edge demands",
        Reason.QUEUE: f"after {awaited} had run there, the op before it",
    }[op["reason"]]
    begin, end = format_us(op["start_us"] - op["gap_us"]), format_us(op["start_us"])
    when = f"at {begin}" if begin == end else f"from {begin} to {end}"
    longest = (
        f"The longest wait is {format_us(op['gap_us'])}, {when}, before "
        f"{names[op['op']]} on {short_device(op['device'], devices)}: {why}."
    )
    chain = format_us(total["chain_us"])
    return [longest, f"If nothing waited, the longest chain of ops would take {chain}."]


def _misplaced_sentences(found: CriticalPath, flow: Flow) -> list[str]:
    misplaced_us = flow.colocation.summary.misplaced_us
    if not misplaced_us:
        return []
    path = "the critical path" if found.steps.height == 1 else "the critical paths"
    all_of_it = f"of {format_us(misplaced_us)} of misplaced gradient time"
    if not found.misplaced_us:
        return [f"None {all_of_it} is on {path}."]
    return [f"{format_us(found.misplaced_us)} {all_of_it} are on {path}."]


def _slack_sentences(found: CriticalPath, flow: Flow) -> list[str]:
    """Return how much time the misplaced ops have that are on no path."""
    beside = found.waits.filter(
        ~pl.col("is_critical"), pl.col("start_us") < pl.col("end_us")
    ).join(flow.colocation.misplaced, on="op", how="semi")
    if beside.is_empty():
        return []
    least, most = beside.select(
        least=pl.col("slack_us").min(), most=pl.col("slack_us").max()
    ).row(0)
    ops = format_count(beside.height, "misplaced op")
    slack = f"{format_us(least)} to {format_us(most)}"
    if least == most:
        slack = format_us(least)
    return [f"{ops} beside it could have ended {slack} later without delaying a step."]


def _limits(total: _Row, flow: Flow) -> list[str]:
    """Return what the path cannot show."""
    limits = []
    if RowKind.STREAM in flow.trace.ops["row_kind"]:
        limits.append(
            "Kernels run when the ops that start them may have ended: the critical "
            "path is that of the ops."
        )
    if total["backward"]:
        inputs = format_count(total["backward"], "input")
        limits.append(
            f"{inputs} of ops cannot be followed: the op that made it ended after the "
            "one that took it had begun."
        )
    return limits


def _labels(clocks: Clocks) -> dict[str, str]:
    """Return task to the name that a person calls it by."""
    devices = tuple(clocks.task_of)
    return {
        task: short_device(device, devices).partition("/")[0]
        for device, task in clocks.task_of.items()
    }


def _is_bounded(task: _Row) -> bool:
    return task["lower_us"] is not None or task["upper_us"] is not None


def _differs(task: _Row) -> bool:
    """Return whether the dataflow proves that the clock differs from the first one."""
    lower_us, upper_us = task["lower_us"], task["upper_us"]
    return (lower_us is not None and lower_us > 0) or (
        upper_us is not None and upper_us < 0
    )


def _offset_sentence(task: _Row, label: Mapping[str, str], reference: str) -> str:
    ends = [task["lower_us"], task["upper_us"]]
    is_behind = ends[0] is not None and ends[0] > 0
    known = sorted(abs(end) for end in ends if end is not None)
    how_far, bounds = f"at least {format_us(known[0])}", ""
    if task["offset_us"] is not None:
        how_far = f"about {format_us(abs(task['offset_us']))}"
        bounds = f"between {' and '.join(map(format_us, known))}, "
    transfers = format_count(task["edges"], "transfer")
    early = ""
    if task["negative_waits"]:
        most = format_us(-task["least_wait_us"])
        early = f", {task['negative_waits']:,} of them up to {most} too early"
    return (
        f"The clock of {label[task['task']]} is {how_far} "
        f"{'behind' if is_behind else 'ahead of'} that of {reference} ({bounds}by "
        f"{transfers}{early})."
    )
