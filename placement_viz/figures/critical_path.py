"""The critical path as a line through the ops of a timeline."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis.step.critical_path import CriticalPath
from placement_viz.figures.rows import Rows
from placement_viz.model import Trace

__all__ = ["PATH_LINE_SCHEMA", "path_line"]

#: Columns of :func:`path_line`.
#:
#: ``step``          the line of another step is another one
#: ``op``            position in ``Trace.ops``
#: ``y``             middle of the op's line in the picture
#: ``start_us``      where the line enters the op, as the trace has it
#: ``end_us``        where it leaves it
#: ``reason``        why the op waited for the one before, as in ``WAITS_SCHEMA``
#: ``is_from_afar``  whether the line comes from another device; null at its begin
PATH_LINE_SCHEMA = pl.Schema(
    {
        "step": pl.Int32,
        "op": pl.UInt32,
        "y": pl.Float64,
        "start_us": pl.Int64,
        "end_us": pl.Int64,
        "reason": pl.String,
        "is_from_afar": pl.Boolean,
    }
)


def path_line(found: CriticalPath, trace: Trace, rows: Rows) -> pl.DataFrame:
    """Return the ops that the line goes through, by step and in order.

    The line goes through each op from its start to its end and on to the start of the
    next one. Between tasks whose clocks differ it may go back, as the picture does.

    Args:
        found: The critical path of ``trace``.
        trace: What the picture shows.
        rows: The lines of the picture.

    Returns:
        A table with the columns of :data:`PATH_LINE_SCHEMA`.
    """
    shown = trace.ops.select(
        *("device", "row", "lane", "start_us"),
        end_us=pl.col("start_us") + pl.col("duration_us"),
    ).with_row_index("op")
    return (
        found.path.select("step", "op", "reason", "is_from_afar")
        .join(shown, on="op", how="left", maintain_order="left")
        .join(
            rows.lines.select("device", "row", "lane", "y"),
            on=["device", "row", "lane"],
            how="left",
            maintain_order="left",
        )
        .select(PATH_LINE_SCHEMA.names())
        .cast(PATH_LINE_SCHEMA)
    )
