"""The words of a result, the same in the terminal and in the app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from placement_viz.analysis import Analysis, Comparison, Fix
from placement_viz.names import short_device
from placement_viz.reports.times_only import times_sentence
from placement_viz.reports.words import listed
from placement_viz.units import format_count, format_us

__all__ = ["comparison_headline", "explain", "fix_sentence", "headline"]

#: Less misplaced time than this share of the step is not worth a change.
_HARMLESS_SHARE = 0.01
_REASONS = {
    "explicit": "The program asks for this device with tf.device, and got it.",
    "pinned": "Its gradient function asks for this device, as for shape arithmetic.",
    "no-kernel": "The requested device has no kernel for it: soft placement moved it.",
    "no-compute": "It passes data or control on and computes nothing.",
    "folded": "An optimiser folded it into a constant before the step ran.",
    "shape": "It handles a shape: a few integers, kept where they are needed.",
}
_CAUSES = {
    "unconstrained": "Nothing binds it to a device: tf.gradients adds it without one, "
    "and TensorFlow puts such ops on its first device.",
    "inherited": "It is bound to another gradient op and went where that one went.",
    "tape-scope": "A GradientTape makes gradients on the device around the call of "
    "tape.gradient, whatever device the forward op is on.",
    "resource-edge": "It takes a variable or another resource, and must be where that "
    "is.",
    "group-merge": "Colocation binds its forward op to others, and all of them go to "
    "one device: the forward op would move too.",
    "while-body": "It is in the gradient of a loop or condition, whose body takes the "
    "device of the whole.",
    "shared": "An optimiser merged it with an equal op, so it serves gradients on "
    "several devices.",
}


_FLAG = "Pass colocate_gradients_with_ops=True where its gradient is built"
_REMEDIES = {
    "unconstrained": _FLAG,
    "inherited": _FLAG,
    "tape-scope": "Call the tf.function for the first time inside "
    "placement_viz.colocated_gradients()",
    "resource-edge": "Put the variable on the device of the forward op",
    "group-merge": f"{_FLAG}, and see whether you want the forward op to move",
    "while-body": "Build the whole loop inside the tf.device you want; "
    "colocation does not reach into its body",
    "shared": _FLAG,
}


def headline(analysis: Analysis) -> str:
    """Return in a sentence whether the gradients are on the right devices.

    For example: ``33 of 35 gradient ops ran on GPU:0; 21 of them belong on GPU:1:
    8.1 of 10.5 ms``. Times are busy times, so overlapping ops count once.
    """
    devices = analysis.run.trace.devices
    gradients = analysis.colocation.gradients
    summary = analysis.colocation.summary
    if not analysis.is_judged:
        ops = format_count(analysis.run.trace.ops.height, "op")
        on = format_count(len(devices), "device")
        return f"{ops} on {on}; which gradients are misplaced is being found out."
    if not analysis.run.trace.is_placed:
        return times_sentence(analysis)
    if not summary.gradient_ops:
        ops = format_count(analysis.run.trace.executed.height, "op")
        on = format_count(len(devices), "device")
        return f"No gradient op among {ops} on {on}: this step does not train."
    if summary.misplaced_ops:
        return _misplaced_sentence(analysis)
    rest = ", ".join(
        f"{n} {what}"
        for n, what in (
            (summary.colocated_ops, "with their forward op"),
            (summary.exempt_ops, "elsewhere for a good reason"),
            (summary.unknown_ops, "unknown"),
        )
        if n
    )
    on = listed(short_device(d, devices) for d in sorted(set(gradients["device"])))
    ops = format_count(summary.gradient_ops, "gradient op")
    return f"No gradient op is misplaced: {ops} on {on}, {rest}."


def comparison_headline(comparison: Comparison) -> str:
    """Return what changed from the baseline to the candidate, for an issue."""
    before, after = comparison.baseline, comparison.candidate
    step = f"{format_us(before.span_us)} → {format_us(after.span_us)}"
    if not comparison.is_placed:
        return (
            "No op can be said to have moved, for nothing proves its device in both "
            f"runs; step {step}."
        )
    left, right = before.colocation.summary, after.colocation.summary
    if not any(change.ops for change in comparison.changes):
        ops = format_count(comparison.matched_ops, "op")
        return f"No op moved, none is new and none gone, of {ops}; step {step}."
    moved = format_count(comparison.moves.height, "op")
    return (
        f"{moved} moved; misplaced gradient ops {left.misplaced_ops} → "
        f"{right.misplaced_ops}, their busy time {format_us(left.misplaced_us)} → "
        f"{format_us(right.misplaced_us)}; step {step}."
    )


def explain(
    gradient: Mapping[str, Any], devices: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the proof for one gradient op, question to answer, in reading order.

    Args:
        gradient: A row of ``Colocation.gradients``.
        devices: The devices of the run, so that names are as short as they can be.
    """
    ran_on = short_device(gradient["device"], devices)
    answers = {"Verdict": _verdict_sentence(gradient, devices)}
    if gradient["reason"]:
        answers["Why it is exempt"] = _REASONS[gradient["reason"]]
    if gradient["cause"]:
        answers["Why it is there"] = _CAUSES[gradient["cause"]]
    if forward := gradient["forward_op"]:
        device = gradient["forward_device"]
        where = short_device(device, devices) if device else "a device not known"
        answers["Forward op"] = f"{forward}, on {where}"
        answers["How they were paired"] = (
            f"{gradient['rule'][:1].upper()}{gradient['rule'][1:]} "
            f"(confidence {gradient['confidence']:.0%})."
        )
    if difference := _difference(gradient, devices):
        answers["Why not beside it"] = difference
    if gradient["requested_device"] is not None:
        asked = gradient["requested_device"] or "no device"
        answers["Asked for"] = f"{asked}; it ran on {ran_on}"
    if gradient["verdict"] == "misplaced":
        where = f" ({gradient['source']})" if gradient["source"] else ""
        answers["What to change"] = f"{_REMEDIES[gradient['cause']]}{where}."
    elif gradient["source"]:
        answers["Built at"] = gradient["source"]
    return answers


def fix_sentence(fix: Fix) -> str:
    """Return where to change what, what that brings and what else it does."""
    where = f"{fix.where}: " if fix.where else ""
    brings = format_count(fix.removes_ops, "op")
    also = f" {fix.side_effects[:1].upper()}{fix.side_effects[1:]}."
    return (
        f"{where}{fix.change}. Brings {brings} home, {format_us(fix.removes_us)} of "
        f"durations.{also if fix.side_effects else ''}"
    )


def _difference(gradient: Mapping[str, Any], devices: tuple[str, ...]) -> str:
    """Return why an op belongs elsewhere than where its forward op ran, if it does."""
    expected, at_home = gradient["expected_device"], gradient["forward_device"]
    if expected is None or at_home is None or expected == at_home:
        return ""
    there = short_device(expected, devices)
    if gradient["op_type"] == "AddN":
        return (
            "With colocated gradients TensorFlow adds up what is on one device first "
            f"and numbers sums anew: the sum of this name is then on {there}."
        )
    return f"Colocation binds the forward op to others, and would move it to {there}."


def _verdict_sentence(gradient: Mapping[str, Any], devices: tuple[str, ...]) -> str:
    ran_on = short_device(gradient["device"], devices)
    expected = gradient["expected_device"]
    home = short_device(expected, devices) if expected else "a device not known"
    match gradient["verdict"]:
        case "misplaced":
            return f"Misplaced: it ran on {ran_on} and belongs on {home}."
        case "colocated":
            return f"At home: it ran on {ran_on}, where its forward op belongs."
        case "exempt":
            return f"Exempt: it ran on {ran_on}; its forward op belongs on {home}."
        case _:
            return f"Unknown: it ran on {ran_on}; nothing tells where it belongs."


def _misplaced_sentence(analysis: Analysis) -> str:
    devices = analysis.run.trace.devices
    gradients, misplaced = analysis.colocation.gradients, analysis.colocation.misplaced
    summary = analysis.colocation.summary
    by_device = (
        misplaced.group_by("device").len().sort("len", "device", descending=True)
    )
    worst = by_device["device"][0]
    there = gradients.filter(pl.col("device") == worst).height
    homes = listed(
        short_device(device, devices)
        for device in sorted(set(misplaced["expected_device"]))
    )
    n = summary.misplaced_ops
    belong = "belongs" if n == 1 else "belong"
    ops = format_count(summary.gradient_ops, "gradient op")
    # With several crowded devices "of them" would be wrong.
    who = f"{n:,} gradient ops"
    if by_device.height == 1:
        who = "all of them" if 1 < n == there else f"{n:,} of them"
    where = homes if by_device.height == 1 else "another device"
    placed = (
        f"{there:,} of {ops} ran on {short_device(worst, devices)}; {who} {belong} on "
        f"{where}"
    )
    span_us = analysis.run.trace.span_us
    if not span_us:
        return f"{placed}. What that costs is not known: this run has no times."
    share = summary.misplaced_us / span_us
    is_harmless = " That is below 1 % of the step: placement is not its problem."
    return (
        f"{placed}: {format_us(summary.misplaced_us)} of "
        f"{format_us(summary.gradient_us)} of gradient time."
        f"{is_harmless if share < _HARMLESS_SHARE else ''}"
    )
