"""What a step waited for from begin to end: the path that tells how long it was.

The path is followed back from the op that ended last: each op on it waited last for the
one before, see :mod:`~placement_viz.analysis.step.as_ran`. Every moment of the step is
then the time of one op on the path or of a wait before it, so both add up to the step.

Besides, the longest chain of ops, waits left out, is what the step would still take if
nothing ever waited. Always: longest op <= longest chain <= step, and what is computed
on the path <= longest chain.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import polars as pl

from placement_viz.analysis.step.as_ran import AsRan, Reason, order_ops
from placement_viz.analysis.step.clocks import Clocks, compare_clocks
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.roles import Role

__all__ = ["PATH_STEPS_SCHEMA", "WAITS_SCHEMA", "CriticalPath", "find_critical_path"]

#: Columns of :attr:`CriticalPath.waits`, one row an executed op, by step and start.
#:
#: ``op``               position in ``Trace.ops``
#: ``step``, ``device`` as there
#: ``role``             a :class:`~placement_viz.analysis.step.roles.Role`
#: ``start_us``         as there, put right by ``CriticalPath.clocks``
#: ``end_us``           likewise
#: ``reason``           why it began no sooner: it took ``data``, or an order by
#:                      ``control``, from another op; was next in the ``queue`` of its
#:                      device; or is at the ``start`` and waited for no op
#: ``awaited``          position of the op that it waited for last; null at the start
#: ``gap_us``           from the end of that op, else from the begin of the step, until
#:                      it began: scheduling, transfer or unknown
#: ``is_from_afar``     whether that op ran on another device; null at the start
#: ``slack_us``         how much later it could have ended without the end of the step
#:                      moving, if all gaps and the order on each device stay
#: ``is_critical``      whether it is on the path; its slack is then 0
WAITS_SCHEMA = pl.Schema(
    {
        "op": pl.UInt32,
        "step": pl.Int32,
        "device": pl.String,
        "role": pl.String,
        "start_us": pl.Int64,
        "end_us": pl.Int64,
        "reason": pl.String,
        "awaited": pl.UInt32,
        "gap_us": pl.Int64,
        "is_from_afar": pl.Boolean,
        "slack_us": pl.Int64,
        "is_critical": pl.Boolean,
    }
)

#: Columns of :attr:`CriticalPath.steps`, one row a step, in order.
#:
#: ``step``           as in ``Trace.ops``
#: ``ops``            number of ops on the path
#: ``span_us``        from the first start of an executed op to the last end
#: ``path_us``        from the start of the path's first op to the last end
#: ``compute_us``     time of the ops on the path
#: ``wait_us``        gaps between them; adds up to ``path_us`` with ``compute_us``
#: ``afar_us``        of those, after an op on another device
#: ``chain_us``       time of the longest chain of ops, gaps left out
#: ``backward``       edges that the path cannot follow, for what was taken ended after
#:                    what took it had begun, which no shift of clocks explains
PATH_STEPS_SCHEMA = pl.Schema(
    {
        "step": pl.Int32,
        "ops": pl.UInt32,
        "span_us": pl.Int64,
        "path_us": pl.Int64,
        "compute_us": pl.Int64,
        "wait_us": pl.Int64,
        "afar_us": pl.Int64,
        "chain_us": pl.Int64,
        "backward": pl.UInt32,
    }
)

_DURATION = pl.col("end_us") - pl.col("start_us")


@dataclasses.dataclass(frozen=True, eq=False)
class CriticalPath:
    """The critical path of each step of a run.

    Attributes:
        waits: A table with the columns of :data:`WAITS_SCHEMA`; empty when no op is
            proved to have run on a device, and when no op has a duration, for then
            nothing is known.
        steps: A table with the columns of :data:`PATH_STEPS_SCHEMA`; likewise.
        clocks: By how much the times of each task are put right.
        misplaced_us: Time of misplaced gradient ops on the paths.
    """

    waits: pl.DataFrame
    steps: pl.DataFrame
    clocks: Clocks
    misplaced_us: int

    @functools.cached_property
    def path(self) -> pl.DataFrame:
        """Return the rows of :attr:`waits` that are on a path, by step and time."""
        return self.waits.filter("is_critical")

    def by_device(self, devices: tuple[str, ...]) -> pl.DataFrame:
        """Return ``device``, ``ops`` and ``compute_us`` on the paths, in that order."""
        return _parts(self.path, "device", devices)

    def by_role(self) -> pl.DataFrame:
        """Return ``role``, ``ops`` and ``compute_us`` on the paths, as roles go."""
        return _parts(self.path, "role", tuple(role.value for role in Role))


def find_critical_path(flow: Flow) -> CriticalPath:
    """Return what each step of a run waited for, from its begin to its end.

    Only executed ops are looked at: where a tracer recorded kernels too, it is the ops
    that started them.
    """
    clocks = compare_clocks(flow)
    if not (flow.trace.executed["duration_us"] > 0).any():
        return CriticalPath(
            WAITS_SCHEMA.to_frame(), PATH_STEPS_SCHEMA.to_frame(), clocks, 0
        )
    ran = order_ops(flow, clocks)
    waits = _waits(ran).join(
        flow.ops.select("op", "role"), on="op", how="left", maintain_order="left"
    )
    misplaced = waits.filter("is_critical").join(
        flow.colocation.misplaced, on="op", how="semi"
    )
    return CriticalPath(
        waits=waits.select(WAITS_SCHEMA.names()).cast(WAITS_SCHEMA),
        steps=_steps(waits, ran).cast(PATH_STEPS_SCHEMA),
        clocks=clocks,
        misplaced_us=int(misplaced.select(_DURATION.sum()).item()),
    )


def _waits(ran: AsRan) -> pl.DataFrame:
    """Return the columns of :data:`WAITS_SCHEMA` without roles."""
    ops = ran.ops["op"].to_numpy()
    device = ran.ops["device"].cast(pl.Categorical).to_physical().to_numpy()
    reasons = pl.Series([each.value for each in Reason])
    has_waited = pl.col("reason") != Reason.START
    return ran.ops.with_columns(
        awaited=ops[ran.awaited],
        gap_us=ran.ops["start_us"] - ran.free_us,
        reason=reasons.gather(ran.reason),
        is_from_afar=device[ran.awaited] != device,
        is_critical=_on_path(ran),
        slack_us=_slack(ran),
    ).with_columns(
        pl.when(has_waited).then(each).alias(each)
        for each in ("awaited", "is_from_afar")
    )


def _on_path(ran: AsRan) -> pl.Series:
    """Return which ops are on the path of their step."""
    is_last = pl.col("end_us") == pl.col("end_us").max().over("step")
    numbers = ran.ops.with_row_index("number").filter(is_last)
    ends = numbers.group_by("step").agg(pl.col("number").max())["number"]
    awaited = ran.awaited.tolist()
    is_critical = np.zeros(len(awaited), dtype=bool)
    for end in ends:
        at = end
        while at >= 0:
            is_critical[at] = True
            at = awaited[at]
    return pl.Series(is_critical)


def _slack(ran: AsRan) -> pl.Series:
    """Return how much later each op could have ended."""
    slack = ran.ops.select(pl.col("end_us").max().over("step") - pl.col("end_us"))
    found = slack.to_series().to_list()
    end = ran.ops["end_us"].to_numpy()
    # What takes several begins after the last of them: the others have time.
    spare = ran.free_us[ran.after] - end[ran.before]
    backwards = (each[::-1].tolist() for each in (ran.before, ran.after, spare))
    for before, after, spare_us in zip(*backwards, strict=True):
        most = found[after] + spare_us
        if most < found[before]:  # noqa: PLR1730 - min takes thrice the time
            found[before] = most
    return pl.Series(found)


def _chains(ran: AsRan) -> pl.Series:
    """Return the time of the longest chain of ops that ends with each."""
    duration = ran.ops.select(_DURATION).to_series().to_list()
    found = duration.copy()
    for before, after in zip(ran.before.tolist(), ran.after.tolist(), strict=True):
        longest = found[before] + duration[after]
        if longest > found[after]:  # noqa: PLR1730 - max takes thrice the time
            found[after] = longest
    return pl.Series(found)


def _steps(waits: pl.DataFrame, ran: AsRan) -> pl.DataFrame:
    """Return the columns of :data:`PATH_STEPS_SCHEMA`."""
    on_path = pl.col("is_critical")
    is_gap = on_path & (pl.col("reason") != Reason.START)
    last_us = pl.col("end_us").max()
    return (
        waits.with_columns(chain_us=_chains(ran))
        .group_by("step", maintain_order=True)
        .agg(
            ops=on_path.sum(),
            span_us=last_us - pl.col("start_us").min(),
            path_us=last_us - pl.col("start_us").filter(on_path).min(),
            compute_us=_DURATION.filter(on_path).sum(),
            wait_us=pl.col("gap_us").filter(is_gap).sum(),
            afar_us=pl.col("gap_us").filter(is_gap, pl.col("is_from_afar")).sum(),
            chain_us=pl.col("chain_us").max(),
        )
        .join(ran.backward, on="step", how="left", maintain_order="left")
        .with_columns(pl.col("backward").fill_null(0))
    )


def _parts(path: pl.DataFrame, what: str, order: tuple[str, ...]) -> pl.DataFrame:
    """Return how much of the path's time each device or role has, if it has any op."""
    return pl.DataFrame({what: order}, schema={what: pl.String}).join(
        path.group_by(what).agg(ops=pl.len(), compute_us=_DURATION.sum()),
        on=what,
        maintain_order="left",
    )
