"""When a device had nothing to do."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.waits import explained, find_inputs, find_received
from placement_viz.analysis.step.work import Work

__all__ = ["GAPS_SCHEMA", "WAITS_SCHEMA", "Place", "find_gaps", "split_waits"]

_Ints = npt.NDArray[np.int64]


class Place(enum.StrEnum):
    """Where in the step a gap lies, seen from the device."""

    BEFORE = "before"
    BETWEEN = "between"
    AFTER = "after"
    THROUGHOUT = "throughout"


#: Columns of :func:`find_gaps`, by device and then in order of time.
#:
#: ``device``      one of ``Trace.devices``
#: ``step``        step that it lies in
#: ``place``       a :class:`Place`
#: ``start_us``    from the first op of the run
#: ``duration_us`` at least 1
#: ``before``      position in ``Trace.ops`` of what ended last; null if nothing did
#: ``after``       position of what ended the gap; null if the step ended it
#: ``awaited``     position of the executed op, on any device, whose value or order
#:                 ``after`` waited for: of what it takes, what ended last, and the
#:                 last argument of several. Ops in the gap that took no time are passed
#:                 over. Null if nothing it takes ran
#: ``wait_us``     how much of the gap had passed when that op ended; 0 where it says
#:                 nothing about the gap
#: ``reason``      a ``Reason`` for the time until then if there is some
#: ``rest``        a ``Reason`` for the time after that
GAPS_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "step": pl.Int32,
        "place": pl.String,
        "start_us": pl.Int64,
        "duration_us": pl.Int64,
        "before": pl.UInt32,
        "after": pl.UInt32,
        "awaited": pl.UInt32,
        "wait_us": pl.Int64,
        "reason": pl.String,
        "rest": pl.String,
    }
)

#: Columns of :func:`split_waits`: gaps, each in up to two parts.
WAITS_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "place": pl.String,
        "reason": pl.String,
        "awaited": pl.UInt32,
        "start_us": pl.Int64,
        "duration_us": pl.Int64,
    }
)

_NONE = -1
# By whether something ran before (1) and whether something did after (2).
_PLACES = (Place.THROUGHOUT, Place.AFTER, Place.BEFORE, Place.BETWEEN)


def find_gaps(
    flow: Flow, work: Work, busy: Mapping[str, Cover], steps: pl.DataFrame
) -> pl.DataFrame:
    """Return all gaps of all devices, with the columns of :data:`GAPS_SCHEMA`.

    Args:
        flow: What ran and took what from which.
        work: What kept the devices busy.
        busy: Device to the moments in which it was, in the order of ``Trace.devices``.
        steps: ``step``, ``start_us`` and ``span_us`` of each, none within another.
    """
    time = cover(steps["start_us"], steps["span_us"])
    inputs = find_inputs(flow, work)
    numbers = dict(zip(busy, range(len(busy)), strict=True))
    parts = work.rows.filter(pl.col("duration_us") > 0).partition_by(
        "device", as_dict=True
    )
    received = find_received(flow)
    tables = [
        _divided(time - moments, steps)
        .pipe(_with_ends, parts.get((device,), work.rows.clear()))
        .pipe(explained, inputs, numbers[device], received.get(device, cover([], [])))
        .with_columns(device=pl.lit(device))
        for device, moments in busy.items()
    ]
    return pl.concat(
        [pl.DataFrame(schema=GAPS_SCHEMA), *(_cast(each) for each in tables)]
    )


def split_waits(gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of ``gaps`` of one reason each, as in :data:`WAITS_SCHEMA`."""
    until = gaps.filter(pl.col("wait_us") > 0).with_columns(duration_us="wait_us")
    after = gaps.filter(pl.col("duration_us") > pl.col("wait_us")).with_columns(
        start_us=pl.col("start_us") + pl.col("wait_us"),
        duration_us=pl.col("duration_us") - pl.col("wait_us"),
        reason="rest",
    )
    return pl.concat([each.select(WAITS_SCHEMA.names()) for each in (until, after)])


def _cast(gaps: pl.DataFrame) -> pl.DataFrame:
    positions = [
        pl.when(pl.col(name) >= 0).then(name).alias(name)
        for name in ("before", "after", "awaited")
    ]
    return gaps.with_columns(positions).select(GAPS_SCHEMA.names()).cast(GAPS_SCHEMA)


def _divided(idle: Cover, steps: pl.DataFrame) -> pl.DataFrame:
    """Return ``step``, ``start_us`` and ``duration_us`` of gaps, each in one step."""
    steps = steps.sort("start_us", "step")
    borders = steps["start_us"].to_numpy()
    # Joined steps follow each other without a pause.
    is_inside = idle.within(borders - 1, borders) & idle.within(borders, borders + 1)
    inside = borders[is_inside > 0]
    starts = np.sort(np.concatenate((idle.starts, inside)))
    ends = np.sort(np.concatenate((idle.ends, inside)))
    number = np.searchsorted(borders, starts, side="right") - 1
    return pl.DataFrame(
        {
            "step": steps["step"].gather(number),
            "start_us": starts,
            "duration_us": ends - starts,
        }
    )


def _with_ends(gaps: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Add what was before and after each gap of a device, and thus its place.

    Args:
        gaps: When the device had nothing to do.
        rows: What ran on it and took time.
    """
    starts, step = gaps["start_us"].to_numpy(), gaps["step"].to_numpy()
    ends = starts + gaps["duration_us"].to_numpy()
    by_start = rows.sort("start_us", "op")
    by_end = rows.with_columns(end_us=pl.col("start_us") + pl.col("duration_us")).sort(
        "end_us", "op"
    )
    last = np.searchsorted(by_end["end_us"], starts, side="right") - 1
    first = np.searchsorted(by_start["start_us"], ends, side="left")
    last = _checked(last, by_end, "end_us", starts, step)
    first = _checked(first, by_start, "start_us", ends, step)
    place = (last != _NONE) + 2 * (first != _NONE)
    return gaps.with_columns(
        place=pl.Series([each.value for each in _PLACES]).gather(place),
        before=pl.Series(_gathered(by_end["op"], last)),
        after=pl.Series(_gathered(by_start["op"], first)),
        executed=pl.Series(_gathered(by_start["executed"], first)),
    )


def _checked(
    at: _Ints, rows: pl.DataFrame, end: str, moments: _Ints, step: _Ints
) -> _Ints:
    """Return ``at``, but -1 where the row there has not that ``end`` or that step."""
    if rows.is_empty():
        return np.full(len(at), _NONE)
    there = at.clip(0, rows.height - 1)
    is_so = (rows[end].to_numpy()[there] == moments) & (
        rows["step"].to_numpy()[there] == step
    )
    return np.where(is_so, there, _NONE)


def _gathered(values: pl.Series, at: _Ints) -> _Ints:
    """Return the values at positions, -1 where the position or value is none."""
    numbers = values.cast(pl.Int64).fill_null(_NONE).to_numpy()
    # The value that is appended is the one at position -1.
    return np.append(numbers, _NONE)[at]
