"""What a window of a timeline shows, however many ops are in it.

Ops that are narrower than half a pixel become blocks: those of a line that start in
the same bucket are drawn as one, from the first start to the last end. A bucket is at
most half a pixel, so that a block is shorter than a pixel and covers no pixel in which
no op is. Each level has buckets twice as long as the level before; a window is cut out
of the coarsest level that is fine enough, so that the time for it depends on the
number of pixels and not on the number of ops.

Misplaced ops are blocks of their own: nothing hides them, at any zoom.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.dashboard.segments import (
    CLASS_TYPE,
    CLASSES,
    Busy,
    Segments,
    merge_short,
)
from placement_viz.figures import OpClass

__all__ = ["CLASSES", "CLASS_TYPE", "Levels", "Segments", "build_levels", "coalesce"]

_MISPLACED = CLASSES.index(OpClass.MISPLACED)
#: A level is only kept if it has at most this share of what the one before has.
_WORTH = 0.75

_Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class _Level:
    """All segments of a timeline, for pixels of at least ``2 * bucket_us``.

    They are in order of row (twice the line, and one more for misplaced ops), then
    start. What can be told from the keys is not kept again: there are millions.

    Attributes:
        bucket_us: Blocks are of ops that start within so long.
        starts: (n,) key of each start, rising: row after row.
        reaches: (n,) key of the latest end so far in the row, rising.
        length_us: (n,) as in :class:`Segments`, like the two that follow.
        op_class: (n,)
        op: (n,)
    """

    bucket_us: int
    starts: npt.NDArray[Any]
    reaches: npt.NDArray[Any]
    length_us: npt.NDArray[Any]
    op_class: npt.NDArray[np.uint8]
    op: npt.NDArray[np.int32]

    def segments(self, low: _Ints, high: _Ints, bases: _Ints) -> Segments:
        """Return some of each row.

        Args:
            low: (n_rows,) position of the first of them.
            high: (n_rows,) position after the last one.
            bases: (n_rows,) key of moment 0.
        """
        n = (high - low).clip(0)
        rows = np.flatnonzero(n)
        parts = [slice(low[row], high[row]) for row in rows.tolist()]
        if not parts:
            parts = [slice(0, 0)]

        def joined(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.concatenate([column[part] for part in parts])

        start_us = joined(self.starts).astype(np.int64) - np.repeat(bases, n)
        return Segments(
            line=np.repeat(np.arange(len(n), dtype=np.int32) // 2, n),
            start_us=start_us,
            end_us=start_us + joined(self.length_us),
            op_class=joined(self.op_class),
            op=joined(self.op),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Levels:
    """A timeline at every level of detail.

    Attributes:
        n_lines: How many lines it has.
        span_us: When its last op ends.
    """

    n_lines: int
    span_us: int
    _levels: tuple[_Level, ...]
    _ends: npt.NDArray[Any]

    def cut(self, start_us: float, end_us: float, n_pixels: int) -> Segments:
        """Return what a window shows.

        Every pixel that an op touches is touched by a segment of its line, and every
        pixel that a segment touches is touched by an op of its line.

        Args:
            start_us: First moment of the window.
            end_us: Last moment, after the first.
            n_pixels: How wide it is drawn.
        """
        pixel_us = (end_us - start_us) / n_pixels
        level = self._levels[0]
        for coarser in self._levels:
            if 2 * coarser.bucket_us > pixel_us:
                break
            level = coarser
        low, high = self._keys(start_us, end_us)
        first = np.searchsorted(level.reaches, low)
        last = np.searchsorted(level.starts, high, side="right")
        joined = level.segments(first, last, _bases(self.n_lines, self.span_us))
        # Behind one that is long there may be some that ended before the window.
        is_inside = joined.end_us >= start_us
        return joined if is_inside.all() else joined.take(is_inside)

    def count(self, start_us: float, end_us: float) -> int:
        """Return how many ops a window touches, those at its very edge too."""
        low, high = self._keys(start_us, end_us)
        n_started = np.searchsorted(self._levels[0].starts, high, side="right")
        n_ended = np.searchsorted(self._ends, low)
        return int((n_started - n_ended).clip(0).sum())

    def _keys(
        self, start_us: float, end_us: float
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the keys of two moments in each row, of the type of all keys.

        Of another type, all keys would be turned into that for each question.
        """
        bases, key = _bases(self.n_lines, self.span_us), self._ends.dtype
        low = bases + self._moment(start_us, up=True)
        high = bases + self._moment(end_us, up=False)
        return low.astype(key), high.astype(key)

    def _moment(self, time_us: float, *, up: bool) -> int:
        """Return a whole microsecond that is on the same side of every op."""
        time_us = min(max(time_us, -1.0), self.span_us + 1.0)
        return int(np.ceil(time_us) if up else np.floor(time_us))


def build_levels(ops: pl.DataFrame, n_lines: int) -> Levels:
    """Return the levels of detail of a timeline; linear in its ops.

    Args:
        ops: ``line``, ``start_us``, ``duration_us``, ``op_class`` (an
            :class:`OpClass`) and ``op``; times are not negative.
        n_lines: How many lines there are.
    """
    number = _numbers(ops["op_class"])
    line = ops["line"].to_numpy().astype(np.int32)
    row = 2 * line + (number == _MISPLACED)
    start_us = ops["start_us"].to_numpy()
    # Stable, so that of a table in order of start nothing is left to sort in a row.
    if (start_us[1:] < start_us[:-1]).any():
        order = np.lexsort((start_us, row))
    else:
        order = np.argsort(_narrow(row, 2 * n_lines), kind="stable")
    start_us, row = start_us[order], row[order]
    end_us = start_us + ops["duration_us"].to_numpy()[order]
    span_us = int(end_us.max(initial=0))
    segments = Segments(
        line=line[order],
        start_us=start_us,
        end_us=end_us,
        op_class=number[order],
        op=ops["op"].to_numpy()[order].astype(np.int32),
    )
    bases = _bases(n_lines, span_us)
    # Half the memory, and only very long timelines of many lines need more.
    bases = bases.astype(np.uint32 if bases[-1] + span_us + 2 < 1 << 32 else np.int64)
    ends = np.sort(bases[row] + end_us.astype(bases.dtype))
    busy = Busy.of(segments)
    levels = [_level(0, segments, bases[row])]
    bucket_us = 1
    while 2 * bucket_us <= span_us and len(segments):
        most = int(_WORTH * len(segments))
        merged = merge_short(segments, row, busy, bucket_us, most)
        if merged is not None:
            segments, row, busy = merged
            levels.append(_level(bucket_us, segments, bases[row]))
        bucket_us *= 2
    return Levels(n_lines, span_us, tuple(levels), ends)


def coalesce(
    segments: Segments, window_us: tuple[float, float], n_pixels: int
) -> Segments:
    """Return ``segments`` with narrow neighbours of a class as one.

    Only those are put together between which no pixel is empty, so what is drawn stays
    the same: a full line is one segment instead of one for each pixel.

    Args:
        segments: What a window shows, as :meth:`Levels.cut` returns it.
        window_us: First and last moment of the window.
        n_pixels: How wide it is drawn.
    """
    if len(segments) < 2:
        return segments
    start_us, end_us = window_us
    scale = n_pixels / (end_us - start_us)
    first = np.floor((segments.start_us - start_us) * scale)
    last = np.floor((segments.end_us - start_us) * scale)
    is_narrow = last - first <= 1
    is_new = np.ones(len(segments), dtype=bool)
    is_new[1:] = (
        ~(is_narrow[1:] & is_narrow[:-1])
        | (segments.line[1:] != segments.line[:-1])
        | (segments.op_class[1:] != segments.op_class[:-1])
        | (first[1:] > last[:-1] + 1)
    )
    begins = np.flatnonzero(is_new)
    is_one = np.diff(np.append(begins, len(segments))) == 1
    kept = segments.take(begins)
    return dataclasses.replace(
        kept,
        end_us=np.maximum.reduceat(segments.end_us, begins),
        op=np.where(is_one, kept.op, -1).astype(np.int32),
    )


def _numbers(op_class: pl.Series) -> npt.NDArray[np.uint8]:
    """Return the position of each class in :data:`CLASSES`."""
    return op_class.cast(CLASS_TYPE).to_physical().to_numpy().astype(np.uint8)


def _narrow(row: npt.NDArray[np.int32], n_rows: int) -> npt.NDArray[Any]:
    """Return ``row`` in as few bytes as it fits into: two can be sorted by counting."""
    return row.astype(np.uint16) if n_rows <= 1 << 16 else row


def _bases(n_lines: int, span_us: int) -> _Ints:
    """Return the key of moment 0 in each row, with one for each moment around."""
    return np.arange(2 * max(n_lines, 1), dtype=np.int64) * (span_us + 3) + 1


def _level(bucket_us: int, segments: Segments, bases: npt.NDArray[Any]) -> _Level:
    """Return a level; ``bases`` is the key of moment 0 in the row of each segment."""
    length_us = segments.end_us - segments.start_us
    is_short = length_us.max(initial=0) < 1 << 31
    return _Level(
        bucket_us,
        starts=bases + segments.start_us.astype(bases.dtype),
        # Rows follow each other by more than a span, so one row's ends never reach
        # into the next.
        reaches=np.maximum.accumulate(bases + segments.end_us.astype(bases.dtype)),
        length_us=length_us.astype(np.int32) if is_short else length_us,
        op_class=segments.op_class,
        op=segments.op,
    )
