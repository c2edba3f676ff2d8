"""How far something has come, how fast it goes and how long it will still take."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

__all__ = ["Clock", "Meter"]

#: Gives seconds that only ever grow.
Clock = Callable[[], float]

#: A rate is that of the last seconds: networks and disks change their minds.
_WINDOW_S = 4.0
#: A rate of less time than this is chance.
_LEAST_S = 0.2


class Meter:
    """Bytes done of a total, told by one thread and asked by any.

    Attributes:
        done: How many bytes are done.
        total: Of how many.
    """

    def __init__(
        self, total: int, clock: Clock = time.monotonic, *, done: int = 0
    ) -> None:
        """Begin now.

        Args:
            total: How many bytes there are.
            clock: Gives the time in seconds.
            done: How many of them are done already.
        """
        self.done = done
        self.total = total
        self._clock = clock
        self._marks = collections.deque([(clock(), done)])

    def reach(self, done: int, total: int | None = None) -> None:
        """Note that ``done`` bytes are done, and of how many if that is news."""
        now = self._clock()
        self.done = done
        if total is not None:
            self.total = total
        self._marks.append((now, done))
        # The first mark stays, or the last two, so that there is always a rate.
        while len(self._marks) > 2 and self._marks[1][0] < now - _WINDOW_S:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Bytes per second of late; None when nothing can be said yet."""
        began, before = self._marks[0]
        took = self._clock() - began
        if took < _LEAST_S or self.done <= before:
            return None
        return (self.done - before) / took

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all is done at this rate; None when nothing can be said."""
        rate = self.rate
        return None if rate is None else max(0, self.total - self.done) / rate
