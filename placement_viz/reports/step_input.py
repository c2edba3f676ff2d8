"""Whether a step is bound by its input, in a sentence."""

from __future__ import annotations

from placement_viz.analysis.step.devices import StepDevices
from placement_viz.analysis.step.input_time import InputTime
from placement_viz.units import format_count, format_share, format_us

__all__ = ["input_answer"]

#: From these shares of the step on it is bound by its input.
#:
#: Source:
#:     ``kModeratelyInfeedBoundThresholdInPercent`` and ``kHighly…`` of TensorFlow's
#:     own input pipeline analyzer (``core/profiler/convert``, 2.x).
_MODERATELY, _HIGHLY = 0.05, 0.2


def input_answer(found: StepDevices) -> str:
    """Return whether the step waits for its input, with its figures."""
    if not found.is_timed:
        return "Not known: no op of this run has a duration."
    if found.input is None:
        return "Not known: nothing in this trace tells which ops bring the input in."
    outside = _about_the_call(found.input) + _about_the_pauses(found)
    brought = found.input.ops - found.input.feeds
    if brought == 0 and found.input.bound_us < _MODERATELY * found.span_us:
        return f"{_without_input_ops(found.input)}{outside}"
    return f"{_within_the_step(found)}{outside}"


def _without_input_ops(time: InputTime) -> str:
    """Return that a step without ops that make its input says nothing of that."""
    if not time.ops:
        return (
            "Not within the step: none of its ops brings input in. What input costs "
            "lies outside what a step records."
        )
    feeds = format_count(time.feeds, "input is", "inputs are")
    return (
        f"Not within the step: its {feeds} fed, ready made. Making what is fed lies "
        "outside what a step records."
    )


def _within_the_step(found: StepDevices) -> str:
    assert found.input is not None
    time, share = found.input, found.input.bound_us / found.span_us
    answer = "Yes" if share >= _HIGHLY else "Partly" if share >= _MODERATELY else "No"
    step = "the step" if found.steps.height == 1 else "the steps"
    return (
        f"{answer}: {format_share(time.bound_us, found.span_us)} of {step} "
        f"({format_us(time.bound_us)} of {format_us(found.span_us)}) is input: "
        f"devices had nothing to do for {format_us(time.wait_us)} until an input op "
        f"ended, and nothing but input ops ran for {format_us(time.alone_us)}."
    )


def _about_the_call(time: InputTime) -> str:
    if time.call_us is None or time.outside_us is None:
        return ""
    call = f" Untraced, a call of the step took {format_us(time.call_us)}"
    if not time.outside_us:
        return f"{call}, no longer than its ops when traced."
    return (
        f"{call}, {format_us(time.outside_us)} longer than its ops when traced: feeds, "
        "fetches and the start of the step; what lies between two calls is not in it."
    )


def _about_the_pauses(found: StepDevices) -> str:
    pauses_us = found.steps["between_us"].drop_nulls().to_list()
    if not pauses_us:
        return ""
    return (
        f" Between its steps lie {format_us(sum(pauses_us))} in which no op ran, as "
        "when a program makes its next batch."
    )
