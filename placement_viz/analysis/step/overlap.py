"""How many devices were busy at once, and when a step ran at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from placement_viz.analysis.intervals import Cover, depths

__all__ = ["OVERLAP_SCHEMA", "STEPS_SCHEMA", "count_at_once", "find_steps"]

#: Columns of :func:`count_at_once`, a row for each number from 0 to all devices.
#:
#: ``busy_devices``  so many, and no more or less,
#: ``time_us``       were busy for so long
OVERLAP_SCHEMA = pl.Schema({"busy_devices": pl.Int64, "time_us": pl.Int64})

#: Columns of :func:`find_steps`, in order.
#:
#: ``step``       its number
#: ``start_us``   begin of the first of its ops
#: ``span_us``    time from there to the end of the last
#: ``between_us`` time before it in which no step ran; null for the first, and where the
#:                run shows none: what nobody traced is left out unless it is short
STEPS_SCHEMA = pl.Schema(
    {
        "step": pl.Int32,
        "start_us": pl.Int64,
        "span_us": pl.Int64,
        "between_us": pl.Int64,
    }
)


def find_steps(ops: pl.DataFrame) -> pl.DataFrame:
    """Return each step of ``ops``, with the columns of :data:`STEPS_SCHEMA`.

    Args:
        ops: What ran, with ``step``, ``start_us`` and ``end_us``.
    """
    end = pl.col("end_us").max()
    return (
        ops.group_by("step")
        .agg(pl.col("start_us").min(), end_us=end)
        .sort("step")
        .with_columns(span_us=pl.col("end_us") - pl.col("start_us"))
        .sort("start_us", "step")
        .with_columns(
            between_us=pl.col("start_us") - pl.col("end_us").cum_max().shift(1)
        )
        .with_columns(between_us=pl.when(pl.col("between_us") > 0).then("between_us"))
        .sort("step")
        .select(STEPS_SCHEMA.names())
        .cast(STEPS_SCHEMA)
    )


def count_at_once(covers: Sequence[Cover], time: Cover) -> pl.DataFrame:
    """Return for how long each number of devices was busy at once.

    Args:
        covers: When each device was.
        time: The moments of the steps, in which all of that lies.

    Returns:
        A table with the columns of :data:`OVERLAP_SCHEMA`; its times add up to
        ``time``.
    """
    n = len(covers)
    _, lengths, n_busy = depths(covers)
    times = np.bincount(n_busy, weights=lengths, minlength=n + 1).astype(np.int64)
    times[0] = time.total_us - times[1:].sum()
    return pl.DataFrame({"busy_devices": range(n + 1), "time_us": times}).cast(
        OVERLAP_SCHEMA
    )
