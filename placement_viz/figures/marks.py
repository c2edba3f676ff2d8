"""Ops into marks: which class, which line, and what the pointer is told."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis.colocation import Colocation
from placement_viz.figures.detail import MAX_MARKS, merge_marks
from placement_viz.figures.looks import OpClass
from placement_viz.figures.rows import Rows
from placement_viz.model import RowKind, Run
from placement_viz.names import short_device
from placement_viz.units import format_us

__all__ = ["count_classes", "escape_markup", "marks_table", "op_classes"]

# A name is cut in the middle: its scope and its last part say most.
_NAME_HEAD, _NAME_TAIL = 54, 32
_TYPE_CHARS = 40


def op_classes(run: Run, colocation: Colocation) -> pl.Series:
    """Return the :class:`OpClass` of each op, in the order of the trace."""
    op_class = (
        pl.when(pl.col("row_kind") != RowKind.EXECUTOR)
        .then(pl.lit(OpClass.TRACER.value))
        .otherwise(pl.col("verdict").fill_null(OpClass.FORWARD.value))
    )
    judged = colocation.gradients.select("op", "verdict")
    # No other columns: a join copies all that it is given.
    return (
        run.trace.ops.select("row_kind")
        .with_row_index("op")
        .join(judged, on="op", how="left", maintain_order="left")
        .select(op_class=op_class)
        .to_series()
    )


def count_classes(run: Run, colocation: Colocation) -> dict[OpClass, int]:
    """Return how many ops of each class ran, in the order of :class:`OpClass`."""
    counts = dict(op_classes(run, colocation).value_counts().iter_rows())
    return {op_class: counts.get(op_class.value, 0) for op_class in OpClass}


def marks_table(
    run: Run,
    colocation: Colocation,
    rows: Rows,
    window_us: tuple[float, float],
    max_marks: int = MAX_MARKS,
) -> pl.DataFrame:
    """Return what is drawn when ``window_us`` is looked at.

    Args:
        run: What ran.
        colocation: Its judged gradient ops.
        rows: The lines of the picture.
        window_us: First and last moment that is looked at.
        max_marks: See :func:`~placement_viz.figures.detail.merge_marks`.

    Returns:
        ``op``, ``op_class``, ``y``, ``start_us``, ``duration_us``, ``n_ops``, and
        ``hover``, markup in which names are escaped; one row a mark.
    """
    ops = _classified(run, colocation)
    placed = ops.join(
        rows.lines.select("device", "row", "lane", "y"),
        on=["device", "row", "lane"],
        how="left",
        maintain_order="left",
    ).select("op", "op_class", "y", "start_us", "duration_us")
    marks = merge_marks(placed, window_us, run.trace.span_us, max_marks)
    told = marks.select("op", "n_ops", "busy_us", extent_us="duration_us").join(
        ops, on="op", how="left", maintain_order="left"
    )
    return marks.with_columns(hover=_hover(told, run.trace.devices)).select(
        "op", "op_class", "y", "start_us", "duration_us", "n_ops", "hover"
    )


def escape_markup(text: pl.Expr) -> pl.Expr:
    """Return ``text`` so that Plotly shows it as it is instead of reading tags."""
    return text.str.replace_many(
        ["&", "<", ">"], ["&amp;", "&lt;", "&gt;"], leftmost=True
    )


def _hover(ops: pl.DataFrame, devices: tuple[str, ...]) -> pl.Series:
    def place(column: str) -> pl.Expr:
        shown = {d: short_device(d, devices) for d in ops[column].unique().drop_nulls()}
        return pl.col(column).replace_strict(shown, return_dtype=pl.String)

    def time(column: str) -> pl.Expr:
        return pl.col(column).map_elements(format_us, return_dtype=pl.String)

    lines = (
        pl.format("<b>{}</b>", escape_markup(_shorten(pl.col("name")))),
        pl.format(
            "{} on {}: {} at {}",
            escape_markup(pl.col("op_type").str.head(_TYPE_CHARS)),
            escape_markup(place("device")),
            time("duration_us"),
            time("start_us"),
        ),
        pl.format("gradient of {}", escape_markup(_shorten(pl.col("forward_op")))),
        pl.format(
            "{}: belongs on {} (evidence: {})",
            pl.col("op_class"),
            escape_markup(place("expected_device")),
            pl.col("evidence").fill_null("none"),
        ),
    )
    # A line about something that is not known is null and left out.
    one = pl.concat_str(lines, separator="<br>", ignore_nulls=True)
    block = pl.format(
        "<b>{} ops</b>, {}<br>busy {} of {} on {}<br>longest: {}<br>click to zoom in",
        "n_ops",
        "op_class",
        time("busy_us"),
        time("extent_us"),
        escape_markup(place("device")),
        escape_markup(_shorten(pl.col("name"))),
    )
    return ops.select(hover=pl.when(pl.col("n_ops") == 1).then(one).otherwise(block))[
        "hover"
    ]


def _shorten(name: pl.Expr) -> pl.Expr:
    cut = pl.format("{}…{}", name.str.head(_NAME_HEAD), name.str.tail(_NAME_TAIL))
    return (
        pl.when(name.str.len_chars() > _NAME_HEAD + _NAME_TAIL + 1)
        .then(cut)
        .otherwise(name)
    )


def _classified(run: Run, colocation: Colocation) -> pl.DataFrame:
    """Return ``run.trace.ops`` with ``op``, ``op_class`` and the verdict's columns.

    Args:
        run: What ran.
        colocation: Its judged gradient ops.

    Returns:
        One row an op, in the order of the trace, with its position in ``op``, an
        :class:`OpClass` in ``op_class``, and ``expected_device``, ``evidence``,
        ``forward_op`` (null for what is no gradient op).
    """
    judged = colocation.gradients.select(
        "op", "verdict", "expected_device", "evidence", "forward_op"
    )
    return (
        run.trace.ops.drop("inputs")
        .with_row_index("op")
        .join(judged, on="op", how="left", maintain_order="left")
        .with_columns(op_class=op_classes(run, colocation))
    )
