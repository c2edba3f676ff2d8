"""What is drawn of a timeline: single ops, and blocks of ops that are narrow."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.figures import OpClass

__all__ = ["CLASSES", "CLASS_TYPE", "Busy", "Segments", "merge_short"]

#: Class of op by its number, in drawing order.
CLASSES = tuple(OpClass)
#: The same as a type of column.
CLASS_TYPE = pl.Enum([each.value for each in CLASSES])

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


@dataclasses.dataclass(frozen=True, eq=False)
class Busy:
    """How long ops of each class ran in each segment.

    Attributes:
        classes: (k,) position in :data:`CLASSES`, only of those that are there.
        us: (n,) time of each, in the order of ``classes``; empty if that is one, as
            then nothing needs to be told apart.
    """

    classes: npt.NDArray[np.uint8]
    us: tuple[npt.NDArray[np.float32], ...]

    @classmethod
    def of(cls, segments: Segments) -> Busy:
        """Return the time of single ops."""
        length_us = (segments.end_us - segments.start_us).astype(np.float32)
        classes = np.flatnonzero(np.bincount(segments.op_class)).astype(np.uint8)
        if len(classes) < 2:
            return cls(classes, ())
        return cls(
            classes, tuple(length_us * (segments.op_class == each) for each in classes)
        )

    def sums(self, which: _Ints, begins: _Ints) -> tuple[npt.NDArray[np.float32], ...]:
        """Return the time of blocks of those in ``which``, a block from each begin."""
        return tuple(np.add.reduceat(us[which], begins) for us in self.us)


def merge_short(
    segments: Segments,
    row: npt.NDArray[np.int32],
    busy: Busy,
    bucket_us: int,
    most: int,
) -> tuple[Segments, npt.NDArray[np.int32], Busy] | None:
    """Return ``segments`` with the short ones of each bucket as one block.

    Args:
        segments: By row, then start; there is at least one.
        row: (n,) where each may be merged with others.
        busy: How long ops of each class ran in each.
        bucket_us: What starts within so long, and is shorter, becomes one.
        most: None is returned when more than these would remain.
    """
    is_short = segments.end_us - segments.start_us < bucket_us
    # A block is merged on, whatever its length: it lies in the bucket that it began in.
    is_short |= segments.op < 0
    short = np.flatnonzero(is_short)
    # Merging can save no more than all of these but one.
    if len(segments) - len(short) >= most:
        return None
    short_row, bucket = row[short], segments.start_us[short] // bucket_us
    is_new = np.ones(len(short), dtype=bool)
    is_new[1:] = (short_row[1:] != short_row[:-1]) | (bucket[1:] != bucket[:-1])
    begins = np.flatnonzero(is_new)
    # A block begins with its first segment, and so stands in order in its place.
    firsts = short[begins]
    is_kept = ~is_short
    is_kept[firsts] = True
    if np.count_nonzero(is_kept) > most:
        return None
    place = np.cumsum(is_kept)[firsts] - 1
    kept = segments.take(is_kept)
    is_one = np.diff(begins, append=len(short)) == 1
    end_us, op, op_class = kept.end_us, kept.op, kept.op_class
    end_us[place] = np.maximum.reduceat(segments.end_us[short], begins)
    op[place[~is_one]] = -1
    if not busy.us:
        return kept, row[is_kept], busy
    sums = busy.sums(short, begins)
    # Time decides the colour, and where no op lasts any time, the first op's class.
    is_timed = np.maximum.reduce(sums) > 0
    most = busy.classes[np.argmax(sums, axis=0)]
    op_class[place] = np.where(is_timed & ~is_one, most, op_class[place])
    us = tuple(each[is_kept] for each in busy.us)
    for each, block_us in zip(us, sums, strict=True):
        each[place] = block_us
    return kept, row[is_kept], Busy(busy.classes, us)
