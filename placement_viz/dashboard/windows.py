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
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.figures import OpClass

__all__ = ["CLASSES", "Levels", "Segments", "build_levels", "coalesce"]

#: Class of op by its number, in drawing order.
CLASSES = tuple(OpClass)
_MISPLACED = CLASSES.index(OpClass.MISPLACED)
#: A level is only kept if it has at most this share of what the one before has.
_WORTH = 0.75

_Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Segments:
    """Single ops and blocks of ops, by line and start.

    Attributes:
        line: (n,) number of the line, from 0 at the top.
        start_us: (n,) start of the first op.
        end_us: (n,) end of the last one.
        op_class: (n,) position in :data:`CLASSES`: of a block, that with most time.
        op: (n,) position in the trace; -1 for a block.
    """

    line: npt.NDArray[np.int32]
    start_us: _Ints
    end_us: _Ints
    op_class: npt.NDArray[np.uint8]
    op: npt.NDArray[np.int32]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.op)

    def take(self, which: slice | npt.NDArray[Any]) -> Segments:
        """Return some of them."""
        return Segments(
            self.line[which],
            self.start_us[which],
            self.end_us[which],
            self.op_class[which],
            self.op[which],
        )

    @classmethod
    def joined(cls, parts: Sequence[Segments]) -> Segments:
        """Return all of several, one after another; there is at least one."""
        return cls(
            np.concatenate([part.line for part in parts]),
            np.concatenate([part.start_us for part in parts]),
            np.concatenate([part.end_us for part in parts]),
            np.concatenate([part.op_class for part in parts]),
            np.concatenate([part.op for part in parts]),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Level:
    """All segments of a timeline, for pixels of at least ``2 * bucket_us``.

    Attributes:
        bucket_us: Blocks are of ops that start within so long.
        segments: By row (twice the line, and one more for misplaced ops), then start.
        starts: (n,) key of each start, rising: row after row.
        reaches: (n,) key of the latest end so far in the row, rising.
    """

    bucket_us: int
    segments: Segments
    starts: _Ints
    reaches: _Ints


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
    _ends: _Ints

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
        bases = self._bases()
        first = np.searchsorted(level.reaches, bases + self._moment(start_us, up=True))
        last = np.searchsorted(
            level.starts, bases + self._moment(end_us, up=False), side="right"
        )
        found = [
            level.segments.take(slice(low, high))
            for low, high in zip(first.tolist(), last.tolist(), strict=True)
            if low < high
        ]
        if not found:
            return level.segments.take(slice(0, 0))
        joined = Segments.joined(found)
        # Behind one that is long there may be some that ended before the window.
        is_inside = joined.end_us >= start_us
        return joined if is_inside.all() else joined.take(is_inside)

    def count(self, start_us: float, end_us: float) -> int:
        """Return how many ops a window touches, those at its very edge too."""
        bases = self._bases()
        low, high = self._moment(start_us, up=True), self._moment(end_us, up=False)
        n_started = np.searchsorted(self._levels[0].starts, bases + high, side="right")
        n_ended = np.searchsorted(self._ends, bases + low)
        return int((n_started - n_ended).clip(0).sum())

    def _bases(self) -> _Ints:
        """Return the key of moment 0 in each row."""
        return np.arange(2 * self.n_lines, dtype=np.int64) * (self.span_us + 2)

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
    ops = ops.with_columns(
        number=pl.col("op_class").replace_strict(
            {each.value: number for number, each in enumerate(CLASSES)},
            return_dtype=pl.UInt8,
        ),
        end_us=pl.col("start_us") + pl.col("duration_us"),
    ).with_columns(
        row=2 * pl.col("line").cast(pl.Int64)
        + (pl.col("number") == _MISPLACED).cast(pl.Int64)
    )
    ops = ops.sort("row", "start_us")
    span_us = int(ops["end_us"].max() or 0)  # type: ignore[arg-type]
    row = ops["row"].to_numpy()
    segments = Segments(
        line=ops["line"].cast(pl.Int32).to_numpy(),
        start_us=ops["start_us"].to_numpy(),
        end_us=ops["end_us"].to_numpy(),
        op_class=ops["number"].to_numpy(),
        op=ops["op"].cast(pl.Int32).to_numpy(),
    )
    ends = np.sort(row * (span_us + 2) + segments.end_us)
    busy = np.zeros((len(segments), len(CLASSES)), dtype=np.float32)
    busy[np.arange(len(segments)), segments.op_class] = (
        segments.end_us - segments.start_us
    )
    levels = [_level(0, segments, row, span_us)]
    bucket_us = 1
    while 2 * bucket_us <= span_us and len(segments):
        merged, merged_row, merged_busy = _merge(segments, row, busy, bucket_us)
        if len(merged) <= _WORTH * len(segments):
            segments, row, busy = merged, merged_row, merged_busy
            levels.append(_level(bucket_us, segments, row, span_us))
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


def _level(bucket_us: int, segments: Segments, row: _Ints, span_us: int) -> _Level:
    bases = row * (span_us + 2)
    return _Level(
        bucket_us,
        segments,
        starts=bases + segments.start_us,
        # Rows follow each other by more than a span, so one row's ends never reach
        # into the next.
        reaches=np.maximum.accumulate(bases + segments.end_us),
    )


def _merge(
    segments: Segments, row: _Ints, busy: npt.NDArray[np.float32], bucket_us: int
) -> tuple[Segments, _Ints, npt.NDArray[np.float32]]:
    """Return ``segments`` with the short ones of each bucket as one block."""
    is_short = segments.end_us - segments.start_us < bucket_us
    # A block is merged on, whatever its length: it lies in the bucket that it began in.
    is_short |= segments.op < 0
    # Merging can save no more than all of these but one.
    if is_short.sum() < (1 - _WORTH) * len(segments):
        return segments, row, busy
    short, alone = segments.take(is_short), segments.take(~is_short)
    short_row, bucket = row[is_short], short.start_us // bucket_us
    is_new = np.empty(len(short), dtype=bool)
    is_new[0] = True
    is_new[1:] = (np.diff(short_row) != 0) | (np.diff(bucket) != 0)
    begins = np.flatnonzero(is_new)
    block_busy = np.add.reduceat(busy[is_short], begins, axis=0)
    is_one = np.diff(np.append(begins, len(short))) == 1
    # Time decides the colour, and where no op lasts any time, the first op's class.
    most = np.where(
        is_one | (block_busy.max(axis=1) == 0),
        short.op_class[begins],
        block_busy.argmax(axis=1).astype(np.uint8),
    ).astype(np.uint8)
    blocks = Segments(
        line=short.line[begins],
        start_us=np.minimum.reduceat(short.start_us, begins),
        end_us=np.maximum.reduceat(short.end_us, begins),
        op_class=most,
        op=np.where(is_one, short.op[begins], -1).astype(np.int32),
    )
    both = Segments.joined([alone, blocks])
    both_row = np.concatenate((row[~is_short], short_row[begins]))
    order = np.lexsort((both.start_us, both_row))
    both_busy = np.concatenate((busy[~is_short], block_busy))
    return both.take(order), both_row[order], both_busy[order]
