"""How far the clocks of the tasks of a run are apart, as its dataflow shows.

An op begins after what it takes is made. Where both ran in different tasks, each with
a clock of its own, this bounds the difference of the clocks from one side, and what
goes the other way from the other side, as in the Network Time Protocol.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz import names
from placement_viz.analysis.step.flow import Flow

__all__ = ["CLOCKS_SCHEMA", "TAKES_WHAT_COMES_FIRST", "Clocks", "compare_clocks"]

#: Columns of :attr:`Clocks.tasks`, one row a task, in the order of ``Trace.devices``.
#: A time is what is added to a task's times to have them by the clock of the first.
#:
#: ``task``           canonical name, without the device
#: ``lower_us``       least that agrees with the dataflow; null when not bounded
#: ``upper_us``       most that does; null when not bounded
#: ``offset_us``      the middle of the two, so half a microsecond may be lost; null
#:                    unless both are known
#: ``shift_us``       what is added where times of several tasks are compared: 0 as long
#:                    as no wait is negative
#: ``edges``          edges to and from other tasks that tell of this clock
#: ``negative_waits`` how many of them seem to go back in time
#: ``least_wait_us``  the shortest wait of them as the clocks say; negative when what
#:                    was taken seems to be made later; null without edges
CLOCKS_SCHEMA = pl.Schema(
    {
        "task": pl.String,
        "lower_us": pl.Int64,
        "upper_us": pl.Int64,
        "offset_us": pl.Int64,
        "shift_us": pl.Int64,
        "edges": pl.UInt32,
        "negative_waits": pl.UInt32,
        "least_wait_us": pl.Int64,
    }
)

#: Ops of these types begin when one of their inputs is there, whichever.
TAKES_WHAT_COMES_FIRST = ("Merge", "RefMerge")

_WAITS_SCHEMA = {"maker": pl.Int64, "taker": pl.Int64, "wait_us": pl.Int64}
_Bounds = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Clocks:
    """The clocks of a run's tasks beside that of the first one.

    Attributes:
        tasks: A table with the columns of :data:`CLOCKS_SCHEMA`; empty for a run that
            proves no placement.
        task_of: Device to its task.
    """

    tasks: pl.DataFrame
    task_of: Mapping[str, str]

    @functools.cached_property
    def shifts(self) -> dict[str, int]:
        """Return device to what is added to its times to compare them with others."""
        shift = dict(self.tasks.select("task", "shift_us").iter_rows())
        return {device: shift[task] for device, task in self.task_of.items()}

    @property
    def negative_waits(self) -> int:
        """Return how many edges between tasks seem to go back in time."""
        # Each is counted by the task at either end.
        return int(self.tasks["negative_waits"].sum()) // 2


def compare_clocks(flow: Flow) -> Clocks:
    """Return what the dataflow tells of the clocks of the tasks.

    Only what ran once in its step is looked at: of several executions the clocks, which
    are in doubt here, would have to tell which one was taken from.

    No clock is corrected unless a wait is negative. Then those that are bounded from
    both sides are, by the middle, which puts right every edge that can be; and those
    that are bounded from one side by the least that their own edges need.
    """
    devices = flow.trace.devices if flow.trace.is_placed else ()
    task_of = {device: names.task_of(device) for device in devices}
    tasks = tuple(dict.fromkeys(task_of.values()))
    waits = _waits(flow, [tasks.index(task) for task in task_of.values()])
    lower, upper = _bounds(waits, len(tasks))
    columns = {"task": tasks, "lower": lower, "upper": upper}
    table = (
        pl.DataFrame(
            columns, schema={"task": pl.String, "lower": float, "upper": float}
        )
        .with_row_index("number")
        .join(_counts(waits), on="number", how="left", maintain_order="left")
        .with_columns(
            pl.col("edges", "negative_waits").fill_null(0),
            lower_us=_known("lower"),
            upper_us=_known("upper"),
        )
        .with_columns(offset_us=(pl.col("lower_us") + pl.col("upper_us")) // 2)
        .with_columns(shift_us=_shift())
    )
    return Clocks(table.select(CLOCKS_SCHEMA.names()).cast(CLOCKS_SCHEMA), task_of)


def _waits(flow: Flow, task_numbers: Sequence[int]) -> pl.DataFrame:
    """Return the waits between tasks.

    Args:
        flow: A run.
        task_numbers: The task of each of the run's devices, in their order.

    Returns:
        ``maker`` and ``taker``, numbers of tasks that differ, and ``wait_us`` from the
        end of an op in the first to the start of one in the second that takes from it.
    """
    if len(set(task_numbers)) < 2:
        return pl.DataFrame(schema=_WAITS_SCHEMA)
    numbers = dict(zip(flow.trace.devices, task_numbers, strict=True))
    ran = flow.trace.executed.select(
        "op",
        "start_us",
        end_us=pl.col("start_us") + pl.col("duration_us"),
        task=pl.col("device").replace_strict(numbers, return_dtype=pl.Int64),
        is_once=pl.len().over("step", "name") == 1,
        takes_all=~pl.col("op_type").is_in(TAKES_WHAT_COMES_FIRST),
    )
    makers = ran.filter("is_once").select("end_us", producer="op", maker="task")
    takers = ran.filter("takes_all").select("start_us", consumer="op", taker="task")
    return (
        flow.edges.select("producer", "consumer")
        .join(makers, on="producer")
        .join(takers, on="consumer")
        .filter(pl.col("maker") != pl.col("taker"))
        .select("maker", "taker", wait_us=pl.col("start_us") - pl.col("end_us"))
    )


def _bounds(waits: pl.DataFrame, n_tasks: int) -> tuple[_Bounds, _Bounds]:
    """Return the least and the most that may be added to each task's times.

    Returns:
        Two arrays (n_tasks,), infinite where nothing is known, which is also so where
        edges contradict one another.
    """
    if not n_tasks:
        return np.empty(0), np.empty(0)
    # By how much what is added to b's times may exceed what is added to a's.
    most = np.full((n_tasks, n_tasks), np.inf)
    least = waits.group_by("maker", "taker").agg(pl.col("wait_us").min())
    most[least["taker"], least["maker"]] = least["wait_us"]
    # Two tasks that contradict one another say nothing, and spoil no other.
    most[most + most.T < 0] = np.inf
    np.fill_diagonal(most, 0)
    for between in range(n_tasks):
        most = np.minimum(most, most[:, [between]] + most[[between], :])
    if (most.diagonal() < 0).any():  # as several do who contradict in a circle
        most = np.where(np.eye(n_tasks, dtype=bool), 0, np.inf)
    return -most[:, 0], most[0]


def _counts(waits: pl.DataFrame) -> pl.DataFrame:
    """Return ``number`` of each task that waits tell of, with what they tell."""
    ends = [waits.select("wait_us", number=end) for end in ("maker", "taker")]
    return (
        pl.concat(ends)
        .group_by(pl.col("number").cast(pl.UInt32))
        .agg(
            edges=pl.len(),
            negative_waits=(pl.col("wait_us") < 0).sum(),
            least_wait_us=pl.col("wait_us").min(),
        )
    )


def _known(bound: str) -> pl.Expr:
    return pl.when(pl.col(bound).is_finite()).then(bound).cast(pl.Int64)


def _shift() -> pl.Expr:
    """Return what to add to the times of each task."""
    needed = pl.lit(0).clip(pl.col("lower_us"), pl.col("upper_us"))
    is_wrong = (pl.col("negative_waits") > 0).any()
    return pl.when(is_wrong).then(pl.coalesce("offset_us", needed)).otherwise(0)
