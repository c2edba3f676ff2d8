"""Runs into results: values and tables, nothing drawn and nothing printed."""

from __future__ import annotations

import dataclasses

from placement_viz.analysis.colocation import Colocation, judge_gradients
from placement_viz.analysis.compare import Comparison, compare_analyses
from placement_viz.analysis.doubts import examine
from placement_viz.analysis.fixes import Fix, find_fixes
from placement_viz.analysis.usage import DeviceUsage, device_usage
from placement_viz.model import Notice, Run

__all__ = ["Analysis", "Comparison", "Fix", "analyze_run", "compare_runs"]


@dataclasses.dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that is known about one run.

    Attributes:
        run: What was analysed, with its trace as far as that can be trusted.
        colocation: Each gradient op with its verdict.
        usage: One entry a device, in the order of ``run.trace.devices``.
        fixes: What to change, the one that brings most ops home first.
        notices: What a reader must know before trusting the rest.
    """

    run: Run
    colocation: Colocation
    usage: tuple[DeviceUsage, ...]
    fixes: tuple[Fix, ...]
    notices: tuple[Notice, ...]


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
        (before.run, before.colocation, before.usage),
        (after.run, after.colocation, after.usage),
    )
