"""The answer for a run that proves no placement: what is known of its devices."""

from __future__ import annotations

from placement_viz.analysis import Analysis
from placement_viz.analysis.usage import DeviceUsage
from placement_viz.model import RowKind
from placement_viz.names import short_device
from placement_viz.units import format_count, format_share, format_us

__all__ = ["times_sentence"]

#: A process may be called anything, at any length.
_MOST_CHARS = 60


def times_sentence(analysis: Analysis) -> str:
    """Return that no placement is judged, and how busy the devices were instead.

    Args:
        analysis: A run no row of which proves a placement.
    """
    trace = analysis.run.trace
    if any(notice.code == "no-placement" for notice in trace.notices):
        why = (
            "This format does not record devices of logical ops, so no placement is "
            "judged"
        )
    else:
        why = "No row of this trace names a logical device, so it proves no placement"
    if not analysis.usage:
        return f"{why}."
    busiest = max(analysis.usage, key=_active_us)
    share = _share(_active_us(busiest), trace.span_us)
    name = short_device(busiest.device, trace.devices)
    if len(name) > _MOST_CHARS:
        name = f"{name[:_MOST_CHARS]}…"
    is_of_device = RowKind.OTHER not in trace.device_rows
    what = format_count(
        sum(each.ops for each in analysis.usage), "kernel" if is_of_device else "op"
    )
    n = len(analysis.usage)
    if n == 1:
        where = f"on {name}" if is_of_device else f"of {name}"
        return f"{why}: {what} {where}, busy {share}."
    several = f"on {n:,} devices" if is_of_device else f"of {n:,} processes"
    return f"{why}: {what} {several}, the busiest of them {name}, {share}."


def _share(active_us: int, span_us: int) -> str:
    """Return ``12 % of 3.4 ms``."""
    is_short = 0 < active_us < span_us / 200  # which would be 0 %
    share = "less than 1 %" if is_short else format_share(active_us, span_us)
    return f"{share} of {format_us(span_us)}"


def _active_us(usage: DeviceUsage) -> int:
    """Return for how long a device ran something, or copied if it did nothing else."""
    return usage.busy_us or usage.copy_busy_us
