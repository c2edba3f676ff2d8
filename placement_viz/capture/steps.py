"""Which runs of which training step are traced."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

__all__ = ["Schedule", "StepSelection", "TrainingStep"]

#: How many untraced runs are timed.
N_TIMED = 10


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Which runs of the training step to trace, counted from 1.

    Attributes:
        first: The first one.
        count: How many.
        every: How many runs further the next one is.
    """

    first: int = 3
    count: int = 1
    every: int = 1

    def has(self, number: int) -> bool:
        """Return whether run ``number`` is to be traced."""
        position, rest = divmod(number - self.first, self.every)
        return rest == 0 and 0 <= position < self.count


@dataclasses.dataclass(eq=False)
class TrainingStep:
    """A step that computes gradients, and how often it was run."""

    n_runs: int = 0


class _Own(threading.local):
    """Whether a thread runs steps that are no part of the program."""

    is_running = False


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


class StepSelection:
    """Chooses, of all the training steps that a program runs, the one that is traced.

    All runs up to the first one that is asked for are traced and only the newest is
    kept, so that a program with fewer runs is captured too. Of several training steps
    the first to reach that number is the one.

    Attributes:
        schedule: What is asked for.
        kept: What is known of the traced runs, oldest first.
        times_us: Wall times of untraced runs of the same step.
        n_calls: Calls seen that might have been training steps.
        failure: What kept a run from being traced; None while nothing does.
        lock: Held while a run is counted or kept.
    """

    def __init__(self, schedule: Schedule, on_complete: Callable[[], None]) -> None:
        """Choose nothing yet.

        Args:
            schedule: Which runs to trace.
            on_complete: Called once, when all are traced and enough others timed.
        """
        self.schedule = schedule
        self.kept: list[Any] = []
        self.times_us: list[int] = []
        self.n_calls = 0
        self.failure: Exception | None = None
        self.lock = threading.RLock()
        self._chosen: TrainingStep | None = None
        self._on_complete = on_complete
        self._has_all_times = False
        self._is_complete = False
        self._is_given_up = False
        self._is_stopped = False
        self._own = _Own()

    @property
    def n_runs(self) -> int:
        """Return how often the traced step has run so far."""
        return self._chosen.n_runs if self._chosen else 0

    @property
    def is_watching(self) -> bool:
        """Return whether a run that starts now may have to be traced or timed."""
        is_over = self._is_complete or (self._is_given_up and not self.kept)
        return not (is_over or self._is_stopped or self._own.is_running)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Overlook the runs of this thread inside the block: they are our own."""
        self._own.is_running = True
        try:
            yield
        finally:
            self._own.is_running = False

    def stop(self) -> None:
        """Leave all further runs alone."""
        self._is_stopped = True

    def begin(self, step: TrainingStep) -> int:
        """Count a run of ``step`` and return its number."""
        with self.lock:
            step.n_runs += 1
            return step.n_runs

    def is_to_trace(self, step: TrainingStep, number: int) -> bool:
        """Return whether run ``number`` of ``step`` is to be traced."""
        if self._is_given_up or self._is_complete:
            return False
        if self._is_settled:
            return step is self._chosen and self.schedule.has(number)
        return number <= self.schedule.first

    def is_to_time(self, step: TrainingStep) -> bool:
        """Return whether an untraced run of ``step`` is to be timed."""
        return (
            step is self._chosen
            and not self._has_all_times
            and (self._is_settled or self._is_given_up)
        )

    def keep(self, step: TrainingStep, traced: _Numbered) -> None:
        """Keep a traced run, unless a step that has run more often is kept already."""
        with self.lock:
            if self._is_given_up:
                return
            if self._is_settled:
                self.kept.append(traced)
            elif (
                not self.kept
                or step is self._chosen
                or traced.number > self.kept[-1].number
            ):
                self._chosen, self.kept = step, [traced]
        self._finish_if_complete()

    def add_time(self, time_us: int) -> None:
        """Add the wall time of an untraced run of the step."""
        self.times_us.append(time_us)
        self._has_all_times = len(self.times_us) >= N_TIMED
        self._finish_if_complete()

    def time_no_more(self) -> None:
        """Take no more times: the traced runs brought them along."""
        self._has_all_times = True
        self._finish_if_complete()

    def give_up(self, failure: Exception) -> None:
        """Trace nothing more; what is kept stays."""
        self.failure, self._is_given_up = failure, True

    @property
    def _is_settled(self) -> bool:
        return bool(self.kept) and self.kept[0].number >= self.schedule.first

    def _finish_if_complete(self) -> None:
        n_wanted = len(self.kept) if self._is_given_up else self.schedule.count
        if (
            not self._is_complete
            and len(self.kept) >= n_wanted
            and self._is_settled
            and self._has_all_times
        ):
            self._is_complete = True
            self._on_complete()
