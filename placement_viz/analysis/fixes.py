"""What to change so that the gradients come home."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.model import Run

__all__ = ["Fix", "find_fixes"]


@dataclasses.dataclass(frozen=True)
class Fix:
    """One change to the program.

    Attributes:
        title: What it achieves, in a few words.
        where: The program's line to change; None when the run does not know it.
        change: What to write there.
        removes_ops: How many misplaced ops it brings home.
    """

    title: str
    where: str | None
    change: str
    removes_ops: int


_COLOCATE = (
    "pass colocate_gradients_with_ops=True to tf.gradients, compute_gradients or "
    "minimize; forward ops that share a variable or a loop with others may move too"
)


def find_fixes(run: Run, gradients: pl.DataFrame) -> tuple[Fix, ...]:
    """Return the changes that help, the one that brings most ops home first.

    Args:
        run: The run, for what was done to it.
        gradients: Its judged gradient ops.

    Returns:
        One fix for each line that builds misplaced gradients; none when no gradient
        op is misplaced.
    """
    misplaced = gradients.filter(pl.col("verdict") == "misplaced")
    if misplaced.is_empty() or (run.section and run.section.placement == "colocated"):
        return ()
    by_line = (
        misplaced.group_by("source")
        .agg(n=pl.len())
        .sort(["n", "source"], descending=[True, False])
    )
    return tuple(
        Fix(
            title="colocate gradients with their forward ops",
            where=source,
            change=_COLOCATE,
            removes_ops=n,
        )
        for source, n in by_line.iter_rows()
    )
