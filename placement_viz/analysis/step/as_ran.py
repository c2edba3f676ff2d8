"""The order in which a step ran: what each op came after, and what it waited for last.

An op came after another if it took from it, or if the other was the last of the same
device that ended before, and it began when the other had ended. Such links never form a
cycle.
"""

from __future__ import annotations

import dataclasses
import enum

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.step.clocks import TAKES_WHAT_COMES_FIRST, Clocks
from placement_viz.analysis.step.flow import Flow

__all__ = ["AsRan", "Reason", "order_ops"]

_Numbers = npt.NDArray[np.int64]
_LINKS_SCHEMA = {"before": pl.Int64, "after": pl.Int64, "reason": pl.Int64}


class Reason(enum.StrEnum):
    """What an op waited for last. Of two that ended together the first counts."""

    DATA = "data"
    CONTROL = "control"
    QUEUE = "queue"
    START = "start"


@dataclasses.dataclass(frozen=True, eq=False)
class AsRan:
    """The executed ops of a run, in the order in which they ran, and their links.

    Ops are numbered by step, then start, end and position; a link leads from a lower
    number to a higher one. Times are put right by the clocks.

    Attributes:
        ops: ``op``, ``step``, ``device``, ``start_us``, ``end_us``; one row an op.
        before: (m,) the op that a link leads from.
        after: (m,) the op it leads to, ascending; of equal ones, what the op waited for
            last is the last.
        awaited: (n,) the op that each op waited for last; -1 when it had to wait for
            none.
        reason: (n,) position in :class:`Reason` of why.
        free_us: (n,) when that op ended, else when the step began.
        backward: ``step`` and ``backward``, the number of its edges that are no links,
            for what was taken ended after what took it had begun; only steps that have
            such edges.
    """

    ops: pl.DataFrame
    before: _Numbers
    after: _Numbers
    awaited: _Numbers
    reason: _Numbers
    free_us: _Numbers
    backward: pl.DataFrame


def order_ops(flow: Flow, clocks: Clocks) -> AsRan:
    """Return the executed ops of ``flow`` in order, with their links.

    An executor does not tell on which of its threads an op ran, so that each device is
    one queue: whether it runs one op at a time or several, an op that is ready begins
    when another one ends. The lanes of a timeline are no threads.
    """
    ops = _in_order(flow, clocks)
    start, end = (ops[time].to_numpy() for time in ("start_us", "end_us"))
    taken, backward = _taken(flow, ops)
    links = pl.concat((taken, _queued(ops)))
    before, after, reason = (links[each].to_numpy() for each in _LINKS_SCHEMA)
    order = np.lexsort((before, -reason, end[before], after))
    before, after, reason = before[order], after[order], reason[order]
    is_last = np.append(after[1:] != after[:-1], np.ones(min(len(after), 1), bool))
    awaited = np.full(len(start), -1)
    awaited[after[is_last]] = before[is_last]
    reasons = np.full(len(start), list(Reason).index(Reason.START))
    reasons[after[is_last]] = reason[is_last]
    begin = ops.select(pl.col("start_us").min().over("step")).to_series().to_numpy()
    free = np.where(awaited < 0, begin, end[awaited])
    columns = ("op", "step", "device", "start_us", "end_us")
    return AsRan(ops.select(columns), before, after, awaited, reasons, free, backward)


def _in_order(flow: Flow, clocks: Clocks) -> pl.DataFrame:
    """Return the executed ops by their numbers, with their times put right."""
    shift = pl.col("device").replace_strict(clocks.shifts, return_dtype=pl.Int64)
    return flow.trace.executed.select(
        *("op", "op_type", "step", "device"),
        start_us=pl.col("start_us") + shift,
        end_us=pl.col("start_us") + pl.col("duration_us") + shift,
    ).sort("step", "start_us", "end_us", "op")


def _taken(flow: Flow, ops: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the links to what ops took, and ``AsRan.backward``."""
    number = np.zeros(flow.trace.ops.height, dtype=np.int64)
    number[ops["op"].to_numpy()] = np.arange(ops.height)
    start, end = (ops[time].to_numpy() for time in ("start_us", "end_us"))
    before, after = (
        number[flow.edges[each].to_numpy()] for each in ("producer", "consumer")
    )
    has_ended = end[before] <= start[after]
    # Of ops that last no time and are at the same moment, the first ran first.
    is_link = has_ended & (before < after)
    control, data = (list(Reason).index(each) for each in (Reason.CONTROL, Reason.DATA))
    reason = np.where(flow.edges["is_control"].to_numpy(), control, data)
    links = pl.DataFrame(
        (before[is_link], after[is_link], reason[is_link]), schema=_LINKS_SCHEMA
    )
    late = ops.select("step", "op_type")[after[~has_ended]]
    backward = (
        late.filter(~pl.col("op_type").is_in(TAKES_WHAT_COMES_FIRST))
        .group_by("step")
        .agg(backward=pl.len())
    )
    return links, backward


def _queued(ops: pl.DataFrame) -> pl.DataFrame:
    """Return the links from the op of the same step and device that ended last."""
    start, end = (ops[time].to_numpy() for time in ("start_us", "end_us"))
    if not len(start):
        return pl.DataFrame(schema=_LINKS_SCHEMA)
    number = np.arange(len(start))
    queue = ops.select(pl.struct("step", "device").rank("dense")).to_series().to_numpy()
    # Moments of different queues are made so far apart that one search serves all.
    offset = queue.astype(np.int64) * (end.max() - start.min() + 1)
    by_end = np.argsort(end + offset, kind="stable")
    place = np.empty_like(by_end)
    place[by_end] = number
    ended = np.searchsorted((end + offset)[by_end], start + offset, side="right")
    # Of what lasts no time only what has a lower number ended before.
    last = np.where(start == end, place, ended) - 1
    before = by_end[last]
    is_link = (last >= 0) & (queue[before] == queue)
    reason = np.full(int(is_link.sum()), list(Reason).index(Reason.QUEUE))
    return pl.DataFrame(
        (before[is_link], number[is_link], reason), schema=_LINKS_SCHEMA
    )
