"""Sentences about the towers of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from placement_viz.analysis.step.controller import Controller
from placement_viz.analysis.step.tower_comparison import Difference
from placement_viz.analysis.step.tower_exchanges import Exchange
from placement_viz.analysis.step.towers import Towers
from placement_viz.model import Trace
from placement_viz.names import short_device
from placement_viz.reports.words import listed
from placement_viz.units import format_bytes, format_count, format_share, format_us

__all__ = ["controller_sentences", "towers_sentences"]

_NOT_RECORDED = "not recorded"
_NOT_TOLD = "Towers are not told: nothing proves where an op of this run was placed."
_NO_TOWERS = (
    "No towers: no two scopes have the same ops, hold most of the model, and do not "
    "feed each other."
)
_MOST_EXAMPLES = 3
_DIFFERENCES = {
    Difference.MISSING: "ran only in {first}",
    Difference.EXTRA: "ran only in {scope}",
    Difference.DEVICE: "ran on another kind of device in {scope} than in {first}",
    Difference.SLOWER: "took more than twice as long in {scope} as in {first}",
    Difference.FASTER: "took less than half as long in {scope} as in {first}",
}


def towers_sentences(towers: Towers, trace: Trace) -> list[str]:
    """Return what there is to say about the towers of a step, the whole first.

    Args:
        towers: What was found.
        trace: What ran.
    """
    if not trace.is_placed:
        return [_NOT_TOLD]
    if not towers.scopes:
        return [_NO_TOWERS]
    return [
        _whole(towers),
        *(_tower(row, trace) for row in towers.table.iter_rows(named=True)),
        *(_exchanges(towers, tower) for tower in range(len(towers.scopes))),
        *_differences(towers),
    ]


def controller_sentences(controller: Controller, trace: Trace) -> list[str]:
    """Return when gradients became variables, and who was busy meanwhile.

    Args:
        controller: What was found.
        trace: What ran.
    """
    if controller.windows.is_empty():
        return ["No gradient was seen to be applied to a variable."]
    sentences = []
    for window in controller.windows.iter_rows(named=True):
        sentences.append(_window(window, trace))
        busy = controller.meanwhile.filter(pl.col("step") == window["step"])
        if window["start_us"] is not None:
            sentences.append(_meanwhile(busy, window, trace.devices))
    return sentences


def _name(scope: str) -> str:
    return scope or "the first tower"


def _on(devices: Sequence[str], among: Sequence[str]) -> str:
    return listed(short_device(device, among) for device in devices) or _NOT_RECORDED


def _of_step(step: int, trace: Trace) -> str:
    return f" in step {step}" if trace.n_steps > 1 else ""


def _whole(towers: Towers) -> str:
    """Return how many towers there are, and how far they ran side by side."""
    names = listed(_name(scope) for scope in towers.scopes)
    count = format_count(len(towers.scopes), "tower")
    placed = "all on one device" if towers.is_serial else "not all on one device"
    if towers.together.is_empty():
        return f"{count}, {placed}: {names}; times are {_NOT_RECORDED}."
    any_us, both_us = (int(towers.together[n].sum()) for n in ("any_us", "together_us"))
    return (
        f"{count}, {placed}: {names}; for {format_us(both_us)} of the "
        f"{format_us(any_us)} in which one of them computed, two or more did "
        f"({format_share(both_us, any_us)})."
    )


def _tower(row: Mapping[str, Any], trace: Trace) -> str:
    """Return where and when one tower ran."""
    where = _on(row["devices"], trace.devices)
    gradients = _on(row["gradient_devices"], trace.devices)
    start = f"{_name(row['scope'])}{_of_step(row['step'], trace)}"
    ops = (
        f"{start}: {format_count(row['ops'], 'op')} ran, forward on {where}, "
        f"{row['gradient_ops']:,} of them gradients on {gradients}"
    )
    if row["compute_us"] is None:
        return f"{ops}; times are {_NOT_RECORDED}."
    length = row["end_us"] - row["start_us"]
    return (
        f"{ops}; from {format_us(row['start_us'])} to {format_us(row['end_us'])} it "
        f"computed for {format_us(row['compute_us'])} and waited for "
        f"{format_us(row['wait_us'])} ({format_share(row['wait_us'], length)})."
    )


def _exchanges(towers: Towers, tower: int) -> str:
    """Return what one tower took and gave."""
    rows = towers.exchanges.filter(pl.col("tower") == tower).iter_rows(named=True)
    by_kind = {row["exchange"]: row for row in rows}
    weights, gradients = (
        _amount(by_kind[kind], kind, direction)
        for kind, direction in (
            (Exchange.WEIGHTS, "from"),
            (Exchange.GRADIENTS, "to"),
        )
    )
    return f"{_name(towers.scopes[tower])} takes {weights}; it gives {gradients}."


def _amount(row: Mapping[str, Any], kind: str, direction: str) -> str:
    noun = format_count(row["tensors"], f"tensor of {kind}", f"tensors of {kind}")
    if not row["tensors"]:
        return f"{noun} in this trace"
    moved = (
        f"{row['moved_tensors']:,} of them ({_size(row['moved_bytes'])}) {direction} "
        "another device"
        if row["moved_tensors"]
        else f"none {direction} another device"
    )
    return f"{noun} ({_size(row['n_bytes'])}), {moved}"


def _size(n_bytes: int | None) -> str:
    return f"size {_NOT_RECORDED}" if n_bytes is None else format_bytes(n_bytes)


def _differences(towers: Towers) -> list[str]:
    """Return how towers differ from the first, the most time first."""
    first = _name(towers.scopes[0])
    found = towers.comparison.drop_nulls("difference")
    sentences = []
    for tower, scope in enumerate(towers.scopes[1:], start=1):
        own = found.filter(pl.col("tower") == tower)
        for difference, words in _DIFFERENCES.items():
            ops = own.filter(pl.col("difference") == difference)
            if not ops.is_empty():
                said = words.format(first=first, scope=_name(scope))
                sentences.append(_difference(ops, said))
        if own.is_empty():
            sentences.append(f"{_name(scope)} ran what {first} ran, as fast op by op.")
    return sentences


def _difference(ops: pl.DataFrame, said: str) -> str:
    """Return one kind of difference, with examples."""
    examples = [
        f"{row['relative']} ({_time(row['first_us'])} → {_time(row['duration_us'])})"
        for row in ops.head(_MOST_EXAMPLES).iter_rows(named=True)
    ]
    more = ", …" if ops.height > _MOST_EXAMPLES else ""
    count = format_count(ops.height, "op")
    return f"{count} {said}: {', '.join(examples)}{more}."


def _time(duration_us: int | None) -> str:
    return "none" if duration_us is None else format_us(duration_us)


def _window(window: Mapping[str, Any], trace: Trace) -> str:
    """Return when the gradients of one step were applied, and by whom."""
    ops = trace.ops["name"]
    first, last = ops[window["first_op"]], ops[window["last_op"]]
    what = (
        f"Gradients are summed and applied{_of_step(window['step'], trace)} by "
        f"{format_count(window['ops'], 'op')} on "
        f"{_on(window['devices'], trace.devices)}, from {first} to {last}"
    )
    if window["start_us"] is None:
        return f"{what}; times are {_NOT_RECORDED}."
    length = window["end_us"] - window["start_us"]
    return (
        f"{what}: {format_us(window['start_us'])} to {format_us(window['end_us'])}, "
        f"{format_share(length, window['step_us'])} of the step; these ops ran for "
        f"{format_us(window['busy_us'])} of it, and gradients were still computed for "
        f"{format_us(window['gradient_us'])} "
        f"({format_share(window['gradient_us'], length)})."
    )


def _meanwhile(
    busy: pl.DataFrame, window: Mapping[str, Any], devices: Sequence[str]
) -> str:
    length = window["end_us"] - window["start_us"]
    shares = [
        f"{short_device(device, devices)} was busy for {format_us(busy_us)} "
        f"({format_share(busy_us, length)})"
        for device, busy_us in busy.select("device", "busy_us").iter_rows()
    ]
    return f"In these {format_us(length)}, {listed(shares)}."
