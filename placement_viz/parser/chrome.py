"""Traces in Chrome's format that are no timeline of TensorFlow, as device timelines.

Many programs write this format, each in its own way (a dialect): the profiler of
TensorFlow 2 and JAX, that of PyTorch, and any other. None of them records where logical
ops were placed.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from placement_viz.errors import NoOpsError
from placement_viz.model import Notice, RowKind, Run, Trace
from placement_viz.parser.chrome_dialect import AnyProgram, Dialect, Place
from placement_viz.parser.chrome_events import Events
from placement_viz.parser.chrome_kineto import Kineto, is_kineto
from placement_viz.parser.chrome_profiler import Profiler, is_profiler
from placement_viz.parser.events import ChromeTrace, parse_events
from placement_viz.parser.files import Content
from placement_viz.parser.fold import Fold
from placement_viz.parser.marks import Marks
from placement_viz.parser.nesting import depths
from placement_viz.parser.stream import EventStream, IrregularError
from placement_viz.parser.table import Row, ops_table
from placement_viz.units import format_count

__all__ = ["dialect_of", "read_chrome"]


def dialect_of(fold: Fold, chrome: ChromeTrace) -> Dialect:
    """Return how a trace is written.

    Args:
        fold: Its events, in which no row of TensorFlow's timeline was found.
        chrome: What stands beside them.
    """
    if is_kineto(fold.numbering.kinds, has_head=chrome.is_kineto):
        return Kineto()
    if is_profiler(fold.labels.values()):
        return Profiler(dict(fold.labels))
    return AnyProgram()


def read_chrome(content: Content, dialect: Dialect) -> Run:
    """Return the run in a trace that proves no placement.

    Every event is an op or is counted in ``Trace.skipped``; of an op that has a begin
    and an end, the end is counted there.

    Raises:
        TraceFormatError: It is damaged so that nothing can be read.
        NoOpsError: No event is an op with a time.
    """
    events, notices = _events(content, dialect)
    ops = events.ops()
    n_events = ops.height + sum(events.skipped.values())
    marks = dialect.marks(events, ops)
    shown, rows, remarks = _shown(ops, events, dialect)
    if shown.is_empty():
        damage = "".join(f"; {notice.message}" for notice in notices)
        raise NoOpsError(
            f"{content.source}: no op among {format_count(n_events, 'event')}; "
            "expected events with start and duration, or with begin and end"
            f"{damage}"
        )
    shown = shown.with_columns(
        lane=_lanes(shown),
        step=_steps(shown, marks),
        start_us=_microseconds("start_ns"),
        duration_us=_microseconds("end_ns") - _microseconds("start_ns"),
    )
    table, origin_us = ops_table(shown, rows)
    trace = Trace(
        table,
        origin_us,
        dict(events.skipped),
        (*notices, Notice("no-placement", dialect.advice), *remarks),
    )
    return Run(source=content.source, format=dialect.format, trace=trace)


def _events(content: Content, dialect: Dialect) -> tuple[Events, tuple[Notice, ...]]:
    """Return the events of a trace, and what was damaged."""
    events = Events(dialect.schema, dialect.facts)
    notices: list[Notice] = []
    stream = EventStream(content.pieces(notices), is_general=True)
    try:
        for batch in stream.batches():
            events.add(batch)
        stream.finish()
    except IrregularError:
        events = Events(dialect.schema, dialect.facts)
        events.add(parse_events(content.whole(), source=content.source).events)
        return events, ()
    return events, (*notices, *stream.notices)


def _shown(
    ops: pl.DataFrame, events: Events, dialect: Dialect
) -> tuple[pl.DataFrame, dict[str, Row], tuple[Notice, ...]]:
    """Return the ops that are shown with their ``row``, and count the others.

    Returns:
        The ops, label of each row to what it says, and what a reader must know.
    """
    on = ["thread", *dialect.keys]
    keys = ops.select(on).unique(maintain_order=True)
    places, remarks = dialect.places(events, keys)
    rows = {place.row: place.said for place in places if isinstance(place, Place)}
    copies = [row for row, said in rows.items() if said.kind == RowKind.MEMCPY]
    keys = keys.with_columns(
        row=pl.Series(
            [p.row if isinstance(p, Place) else None for p in places], dtype=pl.String
        ),
        called=pl.Series(
            [p if isinstance(p, str) else None for p in places], dtype=pl.String
        ),
    )
    ops = ops.join(keys, on=on, how="left", nulls_equal=True, maintain_order="left")
    for called, n in ops["called"].drop_nulls().value_counts().iter_rows():
        events.skipped[called] += n
    if "label" in ops.columns:
        is_copy = pl.col("row").is_in(copies)
        op_type = pl.when(is_copy).then("label").otherwise("op_type")
        ops = ops.with_columns(op_type=op_type)
    return ops.filter(pl.col("row").is_not_null()), rows, remarks


def _lanes(ops: pl.DataFrame) -> pl.Series:
    """Return a lane for each op: one for each thread and depth of nesting."""
    threads = ops.with_row_index("at").partition_by("thread", maintain_order=True)
    at = pl.concat([part["at"] for part in threads])
    lanes: list[int] = []
    n_lanes = 0
    for part in threads:
        nested = depths(part["start_ns"].to_list(), part["end_ns"].to_list())
        lanes += [n_lanes + depth for depth in nested]
        n_lanes += max(nested) + 1
    return pl.Series(lanes, dtype=pl.Int32).gather(at.arg_sort())


def _steps(ops: pl.DataFrame, marks: Sequence[Marks]) -> pl.Series:
    """Return the step of each op, numbered without gaps."""
    if not marks:
        return pl.repeat(0, ops.height, dtype=pl.Int32, eager=True)
    groups = ops["group"] if "group" in ops.columns else [None] * ops.height
    steps = [
        marks[thread].step_at(start, group)
        for thread, start, group in zip(
            ops["thread"], ops["start_ns"], groups, strict=True
        )
    ]
    return pl.Series(steps, dtype=pl.Int32).rank("dense").cast(pl.Int32) - 1


def _microseconds(column: str) -> pl.Expr:
    return (pl.col(column) + 500) // 1000
