"""Runs into results: values and tables, nothing drawn and nothing printed."""

from __future__ import annotations

import dataclasses
import functools

import polars as pl

from placement_viz.analysis.colocation import (
    GRADIENTS_SCHEMA,
    Colocation,
    judge_gradients,
)
from placement_viz.analysis.compare import Comparison, compare_analyses
from placement_viz.analysis.doubts import examine
from placement_viz.analysis.fixes import Fix, find_fixes
from placement_viz.analysis.step import Flow, StepAnalysis
from placement_viz.analysis.usage import DeviceUsage, device_usage
from placement_viz.model import Notice, Run

__all__ = [
    "Analysis",
    "Comparison",
    "Fix",
    "analyze_run",
    "compare_runs",
    "survey_run",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that is known about one run.

    Attributes:
        run: What was analysed, with its trace as far as that can be trusted.
        colocation: Each gradient op with its verdict.
        usage: One entry a device, in the order of ``run.trace.devices``.
        fixes: What to change, the one that brings most ops home first.
        notices: What a reader must know before trusting the rest.
        is_judged: Whether gradient ops have been looked for at all.
    """

    run: Run
    colocation: Colocation
    usage: tuple[DeviceUsage, ...]
    fixes: tuple[Fix, ...]
    notices: tuple[Notice, ...]
    is_judged: bool = True

    @functools.cached_property
    def step(self) -> StepAnalysis:
        """Return where the time of the step went, found when it is asked for."""
        return StepAnalysis(Flow(self.run, self.colocation))


def analyze_run(run: Run) -> Analysis:
    """Return what placed each gradient op where it ran, and what that cost."""
    trace, doubts = examine(run.trace)
    run = dataclasses.replace(run, trace=trace)
    colocation = judge_gradients(run)
    return Analysis(
        run=run,
        colocation=colocation,
        usage=device_usage(trace, colocation.gradients),
        fixes=find_fixes(run, colocation),
        notices=(*trace.notices, *doubts, *colocation.notices),
    )


def survey_run(run: Run) -> Analysis:
    """Return what is known of a run at once, before any op of it is judged.

    It is for who waits: what ran where and when can be looked at in a tenth of the
    time that the verdicts take.
    """
    nothing = Colocation(pl.DataFrame(schema=GRADIENTS_SCHEMA))
    return Analysis(
        run=run,
        colocation=nothing,
        usage=device_usage(run.trace, nothing.gradients),
        fixes=(),
        notices=run.trace.notices,
        is_judged=False,
    )


def compare_runs(baseline: Run | Analysis, candidate: Run | Analysis) -> Comparison:
    """Return what moved between two runs of the same program.

    Args:
        baseline: The run before the change.
        candidate: The run after it.
    """
    before, after = (
        each if isinstance(each, Analysis) else analyze_run(each)
        for each in (baseline, candidate)
    )
    return compare_analyses(
        (before.run, before.colocation, before.usage, before.step),
        (after.run, after.colocation, after.usage, after.step),
    )
