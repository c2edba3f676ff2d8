"""Unions of time intervals: what is behind every busy time.

An interval holds its begin and not its end. A :class:`Cover` is a set of moments as
intervals that are in order and do not touch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["Cover", "cover", "covers_at_once", "depths"]

_Moments = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Cover:
    """A set of moments.

    Attributes:
        starts: (n,) begin of each interval in microseconds, in order.
        ends: (n,) end of each, after its begin and before the next.
    """

    starts: _Moments
    ends: _Moments

    @property
    def total_us(self) -> int:
        """Return how long it is in all."""
        return int((self.ends - self.starts).sum())

    def __and__(self, other: Cover) -> Cover:
        """Return the moments that are in both."""
        return covers_at_once([self, other], 2)

    def __or__(self, other: Cover) -> Cover:
        """Return the moments that are in one of the two at least."""
        starts = np.concatenate((self.starts, other.starts))
        return cover(starts, np.concatenate((self.ends, other.ends)) - starts)

    def __sub__(self, other: Cover) -> Cover:
        """Return the moments that are not in ``other``."""
        if not len(self.starts):
            return self
        return self & other.gaps(int(self.starts[0]), int(self.ends[-1]))

    def gaps(self, start_us: int, end_us: int) -> Cover:
        """Return the moments of a window that are not in it."""
        starts = np.concatenate(([start_us], self.ends.clip(start_us, end_us)))
        ends = np.concatenate((self.starts.clip(start_us, end_us), [end_us]))
        is_some = starts < ends
        return Cover(starts[is_some], ends[is_some])

    def within(self, starts_us: _Moments, ends_us: _Moments) -> _Moments:
        """Return how much of it lies in each of some windows.

        Args:
            starts_us: (m,) first moments, in any order.
            ends_us: (m,) last moments, not before the first.

        Returns:
            (m,) microseconds.
        """
        return self._until(ends_us) - self._until(starts_us)

    def _until(self, moments: _Moments) -> _Moments:
        """Return how much of it lies before each moment."""
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        place = np.searchsorted(self.starts, moments, side="right")
        if not len(self.starts):
            return np.zeros(len(moments), dtype=np.int64)
        # What of the interval that began last comes only after the moment.
        rest = (self.ends[place - 1] - moments).clip(0)
        return before[place] - np.where(place > 0, rest, 0)


def cover(start_us: npt.ArrayLike, duration_us: npt.ArrayLike) -> Cover:
    """Return the moments that are in one of some intervals at least.

    Args:
        start_us: (n,) begins, in any order.
        duration_us: (n,) lengths, not negative.
    """
    starts = np.asarray(start_us, dtype=np.int64)
    lengths = np.asarray(duration_us, dtype=np.int64)
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    if not len(starts):
        return Cover(starts, starts)
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = np.maximum.accumulate(starts + lengths[order])
    is_first = np.concatenate(([True], starts[1:] > ends[:-1]))
    is_last = np.concatenate((is_first[1:], [True]))
    return Cover(starts[is_first], ends[is_last])


def covers_at_once(covers: Iterable[Cover], least: int) -> Cover:
    """Return the moments that are in ``least`` of ``covers`` or in more, at least 1."""
    starts, lengths, n_open = depths(covers)
    is_in = n_open >= least
    return cover(starts[is_in], lengths[is_in])


def depths(covers: Iterable[Cover]) -> tuple[_Moments, _Moments, _Moments]:
    """Return how many of ``covers`` are open, from the first begin to the last end.

    Returns:
        (n,) begins of intervals in order, their lengths, which may be 0, and how many
        covers hold each; one begins where the one before ends.
    """
    # So that there is something to join where there are none.
    covers = [cover([], []), *covers]
    moments = np.concatenate([*(c.starts for c in covers), *(c.ends for c in covers)])
    steps = np.ones(len(moments), dtype=np.int64)
    steps[len(moments) // 2 :] = -1
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    return moments[:-1], np.diff(moments), np.cumsum(steps[order])[:-1]
