"""What is known of a step beside its ops, for the lines of a timeline."""

from __future__ import annotations

import functools

import polars as pl

from placement_viz.analysis import Analysis
from placement_viz.analysis.step.critical_path import WAITS_SCHEMA
from placement_viz.dashboard.counters import HeldBytes, OpenIntervals
from placement_viz.names import short_device

__all__ = ["StepLines"]

#: A path through more ops than this is drawn through the longest of them.
_MOST_ON_PATH = 2_000


class StepLines:
    """The critical path through the drawn ops, and what is counted over time.

    All of it is found when it is first asked for; before the run is judged there is
    nothing.
    """

    def __init__(self, analysis: Analysis) -> None:
        """Draw the step of ``analysis``."""
        self._analysis = analysis

    def path(self, start_us: float, end_us: float, lines: pl.Series) -> pl.DataFrame:
        """Return the ops of a window that the critical path goes through, in order.

        Args:
            start_us: First moment of the window.
            end_us: Last moment.
            lines: The line of each op of the trace.

        Returns:
            ``op``, ``step``, ``line``, ``start_us``, ``end_us`` and ``is_from_afar``,
            whether the path comes from another device. Beside those in the window are
            the last before it and the first after it.
        """
        path = self._path.with_columns(line=lines.gather(self._path["op"]))
        is_seen = (pl.col("end_us") >= start_us) & (pl.col("start_us") <= end_us)
        beside = is_seen | is_seen.shift(-1) | is_seen.shift(1)
        seen = path.filter(beside.fill_null(value=False))
        if seen.height <= _MOST_ON_PATH:
            return seen
        longest = (pl.col("end_us") - pl.col("start_us")).rank(
            "ordinal", descending=True
        )
        return seen.filter(longest <= _MOST_ON_PATH)

    @functools.cached_property
    def _path(self) -> pl.DataFrame:
        """Return the whole path with the times of the trace, which clocks may doubt."""
        columns = ("op", "step", "is_from_afar")
        path = WAITS_SCHEMA.to_frame().select(columns)
        if self._analysis.is_judged:
            path = self._analysis.step.critical_path.path.select(columns)
        # Each move in the timeline asks: only what is on the path is looked up, once.
        times = self._analysis.run.trace.ops.select("start_us", "duration_us")
        return path.with_columns(times[path["op"]]).with_columns(
            end_us=pl.col("start_us") + pl.col("duration_us")
        )

    def counters(
        self, start_us: float, end_us: float, n_parts: int
    ) -> list[dict[str, object]]:
        """Return what is counted in each part of a window, counter by counter.

        Args:
            start_us: First moment of the window.
            end_us: Last moment, after the first.
            n_parts: Number of equal parts.

        Returns:
            ``label``, ``unit``, ``most`` of the whole run and ``values`` of each.
        """
        window = start_us, end_us, n_parts
        found: list[dict[str, object]] = []
        if (flights := self._flights) is not None:
            values = flights.mean(*window).round(2).tolist()
            found.append(_counter("on the way", "tensors", flights.most, values))
        for label, held in self._held.items():
            values = held.most(*window).tolist()
            found.append(_counter(f"held by {label}", "bytes", held.peak, values))
        return found

    @functools.cached_property
    def _flights(self) -> OpenIntervals | None:
        """Return when tensors were on their way; None when none is known to be."""
        if not self._analysis.is_judged:
            return None
        tensors = self._analysis.step.transfers.tensors.filter(pl.col("time_us") > 0)
        if tensors.is_empty():
            return None
        return OpenIntervals(
            tensors["start_us"], tensors["start_us"] + tensors["time_us"]
        )

    @functools.cached_property
    def _held(self) -> dict[str, HeldBytes]:
        """Return device to what it held."""
        if not self._analysis.is_judged or self._analysis.step.memory is None:
            return {}
        devices = self._analysis.run.trace.devices
        curves = self._analysis.step.memory.curves.partition_by("device", as_dict=True)
        return {
            short_device(device, devices): HeldBytes(curve["at_us"], curve["n_bytes"])
            for (device,), curve in curves.items()
        }


def _counter(
    label: str, unit: str, most: float, values: list[float]
) -> dict[str, object]:
    return {"label": label, "unit": unit, "most": most, "values": values}
