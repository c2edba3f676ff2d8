"""The steps of an XSpace: which of them an event belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placement_viz.parser.marks import (
    GROUP,
    Key,
    Marks,
    marks_of_counts,
    marks_of_steps,
)
from placement_viz.parser.xplane_planes import Plane

__all__ = ["COUNT", "STEPS", "find_marks", "start_ps"]

#: The line of a device that shows its steps.
STEPS = "Steps"
#: The fact of an event that begins a step which the program counted.
COUNT = "step_num"
#: The best first: what is the same on all devices.
_TOLD_BY = (GROUP, COUNT)


def start_ps(line: Any, event: Any) -> int:
    """Return when an event started, exactly."""
    return int(line.timestamp_ns) * 1000 + int(event.offset_ps)


def find_marks(planes: Sequence[Plane]) -> list[Marks]:
    """Return for each plane where the steps start on it, in ps.

    They are those that the profiler found on the devices, or else those that the
    program counted on the host; a plane without any goes by the others.
    """
    found = [_steps_of_device(plane) for plane in planes]
    if any(found):
        return marks_of_steps(found)
    counted = [
        (start_ps(line, event), facts[COUNT])
        for plane in planes
        if plane.is_host and plane.has_fact(COUNT)
        for line in plane.lines
        for event in line.events
        if COUNT in (facts := plane.facts(event))
    ]
    return [marks_of_counts(counted)] * len(planes)


def _steps_of_device(plane: Plane) -> list[tuple[Key, int]]:
    """Return what tells a step from others and when it starts, for each step."""
    found = []
    for line in plane.lines:
        if line.name != STEPS or plane.is_host:
            continue
        for event in line.events:
            facts = plane.facts(event)
            key = next(
                ((told_by, facts[told_by]) for told_by in _TOLD_BY if told_by in facts),
                ("label", plane.label(event)),
            )
            found.append((key, start_ps(line, event)))
    return found
