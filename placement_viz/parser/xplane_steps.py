"""The steps of a profile: which of them an event belongs to."""

from __future__ import annotations

import bisect
import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from placement_viz.parser.xplane_planes import Fact, Plane

__all__ = ["Marks", "find_marks", "start_ps"]

_STEPS = "Steps"
#: The best first: what is the same on all devices.
_GROUP, _COUNT = "group_id", "step_num"
_TOLD_BY = (_GROUP, _COUNT)
#: What tells a step from others: the name of a fact and what it says.
_Key = tuple[str, Fact]


@dataclasses.dataclass(frozen=True)
class Marks:
    """Where steps start, on one plane.

    Attributes:
        starts_ps: When a step starts, in order.
        steps: The numbers of these steps.
        groups: Group of events, as the profiler numbers them, to step.
    """

    starts_ps: Sequence[int] = ()
    steps: Sequence[int] = ()
    groups: Mapping[Fact, int] = dataclasses.field(default_factory=dict)

    def step_at(self, time_ps: int, group: Fact | None) -> int:
        """Return the step of an event: its group's, or else the last that had started.

        It is 0 before the first step and where there are none.
        """
        if group is not None and group in self.groups:
            return self.groups[group]
        position = bisect.bisect_right(self.starts_ps, time_ps) - 1
        return self.steps[max(position, 0)] if self.steps else 0


def start_ps(line: Any, event: Any) -> int:
    """Return when an event started, exactly."""
    return int(line.timestamp_ns) * 1000 + int(event.offset_ps)


def find_marks(planes: Sequence[Plane]) -> list[Marks]:
    """Return for each plane where the steps start on it.

    Steps are numbered from 0 in the order of their first start on any plane. They are
    those that the profiler found on the devices, or else those that the program
    counted on the host; a plane without any goes by the others.
    """
    found = [_steps_of_device(plane) for plane in planes]
    if not any(found):
        return [_marks_of_host(planes)] * len(planes)
    firsts: dict[_Key, int] = {}
    for key, start in (each for steps in found for each in steps):
        firsts[key] = min(start, firsts.get(key, start))
    numbers = {key: n for n, key in enumerate(sorted(firsts, key=firsts.__getitem__))}
    groups = {value: n for (told_by, value), n in numbers.items() if told_by == _GROUP}
    marks = []
    for steps in found:
        by_start = sorted(
            (start, numbers[key]) for key, start in steps or firsts.items()
        )
        starts, of_steps = zip(*by_start, strict=True)
        marks.append(Marks(starts, of_steps, groups))
    return marks


def _steps_of_device(plane: Plane) -> list[tuple[_Key, int]]:
    """Return what tells a step from others and when it starts, for each step."""
    found = []
    for line in plane.lines:
        if line.name != _STEPS or plane.is_host:
            continue
        for event in line.events:
            facts = plane.facts(event)
            key = next(
                ((told_by, facts[told_by]) for told_by in _TOLD_BY if told_by in facts),
                ("label", plane.label(event)),
            )
            found.append((key, start_ps(line, event)))
    return found


def _marks_of_host(planes: Sequence[Plane]) -> Marks:
    """Return the marks of the steps that the program counted as it ran."""
    counted = [
        (start_ps(line, event), facts[_COUNT])
        for plane in planes
        if plane.is_host and plane.has_fact(_COUNT)
        for line in plane.lines
        for event in line.events
        if _COUNT in (facts := plane.facts(event))
    ]
    counted.sort(key=operator.itemgetter(0))
    # A count that comes again later, as in each epoch, is another step; one that is
    # there several times in a row, as on several threads, is the same.
    starts = [
        start
        for (start, count), (_, before) in zip(
            counted, [(0, None), *counted], strict=False
        )
        if count != before
    ]
    return Marks(starts, range(len(starts)))
