"""Several steps in one run: joined, or found in a file into which they were put."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from placement_viz.model import Notice, Recorded, RowKind, Run, Trace
from placement_viz.units import format_count, format_share

__all__ = ["Step", "join_steps", "split_steps"]

#: So many steps are named in a notice.
_MOST_NAMED = 4
#: Runs first and once a step on every device.
_FIRST = "_SOURCE"
#: The share of nodes that each of several steps must have in common.
_LEAST_ALIKE = 0.9
#: Below this share steps that were joined are hardly of one program.
_LEAST_SHARED = 0.5


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
    begins_us = _begins_us(traces)
    ops = _joined(traces, begins_us)
    trace = Trace(
        ops=ops,
        origin_us=traces[0].origin_us,
        skipped=skipped,
        notices=(
            *_notices([step.name for step in steps], _share_alike(ops)),
            *dict.fromkeys(n for trace in traces for n in trace.notices),
        ),
        recorded=_recorded([run.recorded for run in runs], begins_us),
    )
    return Run(source, "+".join(formats), trace, graph, section)


def split_steps(trace: Trace) -> Trace:
    """Return ``trace`` with its steps numbered, if several were put into its file.

    People append the events of one step to those of another. It shows in the node that
    begins each step: it ran several times on each device, each time before the next on
    any, and between lie nearly the same nodes. Where that is not so, as with the
    iterations of a loop, there is one step.

    Source:
        ``Executor`` starts with ``_SOURCE``, once in each graph of a device.
    """
    begins = _begins(trace)
    if len(begins) < 2:
        return trace
    number = begins.search_sorted(trace.ops["start_us"], side="right").cast(pl.Int32)
    # What a tracer saw before the first op began belongs to the first step.
    ops = trace.ops.with_columns(step=(number - 1).clip(lower_bound=0))
    if _share_alike(ops) < _LEAST_ALIKE:
        return trace
    steps = [_part(trace, each) for each in ops.partition_by("step")]
    notice = Notice(
        "steps-found",
        f"{format_count(len(steps), 'step')} were put into this file one after "
        "another; they were told apart by the op that begins each",
    )
    return dataclasses.replace(
        trace,
        ops=_joined(steps, _begins_us(steps)),
        notices=(*trace.notices, notice),
    )


def _begins(trace: Trace) -> pl.Series:
    """Return when each step began, if there may be several; else nothing."""
    nothing = pl.Series([], dtype=pl.Int64)
    # Not of `executed`, which stays with the trace and is as large.
    first = trace.ops.filter(
        (pl.col("name") == _FIRST) & (pl.col("row_kind") == RowKind.EXECUTOR)
    )
    by_device = first.group_by("device").agg(pl.col("start_us").sort())["start_us"]
    n_steps = by_device.list.len()
    if n_steps.n_unique() != 1 or n_steps[0] < 2:
        return nothing
    starts = pl.DataFrame({"start_us": by_device}).select(
        pl.col("start_us"),
        number=pl.int_ranges(0, pl.col("start_us").list.len()),
    )
    spans = (
        starts.explode("start_us", "number")
        .group_by("number")
        .agg(begin=pl.col("start_us").min(), last=pl.col("start_us").max())
        .sort("number")
    )
    is_apart = spans["last"].head(-1) < spans["begin"].tail(-1)
    return spans["begin"] if is_apart.all() else nothing


def _share_alike(ops: pl.DataFrame) -> float:
    """Return the share of nodes that ran in each step."""
    executed = ops.filter(pl.col("row_kind") == RowKind.EXECUTOR)
    n_steps = executed.group_by("name").agg(n=pl.col("step").n_unique())["n"]
    return float((n_steps == ops["step"].n_unique()).mean() or 0)  # type: ignore[arg-type]


def _part(trace: Trace, ops: pl.DataFrame) -> Trace:
    """Return one step, with times from its own beginning."""
    begin = int(ops["start_us"].min() or 0)  # type: ignore[arg-type]
    ops = ops.with_columns(pl.col("start_us") - begin, step=pl.lit(0, pl.Int32))
    return Trace(ops=ops, origin_us=trace.origin_us + begin)


def _begins_us(traces: Sequence[Trace]) -> list[int]:
    """Return when each trace begins, if one comes after another."""
    lengths = (
        before.span_us + _pause_us(before, trace)
        for before, trace in itertools.pairwise(traces)
    )
    return list(itertools.accumulate(lengths, initial=0))


def _joined(traces: Sequence[Trace], begins_us: Sequence[int]) -> pl.DataFrame:
    """Return the ops of all traces, with steps and times that go on."""
    n_before = itertools.accumulate((each.n_steps for each in traces), initial=0)
    return pl.concat(
        trace.ops.with_columns(pl.col("start_us") + begin_us, pl.col("step") + n_steps)
        for trace, begin_us, n_steps in zip(traces, begins_us, n_before, strict=False)
    )


def _recorded(parts: Sequence[Recorded], begins_us: Sequence[int]) -> Recorded:
    """Return what is recorded of all steps, with times that go on."""
    parts = [part.moved(us) for part, us in zip(parts, begins_us, strict=True)]
    sizes = pl.concat(part.tensors for part in parts)
    # A tensor has one size in each step, and one row.
    sizes = sizes.group_by("name", "slot", maintain_order=True).agg(
        pl.col("n_bytes").max()
    )
    return Recorded(
        sizes,
        pl.concat(part.allocations for part in parts),
        pl.concat(part.copies for part in parts),
    )


def _pause_us(before: Trace, after: Trace) -> int:
    """Return the time between two steps, as far as it is to be shown."""
    pause_us = after.origin_us - before.origin_us - before.span_us
    is_short = 0 <= pause_us <= min(before.span_us, after.span_us)
    return pause_us if is_short else 0


def _notices(names: Sequence[str], share_alike: float) -> Iterator[Notice]:
    listed = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    yield Notice(
        "steps-joined",
        f"{format_count(len(names), 'step')} were joined: {listed}{more}; what a step "
        "did not record, the time until the next, is left out unless it is short",
    )
    if share_alike < _LEAST_SHARED:
        yield Notice(
            "steps-differ",
            f"only {format_share(share_alike, 1)} of the ops ran in each of these "
            "steps: they may be of different programs",
        )
