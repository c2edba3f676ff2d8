"""What moved between two runs of the same program.

Ops are matched by what they do, not by their raw name: a gradient op by its forward
op and its part in that gradient, since the scope (``gradients``, ``gradients_2``)
changes when a program builds its gradients another way; any other op by its name.
Ops that share a key are matched in the order in which they started.
"""

from __future__ import annotations

import dataclasses
import functools

import polars as pl

from placement_viz.analysis.colocation import Colocation
from placement_viz.analysis.step import StepAnalysis
from placement_viz.analysis.step.scaling import Scaling, Towered, find_scaling
from placement_viz.analysis.usage import DeviceUsage
from placement_viz.model import Run, Trace

__all__ = [
    "CHANGES",
    "MOVES_SCHEMA",
    "Change",
    "Comparison",
    "Side",
    "compare_analyses",
]

#: Columns of :attr:`Comparison.moves`, one row for each op that changed its device.
#:
#: ``name``           in the baseline
#: ``candidate_name`` in the candidate
#: ``op_type``        in the baseline
#: ``from_device``, ``to_device``
#: ``baseline_us``, ``candidate_us``  duration before and after
#: ``kind``           ``fixed``: misplaced before and not after; ``broken``: the other
#:                    way round; ``residual``: misplaced in both; ``collateral``: any
#:                    other op that moved
#: ``baseline_op``, ``candidate_op``  positions in the two traces
MOVES_SCHEMA = pl.Schema(
    {
        "name": pl.String,
        "candidate_name": pl.String,
        "op_type": pl.String,
        "from_device": pl.String,
        "to_device": pl.String,
        "baseline_us": pl.Int64,
        "candidate_us": pl.Int64,
        "kind": pl.String,
        "baseline_op": pl.UInt32,
        "candidate_op": pl.UInt32,
    }
)


#: Kinds of change, those first that a person hopes for.
CHANGES = ("fixed", "residual", "broken", "collateral", "gone", "new")


@dataclasses.dataclass(frozen=True)
class Change:
    """Ops that changed alike.

    Attributes:
        kind: As in :data:`MOVES_SCHEMA`, or ``gone`` and ``new`` for what only the
            baseline or only the candidate has.
        ops: How many there are.
        baseline_us: Sum of their durations before.
        candidate_us: The same after.
    """

    kind: str
    ops: int
    baseline_us: int
    candidate_us: int


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """One of the two runs.

    Attributes:
        run: The run itself.
        colocation: Its judged gradient ops.
        usage: Its devices.
        step: Where its step went, found when it is asked for.
    """

    run: Run
    colocation: Colocation
    usage: tuple[DeviceUsage, ...]
    step: StepAnalysis

    @property
    def span_us(self) -> int:
        """Return the time from the first op's start to the last op's end."""
        return self.run.trace.span_us


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs, side by side.

    Attributes:
        baseline: The run before.
        candidate: The run after.
        moves: Ops on another device, with the columns of :data:`MOVES_SCHEMA`, most
            time in the baseline first.
        pairs: ``baseline_op`` and ``candidate_op``, positions of the ops that both runs
            have, in the order of the baseline.
        only_baseline: ``name``, ``op_type``, ``device``, ``duration_us`` of ops that
            only the baseline has, longest first.
        only_candidate: The same of the candidate.
    """

    baseline: Side
    candidate: Side
    moves: pl.DataFrame
    pairs: pl.DataFrame
    only_baseline: pl.DataFrame
    only_candidate: pl.DataFrame

    @property
    def matched_ops(self) -> int:
        """Return the number of ops that both runs have."""
        return self.pairs.height

    @functools.cached_property
    def changes(self) -> tuple[Change, ...]:
        """Return what changed, kind by kind, in the order of :data:`CHANGES`."""
        kinds = {
            kind: (n, before_us, after_us)
            for kind, n, before_us, after_us in self.moves.group_by("kind")
            .agg(
                pl.len(),
                pl.col("baseline_us").sum(),
                pl.col("candidate_us").sum(),
            )
            .iter_rows()
        }
        gone_us, new_us = (
            int(table["duration_us"].sum())
            for table in (self.only_baseline, self.only_candidate)
        )
        kinds["gone"] = (self.only_baseline.height, gone_us, 0)
        kinds["new"] = (self.only_candidate.height, 0, new_us)
        return tuple(Change(kind, *kinds.get(kind, (0, 0, 0))) for kind in CHANGES)

    @functools.cached_property
    def scaling(self) -> Scaling | None:
        """Return what more towers gained; None unless the runs differ in that."""
        before, after = (
            Towered(side.step.flow, side.step.towers, side.step.controller)
            for side in (self.baseline, self.candidate)
        )
        return find_scaling(before, after)

    @property
    def is_placed(self) -> bool:
        """Return whether both runs prove where ops were placed."""
        return all(s.run.trace.is_placed for s in (self.baseline, self.candidate))

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the devices of both runs, those of the baseline first."""
        both = (*self.baseline.run.trace.devices, *self.candidate.run.trace.devices)
        return tuple(dict.fromkeys(both))


_Parts = tuple[Run, Colocation, tuple[DeviceUsage, ...], StepAnalysis]


def compare_analyses(baseline: _Parts, candidate: _Parts) -> Comparison:
    """Return what moved from ``baseline`` to ``candidate``.

    Args:
        baseline: Run, judged gradients, usage and step of the run before.
        candidate: The same of the run after.
    """
    before, after = Side(*baseline), Side(*candidate)
    left, right = (_keyed(side.run.trace, side.colocation) for side in (before, after))
    matched = left.join(right, on=["key", "nth"], how="inner", suffix="_after")
    return Comparison(
        baseline=before,
        candidate=after,
        moves=_moves(matched),
        pairs=matched.select(baseline_op="op", candidate_op="op_after"),
        only_baseline=_only(left, right),
        only_candidate=_only(right, left),
    )


def _keyed(trace: Trace, colocation: Colocation) -> pl.DataFrame:
    """Return the executed ops with a key that survives another gradient scope."""
    judged = colocation.gradients.select("op", "forward_op", "verdict")
    marker = pl.format("{}_grad", "forward_op")
    # What follows "<F>_grad"; a gradient op whose name does not hold its forward op
    # (a sum, say) is told apart by its own last part.
    role = (
        pl.when(pl.col("name").str.contains(marker, literal=True))
        .then(pl.col("name").str.split(marker).list.last())
        .otherwise(pl.col("name").str.split("/").list.last())
    )
    key = (
        pl.when(pl.col("forward_op").is_not_null())
        .then(pl.format("gradient of {}: {}", "forward_op", role))
        .otherwise(pl.col("name"))
    )
    return (
        trace.executed.join(judged, on="op", how="left", maintain_order="left")
        .with_columns(key=key, verdict=pl.col("verdict").fill_null(""))
        # _SOURCE and its like run on every device and belong to none.
        .filter(~pl.col("name").is_in(["_SOURCE", "_SINK"]))
        .with_columns(nth=pl.int_range(pl.len()).over("key"))
    )


def _moves(matched: pl.DataFrame) -> pl.DataFrame:
    was, now = pl.col("verdict") == "misplaced", pl.col("verdict_after") == "misplaced"
    kind = (
        pl.when(was & now)
        .then(pl.lit("residual"))
        .when(was)
        .then(pl.lit("fixed"))
        .when(now)
        .then(pl.lit("broken"))
        .otherwise(pl.lit("collateral"))
    )
    return (
        matched.filter(pl.col("device") != pl.col("device_after"))
        .sort("duration_us", descending=True, maintain_order=True)
        .select(
            "name",
            "op_type",
            candidate_name="name_after",
            from_device="device",
            to_device="device_after",
            baseline_us="duration_us",
            candidate_us="duration_us_after",
            kind=kind,
            baseline_op="op",
            candidate_op="op_after",
        )
        .select(pl.col(name).cast(dtype) for name, dtype in MOVES_SCHEMA.items())
    )


def _only(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return (
        one.join(other, on=["key", "nth"], how="anti", maintain_order="left")
        .sort("duration_us", descending=True, maintain_order=True)
        .select("name", "op_type", "device", "duration_us")
    )
