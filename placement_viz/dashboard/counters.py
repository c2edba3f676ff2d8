"""What is counted over time, for the lines above a timeline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.intervals import Cover, cover

__all__ = ["BusyDevices", "HeldBytes", "OpenIntervals"]

_Floats = npt.NDArray[np.float64]


class BusyDevices:
    """The busy time of each device up to any moment.

    Attributes:
        n_devices: How many devices there are.
    """

    def __init__(self, ops: pl.DataFrame) -> None:
        """Add up the ops; linear in them but for sorting.

        Args:
            ops: ``device``, ``start_us`` and ``duration_us``, in any order.
        """
        self._curves = [
            _busy_until(cover(part["start_us"], part["duration_us"]))
            for part in ops.partition_by("device")
        ]

    @property
    def n_devices(self) -> int:
        """Return how many devices there are."""
        return len(self._curves)

    def mean(self, start_us: float, end_us: float, n_parts: int) -> _Floats:
        """Return how many devices were busy on average in each part of a window.

        Args:
            start_us: First moment of the window.
            end_us: Last moment, after the first.
            n_parts: Number of equal parts.

        Returns:
            (n_parts,) from 0 to :attr:`n_devices`.
        """
        edges = np.linspace(start_us, end_us, n_parts + 1)
        busy = np.zeros(n_parts)
        for moments, busy_us in self._curves:
            busy += np.diff(np.interp(edges, moments, busy_us))
        return busy * n_parts / (end_us - start_us)


def _busy_until(busy: Cover) -> tuple[_Floats, _Floats]:
    """Return moments in order, and for how long there was an op up to each.

    Between two of them the time passes evenly: there is an op all the time, or none.
    """
    lengths = busy.ends - busy.starts
    total = np.cumsum(lengths)
    moments = np.column_stack((busy.starts, busy.ends)).ravel()
    busy_us = np.column_stack((total - lengths, total)).ravel()
    if not len(moments):
        return np.zeros(1), np.zeros(1)
    return moments.astype(np.float64), busy_us.astype(np.float64)


class OpenIntervals:
    """How many of some intervals were open at a time, such as tensors on their way.

    Attributes:
        most: The most that were open at once.
    """

    def __init__(self, start_us: npt.ArrayLike, end_us: npt.ArrayLike) -> None:
        """Sort the ends.

        Args:
            start_us: (n,) begins, in any order.
            end_us: (n,) ends, not before the begins.
        """
        self._starts = _Clock(start_us)
        self._ends = _Clock(end_us)
        began = np.arange(1, len(self._starts.moments) + 1)
        # What ends at the moment that another begins makes room for it.
        ended = np.searchsorted(self._ends.moments, self._starts.moments, side="right")
        self.most = int((began - ended).max(initial=0))

    def mean(self, start_us: float, end_us: float, n_parts: int) -> _Floats:
        """Return how many were open on average in each part of a window.

        Args:
            start_us: First moment of the window.
            end_us: Last moment, after the first.
            n_parts: Number of equal parts.

        Returns:
            (n_parts,) from 0 to the number of intervals.
        """
        edges = np.linspace(start_us, end_us, n_parts + 1)
        open_us = self._starts.passed(edges) - self._ends.passed(edges)
        return np.diff(open_us) * n_parts / (end_us - start_us)


class HeldBytes:
    """What a device held at a time.

    Attributes:
        peak: The most it ever held.
    """

    def __init__(self, at_us: npt.ArrayLike, n_bytes: npt.ArrayLike) -> None:
        """Keep the curve.

        Args:
            at_us: (n,) moments at which it changes, in order, each once; at least one.
            n_bytes: (n,) what is held from then on; before the first moment nothing is.
        """
        self._moments = np.asarray(at_us, dtype=np.float64)
        self._held = np.concatenate(([0], np.asarray(n_bytes, dtype=np.int64)))
        self.peak = int(self._held.max())

    def most(
        self, start_us: float, end_us: float, n_parts: int
    ) -> npt.NDArray[np.int64]:
        """Return the most that was held in each part of a window.

        Args:
            start_us: First moment of the window.
            end_us: Last moment, after the first.
            n_parts: Number of equal parts.

        Returns:
            (n_parts,) bytes.
        """
        edges = np.linspace(start_us, end_us, n_parts + 1)
        # A part sees what was held when it began, and all changes until it ends.
        first = np.searchsorted(self._moments, edges[:-1], side="right")
        last = np.searchsorted(self._moments, edges[1:], side="left")
        bounds = np.column_stack((first, np.maximum(last, first) + 1)).ravel()
        # The end of the table is no place to begin at.
        padded = np.concatenate((self._held, [0]))
        return np.maximum.reduceat(padded, bounds)[::2]


class _Clock:
    """How much time has passed since each of some moments, in all."""

    def __init__(self, moments: npt.ArrayLike) -> None:
        self.moments = np.sort(np.asarray(moments, dtype=np.float64))
        self._sums = np.concatenate(([0.0], np.cumsum(self.moments)))

    def passed(self, at_us: _Floats) -> _Floats:
        n_before = np.searchsorted(self.moments, at_us, side="right")
        return n_before * at_us - self._sums[n_before]
