"""Several steps in one run."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import polars as pl

from placement_viz.model import Notice, Run, Trace
from placement_viz.units import format_count

__all__ = ["Step", "join_steps"]

#: So many steps are named in a notice.
_MOST_NAMED = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """A run of one step or more, on its way into a run of several.

    Attributes:
        name: What a person knows it by: a file, or a tag in one.
        run: What it is.
    """

    name: str
    run: Run


def join_steps(steps: Sequence[Step], source: str) -> Run:
    """Return one run of all ``steps``, in their order.

    Rows are joined by name, for their numbers are only valid in one file. What lies
    between two steps is left out unless it is shorter than they are: nobody traced it,
    and it may be hours. Graph and section are those of the first step that has them.

    Args:
        steps: At least one.
        source: What to call the run.
    """
    if len(steps) == 1:
        return dataclasses.replace(steps[0].run, source=source)
    runs = [step.run for step in steps]
    graph = next((run.graph for run in runs if run.graph), None)
    section = next((run.section for run in runs if run.section), None)
    formats = dict.fromkeys(run.format for run in runs)
    traces = [run.trace for run in runs]
    skipped: dict[str, int] = {}
    for kind, n in itertools.chain.from_iterable(t.skipped.items() for t in traces):
        skipped[kind] = skipped.get(kind, 0) + n
    trace = Trace(
        ops=_joined(traces),
        origin_us=traces[0].origin_us,
        skipped=skipped,
        notices=(
            _notice([step.name for step in steps]),
            *dict.fromkeys(n for trace in traces for n in trace.notices),
        ),
    )
    return Run(source, "+".join(formats), trace, graph, section)


def _joined(traces: Sequence[Trace]) -> pl.DataFrame:
    """Return the ops of all traces, each after the one before it."""
    tables = [traces[0].ops]
    begin_us = n_steps = 0
    for before, trace in itertools.pairwise(traces):
        begin_us += before.span_us + _pause_us(before, trace)
        n_steps += before.n_steps
        tables.append(
            trace.ops.with_columns(
                pl.col("start_us") + begin_us, pl.col("step") + n_steps
            )
        )
    return pl.concat(tables)


def _pause_us(before: Trace, after: Trace) -> int:
    """Return the time between two steps, as far as it is to be shown."""
    pause_us = after.origin_us - before.origin_us - before.span_us
    is_short = 0 <= pause_us <= min(before.span_us, after.span_us)
    return pause_us if is_short else 0


def _notice(names: Sequence[str]) -> Notice:
    listed = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return Notice(
        "steps-joined",
        f"{format_count(len(names), 'step')} were joined: {listed}{more}; what a step "
        "did not record, the time until the next, is left out unless it is short",
    )
