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

__all__ = ["CLASSES", "CLASS_TYPE", "Levels", "Segments", "build_levels", "coalesce"]

#: Class of op by its number, in drawing order.
CLASSES = tuple(OpClass)
#: The same as a type of column.
CLASS_TYPE = pl.Enum([each.value for each in CLASSES])
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
    ends = np.sort(row * np.int64(span_us + 2) + end_us)
    busy = _Busy.of(segments)
    levels = [_level(0, segments, row, span_us)]
    bucket_us = 1
    while 2 * bucket_us <= span_us and len(segments):
        merged = _merge(segments, row, busy, bucket_us)
        if merged is not None and len(merged[0]) <= _WORTH * len(segments):
            segments, row, busy = merged
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


def _numbers(op_class: pl.Series) -> npt.NDArray[np.uint8]:
    """Return the position of each class in :data:`CLASSES`."""
    return op_class.cast(CLASS_TYPE).to_physical().to_numpy().astype(np.uint8)


def _narrow(row: npt.NDArray[np.int32], n_rows: int) -> npt.NDArray[Any]:
    """Return ``row`` in as few bytes as it fits into: two can be sorted by counting."""
    return row.astype(np.uint16) if n_rows <= 1 << 16 else row


def _level(
    bucket_us: int, segments: Segments, row: npt.NDArray[np.int32], span_us: int
) -> _Level:
    bases = row * np.int64(span_us + 2)
    return _Level(
        bucket_us,
        segments,
        starts=bases + segments.start_us,
        # Rows follow each other by more than a span, so one row's ends never reach
        # into the next.
        reaches=np.maximum.accumulate(bases + segments.end_us),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Busy:
    """How long ops of each class ran in each segment.

    Attributes:
        classes: (k,) position in :data:`CLASSES`, only of those that are there.
        us: (n,) time of each, in the order of ``classes``; empty if that is one, as
            then nothing needs to be told apart.
    """

    classes: npt.NDArray[np.uint8]
    us: tuple[npt.NDArray[np.float32], ...]

    @classmethod
    def of(cls, segments: Segments) -> _Busy:
        """Return the time of single ops."""
        length_us = (segments.end_us - segments.start_us).astype(np.float32)
        classes = np.flatnonzero(np.bincount(segments.op_class)).astype(np.uint8)
        if len(classes) < 2:
            return cls(classes, ())
        return cls(
            classes, tuple(length_us * (segments.op_class == each) for each in classes)
        )

    def merged(
        self, which: npt.NDArray[np.bool_], begins: _Ints
    ) -> tuple[npt.NDArray[np.float32], ...]:
        """Return the sums of blocks of those in ``which``, a block from each begin."""
        return tuple(np.add.reduceat(us[which], begins) for us in self.us)


def _merge(
    segments: Segments, row: npt.NDArray[np.int32], busy: _Busy, bucket_us: int
) -> tuple[Segments, npt.NDArray[np.int32], _Busy] | None:
    """Return ``segments`` with the short ones of each bucket as one block.

    None if that is not worth it.
    """
    is_short = segments.end_us - segments.start_us < bucket_us
    # A block is merged on, whatever its length: it lies in the bucket that it began in.
    is_short |= segments.op < 0
    short = np.flatnonzero(is_short)
    # Merging can save no more than all of these but one.
    if len(short) < (1 - _WORTH) * len(segments):
        return None
    short_row, bucket = row[short], segments.start_us[short] // bucket_us
    is_new = np.ones(len(short), dtype=bool)
    is_new[1:] = (short_row[1:] != short_row[:-1]) | (bucket[1:] != bucket[:-1])
    begins = np.flatnonzero(is_new)
    # A block begins with its first segment, and so stands in order in its place.
    firsts = short[begins]
    is_kept = ~is_short
    is_kept[firsts] = True
    place = np.cumsum(is_kept)[firsts] - 1
    kept = segments.take(is_kept)
    is_one = np.diff(begins, append=len(short)) == 1
    end_us, op, op_class = kept.end_us, kept.op, kept.op_class
    end_us[place] = np.maximum.reduceat(segments.end_us[short], begins)
    op[place[~is_one]] = -1
    if not busy.us:
        return kept, row[is_kept], busy
    sums = busy.merged(is_short, begins)
    # Time decides the colour, and where no op lasts any time, the first op's class.
    is_timed = np.maximum.reduce(sums) > 0
    most = busy.classes[np.argmax(sums, axis=0)]
    op_class[place] = np.where(is_timed & ~is_one, most, op_class[place])
    us = tuple(each[is_kept] for each in busy.us)
    for each, block_us in zip(us, sums, strict=True):
        each[place] = block_us
    return kept, row[is_kept], _Busy(busy.classes, us)
