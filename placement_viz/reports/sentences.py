"""The words of a result, the same in the terminal and in the app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from placement_viz.analysis import Analysis, Comparison
from placement_viz.names import short_device
from placement_viz.units import format_count, format_us

__all__ = ["comparison_headline", "explain", "headline"]

_REASONS = {
    "explicit": "The program asks for this device with tf.device, and got it.",
    "no-compute": "It passes data or control on and computes nothing.",
    "shape": "It handles a shape: a few integers, kept where they are needed.",
    "no-kernel": "The requested device has no kernel for it: soft placement moved it.",
}
_CAUSES = {
    "unconstrained": "Nothing binds it to a device: tf.gradients adds it without one, "
    "and TensorFlow puts such ops on its first device.",
    "inherited": "It is bound to another gradient op and went where that one went.",
}


def headline(analysis: Analysis) -> str:
    """Return in a sentence whether the gradients are on the right devices.

    For example: ``33 of 35 gradient ops ran on GPU:0; 21 of them belong on GPU:1:
    8.1 of 10.5 ms``. Times are busy times, so overlapping ops count once.
    """
    devices = analysis.run.trace.devices
    gradients = analysis.colocation.gradients
    summary = analysis.colocation.summary
    if not devices:
        return "No row of this trace names a device: it proves no placement."
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
    on = _join(short_device(d, devices) for d in sorted(set(gradients["device"])))
    ops = format_count(summary.gradient_ops, "gradient op")
    return f"No gradient op is misplaced: {ops} on {on}, {rest}."


def comparison_headline(comparison: Comparison) -> str:
    """Return what changed from the baseline to the candidate, for an issue."""
    before, after = comparison.baseline, comparison.candidate
    left, right = before.colocation.summary, after.colocation.summary
    moved = format_count(comparison.moves.height, "op")
    return (
        f"{moved} moved; misplaced gradient ops {left.misplaced_ops} → "
        f"{right.misplaced_ops}, their busy time {format_us(left.misplaced_us)} → "
        f"{format_us(right.misplaced_us)}; step {format_us(before.span_us)} → "
        f"{format_us(after.span_us)}."
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
    if gradient["requested_device"] is not None:
        asked = gradient["requested_device"] or "no device"
        answers["Asked for"] = f"{asked}; it ran on {ran_on}"
    if gradient["verdict"] == "misplaced":
        answers["What to change"] = (
            "Pass colocate_gradients_with_ops=True where its gradient is built"
            + (f" ({gradient['source']})." if gradient["source"] else ".")
        )
    elif gradient["source"]:
        answers["Built at"] = gradient["source"]
    return answers


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
    homes = _join(
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
    return (
        f"{there:,} of {ops} ran on {short_device(worst, devices)}; {who} {belong} on "
        f"{where}: {format_us(summary.misplaced_us)} of "
        f"{format_us(summary.gradient_us)} of gradient time."
    )


def _join(words: Any) -> str:
    *head, last = dict.fromkeys(words)
    return f"{', '.join(head)} and {last}" if head else last
