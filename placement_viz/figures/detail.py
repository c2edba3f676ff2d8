"""Level of detail: what is too narrow to be seen alone is drawn as one block.

Bars cost a browser time by number, not by size. Neighbours on a line that are of one
class and narrower than a few pixels look like one bar anyway, so they become one, and
nothing is left out. Inside the window that is looked at, a pixel is short; outside it,
where bars are only needed for the next move, a pixel of the whole run will do.
"""

from __future__ import annotations

import polars as pl

__all__ = ["MAX_MARKS", "merge_marks"]

#: Most bars a picture has, but for a run with more devices than that.
MAX_MARKS = 3_000

# Wide screens show more, but nobody can tell bars apart at one pixel each.
_WIDTH_PX = 1_000
_NARROW_PX = 3
_BY_START = ["y", "start_us"]


def merge_marks(
    ops: pl.DataFrame,
    window_us: tuple[float, float],
    span_us: float,
    max_marks: int = MAX_MARKS,
) -> pl.DataFrame:
    """Return the marks for ``ops``, at most ``max_marks`` where that is possible.

    Args:
        ops: ``op``, ``op_class``, ``y``, ``start_us``, ``duration_us``.
        window_us: First and last moment that is looked at.
        span_us: Length of the whole run.
        max_marks: See above.

    Returns:
        The same columns, with ``n_ops`` and ``busy_us``, the sum of the durations in
        the block. ``op`` is the longest op of a block. In order of line and start.
    """
    alone = ops.with_columns(n_ops=pl.lit(1, pl.UInt32), busy_us="duration_us")
    marks = alone.sort(_BY_START)
    if marks.height <= max_marks:
        return marks
    from_us, to_us = window_us
    is_seen = (pl.col("start_us") <= to_us) & (
        pl.col("start_us") + pl.col("duration_us") >= from_us
    )
    coarse_us, fine_us = span_us / _WIDTH_PX, (to_us - from_us) / _WIDTH_PX
    pixel = pl.when(is_seen).then(fine_us).otherwise(coarse_us)
    marks = _merge(marks, pixel, ["y"], _touches_neighbour())
    while marks.height > max_marks and fine_us < span_us:
        # Classes that alternate within a pixel: one block a class and pixel.
        pixel = pl.when(is_seen).then(fine_us).otherwise(coarse_us)
        marks = _merge(marks, pixel, ["y", "op_class"], _starts_in_same_pixel())
        fine_us, coarse_us = fine_us * 2, coarse_us * 2
    return marks.sort(_BY_START)


def _touches_neighbour() -> pl.Expr:
    previous_end = (pl.col("start_us") + pl.col("duration_us")).shift(1)
    return (pl.col("op_class") == pl.col("op_class").shift(1)) & (
        pl.col("start_us") - previous_end <= pl.col("pixel_us")
    )


def _starts_in_same_pixel() -> pl.Expr:
    bucket = (pl.col("start_us") / pl.col("pixel_us")).floor()
    return (bucket == bucket.shift(1)) & (
        pl.col("pixel_us") == pl.col("pixel_us").shift(1)
    )


def _merge(
    marks: pl.DataFrame, pixel: pl.Expr, line: list[str], is_near: pl.Expr
) -> pl.DataFrame:
    """Merge each narrow mark into the one before it on its line when ``is_near``."""
    is_narrow = pl.col("duration_us") < _NARROW_PX * pl.col("pixel_us")
    is_joined = (is_near & is_narrow & is_narrow.shift(1)).fill_null(value=False)
    end = pl.col("start_us") + pl.col("duration_us")
    return (
        marks.sort(*line, "start_us")
        .with_columns(pixel_us=pixel)
        .with_columns(block=(~is_joined).cum_sum().over(line))
        .group_by(*line, "block", maintain_order=True)
        .agg(
            pl.col("op").sort_by("duration_us").last(),
            pl.col("op_class").first().alias("_class"),
            pl.col("start_us").min(),
            (end.max() - pl.col("start_us").min()).alias("duration_us"),
            pl.col("n_ops").sum(),
            pl.col("busy_us").sum(),
        )
        .with_columns(op_class="_class")
        .select("op", "op_class", "y", "start_us", "duration_us", "n_ops", "busy_us")
    )
