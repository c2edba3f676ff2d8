"""Where the steps of a profile start, on each of its devices and on the host."""

from __future__ import annotations

import bisect
import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = ["GROUP", "Fact", "Key", "Marks", "marks_of_counts", "marks_of_steps"]

#: What a profiler says of an event; other kinds of value are not asked for.
Fact: TypeAlias = str | int
#: What tells a step from others: the name of a fact and what it says.
Key: TypeAlias = tuple[str, Fact]

#: The fact that events of a step share wherever they run.
GROUP = "group_id"


@dataclasses.dataclass(frozen=True)
class Marks:
    """Where steps start, on one device or on the host.

    Attributes:
        starts: When a step starts, in order; in the unit of the profile.
        steps: The numbers of these steps.
        groups: Group of events, as the profiler numbers them, to step.
    """

    starts: Sequence[int] = ()
    steps: Sequence[int] = ()
    groups: Mapping[Fact, int] = dataclasses.field(default_factory=dict)

    def step_at(self, time: int, group: Fact | None = None) -> int:
        """Return the step of an event: its group's, or else the last that had started.

        It is that of the first step before it, and 0 where there are none.
        """
        if group is not None and group in self.groups:
            return self.groups[group]
        position = bisect.bisect_right(self.starts, time) - 1
        return self.steps[max(position, 0)] if self.steps else 0


def marks_of_steps(found: Sequence[Sequence[tuple[Key, int]]]) -> list[Marks]:
    """Return the marks of each device for steps that were found on some of them.

    Steps are numbered from 0 in the order of their first start on any device. A device
    without any goes by the first starts.

    Args:
        found: For each device its steps: what tells them from others, and their start.
    """
    firsts: dict[Key, int] = {}
    for key, start in (each for steps in found for each in steps):
        firsts[key] = min(start, firsts.get(key, start))
    numbers = {key: n for n, key in enumerate(sorted(firsts, key=firsts.__getitem__))}
    groups = {value: n for (told_by, value), n in numbers.items() if told_by == GROUP}
    marks = []
    for steps in found:
        by_start = sorted(
            (start, numbers[key]) for key, start in steps or firsts.items()
        )
        starts, of_steps = zip(*by_start, strict=True) if by_start else ((), ())
        marks.append(Marks(starts, of_steps, groups))
    return marks


def marks_of_counts(counted: Iterable[tuple[int, Fact]]) -> Marks:
    """Return the marks of the steps that the program counted as it ran.

    Args:
        counted: When a step was counted, and as which; in any order.
    """
    in_order = sorted(counted, key=operator.itemgetter(0))
    # A count that comes again later, as in each epoch, is another step; one that is
    # there several times in a row, as on several threads, is the same.
    starts = [
        start
        for (start, count), (_, before) in zip(
            in_order, [(0, None), *in_order], strict=False
        )
        if count != before
    ]
    return Marks(starts, range(len(starts)))
