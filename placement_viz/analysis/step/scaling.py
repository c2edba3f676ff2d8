"""What several towers gain over one, and what eats the rest."""

from __future__ import annotations

import dataclasses
import enum
import statistics

import polars as pl

from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.controller import Controller
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.parallel import IS_PARAMETER
from placement_viz.analysis.step.roles import Role
from placement_viz.analysis.step.towers import Towers
from placement_viz.model import RowKind, Run

__all__ = ["PARTS_SCHEMA", "Part", "Scaling", "Towered", "WorkFrom", "find_scaling"]


class Part(enum.StrEnum):
    """Where the time of a step goes, as seen from the tower that ends last."""

    BEFORE = "before the tower starts"
    COMPUTE = "a tower's compute"
    IMBALANCE = "more compute than in the average tower"
    TRANSFERS = "waits during transfers"
    WAITS = "other waits"
    CONTROLLER = "applying gradients after the towers"
    AFTER = "other work after the towers"


class WorkFrom(enum.StrEnum):
    """How the work of two steps is compared."""

    INPUT = "the recorded size of their input"
    TOWERS = "the assumption that every tower has the same batch"


#: Columns of :attr:`Scaling.parts`, one row a :class:`Part`, in its order.
#:
#: ``part``          a :class:`Part`
#: ``expected_us``   what it would take in an ideal candidate: the baseline's time for
#:                   it, by the work of a tower
#: ``candidate_us``  what it takes
#: ``lost_us``       the difference; negative where the candidate is the faster
PARTS_SCHEMA = pl.Schema(
    {
        "part": pl.String,
        "expected_us": pl.Int64,
        "candidate_us": pl.Int64,
        "lost_us": pl.Int64,
    }
)


@dataclasses.dataclass(frozen=True, eq=False)
class Towered:
    """A run with what is known of its towers."""

    flow: Flow
    towers: Towers
    controller: Controller

    @property
    def n_towers(self) -> int:
        """Return the number of towers, at least 1: a model alone is one."""
        return max(len(self.towers.scopes), 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling:
    """A run with several towers beside one with fewer.

    Attributes:
        baseline_us: Time of a step of the run with fewer.
        candidate_us: Time of a step of the run with more.
        is_untraced: Whether both are medians of untraced steps; else both are spans of
            a traced one.
        baseline_towers: Towers of the one.
        candidate_towers: Towers of the other.
        work: How many times the input a step of the candidate gets.
        work_from: How that is known.
        is_serial: Whether all towers of the candidate ran on one device.
        parts: What is lost in a traced step, with the columns of
            :data:`PARTS_SCHEMA`; the losses add up to :attr:`traced_loss_us`.
        traced_loss_us: By how much the traced step of the candidate is longer than
            the ideal one.
    """

    baseline_us: int
    candidate_us: int
    is_untraced: bool
    baseline_towers: int
    candidate_towers: int
    work: float
    work_from: WorkFrom
    is_serial: bool
    parts: pl.DataFrame
    traced_loss_us: int

    @property
    def speed_up(self) -> float:
        """Return how many times the input is worked off in the same time."""
        return self.work * self.baseline_us / self.candidate_us

    @property
    def efficiency(self) -> float:
        """Return the speed-up as a share of what so many towers could give."""
        return self.speed_up * self.baseline_towers / self.candidate_towers

    @property
    def loss_us(self) -> int:
        """Return by how much a step is longer than it ideally would be."""
        return round(self.candidate_us * (1 - self.efficiency))


def find_scaling(baseline: Towered, candidate: Towered) -> Scaling | None:
    """Return what the towers of ``candidate`` gain over ``baseline``.

    Returns:
        None when the candidate has no more towers than the baseline, or when a run
        has no times.
    """
    runs = [side.flow.run for side in (baseline, candidate)]
    if candidate.n_towers <= baseline.n_towers:
        return None
    if not all(run.trace.ops["duration_us"].max() for run in runs):
        return None
    times = [_untraced_us(run) for run in runs]
    is_untraced = None not in times
    spans = [_typical_step(side.flow)[1] for side in (baseline, candidate)]
    before_us, after_us = (
        time if is_untraced and time else round(span.total_us)
        for time, span in zip(times, spans, strict=True)
    )
    growth = candidate.n_towers / baseline.n_towers
    inputs = [_input_bytes(side.flow) for side in (baseline, candidate)]
    is_recorded = all(inputs)
    work = inputs[1] / inputs[0] if is_recorded and inputs[0] and inputs[1] else growth
    parts = _losses(_parts(baseline), _parts(candidate), work / growth)
    return Scaling(
        baseline_us=before_us,
        candidate_us=after_us,
        is_untraced=is_untraced,
        baseline_towers=baseline.n_towers,
        candidate_towers=candidate.n_towers,
        work=work,
        work_from=WorkFrom.INPUT if is_recorded else WorkFrom.TOWERS,
        is_serial=candidate.towers.is_serial,
        parts=parts,
        traced_loss_us=int(parts["lost_us"].sum()),
    )


def _untraced_us(run: Run) -> int | None:
    """Return how long a step usually takes when nobody traces it."""
    if run.section is None or not run.section.step_times_us:
        return None
    return round(statistics.median(run.section.step_times_us))


def _typical_step(flow: Flow) -> tuple[int, Cover]:
    """Return the step of median length, the shorter of two, and its window."""
    windows = (
        flow.ops.group_by("step")
        .agg(pl.col("start_us").min(), pl.col("end_us").max())
        .sort(pl.col("end_us") - pl.col("start_us"), "step")
    )
    step, start_us, end_us = windows.row((windows.height - 1) // 2)
    return step, cover([start_us], [end_us - start_us])


def _input_bytes(flow: Flow) -> int | None:
    """Return the size of what came into the step; None when it is not recorded."""
    section = flow.run.section
    # The replay of a function keeps a part of the input in variables.
    if section is None or section.function:
        return None
    inputs = flow.executed.filter(pl.col("role") == Role.INPUT).select("name").unique()
    sizes = inputs.join(flow.run.tensors, on="name", how="left")["n_bytes"]
    return None if sizes.is_empty() or sizes.null_count() else int(sizes.sum())


def _parts(side: Towered) -> dict[Part, int]:
    """Return where the time of the typical step goes; the parts add up to it."""
    step, window = _typical_step(side.flow)
    ops = side.flow.ops.filter(pl.col("step") == step)
    towers = _computes(side, ops)
    if not towers:
        return dict.fromkeys(Part, 0) | {Part.AFTER: window.total_us}
    start, end = int(window.starts[0]), int(window.ends[0])
    last, first_us, last_us = max(towers, key=lambda tower: tower[2])
    # Whole, so that the parts add up to the step.
    mean_us = round(statistics.fmean(found.total_us for found, _, _ in towers))
    gaps = last.gaps(first_us, last_us)
    moves = ops.filter(pl.col("role") == Role.TRANSFER)
    in_transfer_us = (gaps & cover(moves["start_us"], moves["duration_us"])).total_us
    applies = side.controller.windows.filter(pl.col("step") == step)
    applied = cover(applies["start_us"], applies["end_us"] - applies["start_us"])
    rest = cover([last_us], [end - last_us])
    return {
        Part.BEFORE: first_us - start,
        Part.COMPUTE: mean_us,
        Part.IMBALANCE: last.total_us - mean_us,
        Part.TRANSFERS: in_transfer_us,
        Part.WAITS: gaps.total_us - in_transfer_us,
        Part.CONTROLLER: (rest & applied).total_us,
        Part.AFTER: (rest - applied).total_us,
    }


def _computes(side: Towered, ops: pl.DataFrame) -> list[tuple[Cover, int, int]]:
    """Return when each tower computes, its start and its end."""
    if side.towers.scopes:
        members = side.towers.members.select("op", "tower")
        own = ops.join(members, on="op")
    else:
        own = ops.filter(
            pl.col("row_kind").is_in([RowKind.EXECUTOR, RowKind.STREAM]),
            pl.col("role").is_in([Role.FORWARD, Role.GRADIENT]),
            ~IS_PARAMETER,
            ~pl.col("op").is_in(side.controller.ops.implode()),
        ).with_columns(tower=0)
    return [
        (
            cover(part["start_us"], part["duration_us"]),
            int(part["start_us"].to_numpy().min()),
            int(part["end_us"].to_numpy().max()),
        )
        for part in own.partition_by("tower")
    ]


def _losses(
    baseline: dict[Part, int], candidate: dict[Part, int], scale: float
) -> pl.DataFrame:
    """Return what each part of the candidate's step lost."""
    expected = [round(baseline[part] * scale) for part in Part]
    taken = [candidate[part] for part in Part]
    return pl.DataFrame(
        {
            "part": [part.value for part in Part],
            "expected_us": expected,
            "candidate_us": taken,
        },
        schema_overrides=PARTS_SCHEMA,
    ).with_columns(lost_us=pl.col("candidate_us") - pl.col("expected_us"))
