"""How much of a step goes by with bringing its batch in."""

from __future__ import annotations

import dataclasses
import statistics

import polars as pl

from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.roles import Role
from placement_viz.analysis.step.work import Work

__all__ = ["InputTime", "find_input_time"]

# What the program hands to the step, ready made.
_FEED = "^(?:_Arg|Placeholder.*)$"


@dataclasses.dataclass(frozen=True)
class InputTime:
    """The time of a step that belongs to its input.

    Attributes:
        ops: Number of ops that brought a batch into the step.
        feeds: How many of these only hand over what the program had ready.
        alone_us: Time during which such ops ran and nothing else did.
        wait_us: Time during which a compute device had nothing to do and the op that
            ended this waited for one of them.
        bound_us: Time during which one of the two was so.
        call_us: Median wall time of untraced runs of the step, which holds no more of
            the program than the call itself; None where that is not recorded.
        outside_us: How much longer that is than the traced step; 0 if it is not, as
            tracing takes time itself. None where ``call_us`` is.
    """

    ops: int
    feeds: int
    alone_us: int
    wait_us: int
    bound_us: int
    call_us: int | None = None
    outside_us: int | None = None


def find_input_time(flow: Flow, work: Work, waits: Cover, time: Cover) -> InputTime:
    """Return what the input of a placed step costs.

    Args:
        flow: What ran.
        work: What kept its devices busy.
        waits: When a compute device waited for input.
        time: The moments of the steps.
    """
    is_input = pl.col("role") == Role.INPUT
    brought = flow.executed.filter(is_input)
    of_input, others = (
        cover(rows["start_us"], rows["duration_us"])
        for rows in (work.rows.filter(is_input), work.rows.filter(~is_input))
    )
    alone = of_input - others
    section, call_us, outside_us = flow.run.section, None, None
    if section is not None and section.step_times_us and flow.trace.n_steps == 1:
        call_us = round(statistics.median(section.step_times_us))
        outside_us = max(0, call_us - time.total_us)
    return InputTime(
        ops=brought.height,
        feeds=brought.filter(pl.col("op_type").str.contains(_FEED)).height,
        alone_us=alone.total_us,
        wait_us=waits.total_us,
        bound_us=(alone | waits).total_us,
        call_us=call_us,
        outside_us=outside_us,
    )
