"""How many devices were busy at a time, for a line of the timeline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["BusyDevices"]

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
            _busy_until(
                part["start_us"].to_numpy().astype(np.float64),
                part["duration_us"].to_numpy().astype(np.float64),
            )
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


def _busy_until(starts: _Floats, lengths: _Floats) -> tuple[_Floats, _Floats]:
    """Return moments in order, and for how long there was an op up to each.

    Between two of them the time passes evenly: there is an op all the time, or none.
    """
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], (starts + lengths)[order]
    reach = np.maximum.accumulate(ends)
    is_new = np.ones(len(starts), dtype=bool)
    is_new[1:] = starts[1:] > reach[:-1]
    begins = np.flatnonzero(is_new)
    from_us = starts[begins]
    to_us = reach[np.append(begins[1:], len(starts)) - 1]
    total = np.cumsum(to_us - from_us)
    moments = np.column_stack((from_us, to_us)).ravel()
    busy_us = np.column_stack((total - (to_us - from_us), total)).ravel()
    return moments, busy_us
