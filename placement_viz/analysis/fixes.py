"""What to change so that the gradients come home."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.analysis.colocation import Colocation
from placement_viz.model import Run
from placement_viz.units import format_count

__all__ = ["Fix", "find_fixes"]


@dataclasses.dataclass(frozen=True)
class Fix:
    """One change to the program.

    Attributes:
        title: What it achieves, in a few words.
        where: The program's line to change; None when the run does not know it.
        change: What to write there.
        removes_ops: How many misplaced ops it brings home.
        removes_us: Sum of the durations of those ops.
        side_effects: What else it does, or does not do; empty when there is nothing
            to say.
    """

    title: str
    where: str | None
    change: str
    removes_ops: int
    removes_us: int
    side_effects: str = ""


_FLAG = (
    "pass colocate_gradients_with_ops=True to tf.gradients, compute_gradients or "
    "minimize"
)
_TAPE = (
    "GradientTape has no such flag: call the tf.function for the first time inside "
    "`with placement_viz.colocated_gradients():`, or build the gradients of each part "
    "inside the tf.device of that part"
)


def find_fixes(run: Run, colocation: Colocation) -> tuple[Fix, ...]:
    """Return the changes that help, the one that brings most ops home first.

    Args:
        run: The run, for what was done to it.
        colocation: Its judged gradient ops.

    Returns:
        One fix for each line that builds misplaced gradients, and each way in which
        it does; none when no gradient op is misplaced.
    """
    misplaced = colocation.misplaced
    if misplaced.is_empty() or (run.section and run.section.placement == "colocated"):
        return ()
    is_tape = (pl.col("cause") == "tape-scope").fill_null(value=False)
    by_line = (
        misplaced.group_by("source", is_tape=is_tape)
        .agg(n=pl.len(), total_us=pl.col("duration_us").sum())
        .sort(["n", "source", "is_tape"], descending=[True, False, False])
    )
    return tuple(
        Fix(
            title="colocate gradients with their forward ops",
            where=row["source"],
            change=_TAPE if row["is_tape"] else _FLAG,
            removes_ops=row["n"],
            removes_us=row["total_us"],
            side_effects=_side_effects(colocation),
        )
        for row in by_line.iter_rows(named=True)
    )


def _side_effects(colocation: Colocation) -> str:
    """Return what a person should know before making the change."""
    sentences = []
    if n_moves := len(colocation.collateral):
        example = next(iter(colocation.collateral))
        ops = format_count(n_moves, "forward op")
        verb = "moves" if n_moves == 1 else "move"
        sentences.append(f"{ops} {verb} too, such as {example}")
    reasons = dict(colocation.gradients["reason"].value_counts().iter_rows())
    if n_explicit := reasons.get("explicit", 0):
        ops = format_count(n_explicit, "op")
        sentences.append(
            f"{ops} that has a tf.device of its own stays"
            if n_explicit == 1
            else f"{ops} that have a tf.device of their own stay"
        )
    if n_unknown := colocation.summary.unknown_ops:
        ops = format_count(n_unknown, "op")
        sentences.append(f"what becomes of {ops} is not known")
    return "; ".join(sentences)
