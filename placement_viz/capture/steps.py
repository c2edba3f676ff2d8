"""Which ``Session.run`` calls are the training step, and tracing one of them."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from placement_viz.capture.fetches import depends_on, fetched_elements
from placement_viz.capture.gradients import GradientNotes
from placement_viz.capture.tracing import (
    Call,
    TracedStep,
    hand_over,
    is_of_the_program,
    traced_step,
    tracing_options,
)

__all__ = ["SESSION_MODULE", "StepWatch"]

#: The module whose ``BaseSession.run`` every kind of v1 session goes through.
SESSION_MODULE = "tensorflow.python.client.session"

#: How many runs after the traced one are timed.
N_TIMED = 10


@dataclasses.dataclass(eq=False)
class _FetchSet:
    """What runs of one graph with the same fetches have in common.

    Attributes:
        has_gradients: Whether it is a training step.
        graph_version: The size of the graph for which that was last found out; a
            graph that grows may give an op a new dependency.
        n_runs: How often the training step was run, this time included.
    """

    has_gradients: bool = False
    graph_version: int = -1
    n_runs: int = 0


class StepWatch:
    """Watches ``Session.run``, and traces the training step up to its N-th run.

    All runs up to the N-th are traced and only the newest trace is kept, so that a
    program with fewer runs is captured too. Of several training steps the first to
    reach N is the one.

    Attributes:
        traced: The newest trace; None before the first.
        times_us: Wall times of untraced runs of the same step.
        n_calls: ``Session.run`` calls seen.
        failure: What kept a run from being traced; None while nothing does.
    """

    def __init__(
        self, notes: GradientNotes, step: int, on_complete: Callable[[], None]
    ) -> None:
        """Watch for run ``step`` of a training step.

        Args:
            notes: Tells gradient ops.
            step: Counted from 1.
            on_complete: Called once when the run is traced and enough others timed.
        """
        self.traced: TracedStep | None = None
        self.times_us: list[int] = []
        self.n_calls = 0
        self.failure: Exception | None = None
        self._notes = notes
        self._step = step
        self._on_complete = on_complete
        self._lock = threading.RLock()
        self._fetch_sets: weakref.WeakKeyDictionary[
            Any, dict[tuple[str, ...], _FetchSet]
        ] = weakref.WeakKeyDictionary()
        self._chosen: _FetchSet | None = None
        self._is_watching = True
        self._is_tracing = True

    @property
    def n_runs(self) -> int:
        """Return how often the traced step has run so far."""
        return self._chosen.n_runs if self._chosen else 0

    def attach(self, session_module: ModuleType) -> None:
        """Start watching the sessions of TensorFlow's session module."""
        run = session_module.BaseSession.run

        @functools.wraps(run)
        def watched_run(
            session: Any,
            fetches: Any,
            feed_dict: Any = None,
            options: Any = None,
            run_metadata: Any = None,
        ) -> Any:
            call = Call(run, session, fetches, feed_dict, options, run_metadata)
            return self._observe(call) if self._is_watching else call.plainly()

        session_module.BaseSession.run = watched_run

    def stop(self) -> None:
        """Leave all further runs alone."""
        self._is_watching = False

    def _observe(self, call: Call) -> Any:
        step = self._training_step(call)
        if step is None:
            return call.plainly()
        if self._is_tracing:
            return self._trace(call, step)
        return self._time(call, step)

    def _training_step(self, call: Call) -> _FetchSet | None:
        """Return the training step that ``call`` runs, now counted, or None."""
        with self._lock:
            self.n_calls += 1
            try:
                fetch_set = self._fetch_set(call)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self.failure = self.failure or error
                return None
            if not fetch_set.has_gradients:
                return None
            fetch_set.n_runs += 1
            return fetch_set

    def _fetch_set(self, call: Call) -> _FetchSet:
        graph = call.session.graph
        elements = fetched_elements(graph, call.fetches)
        fetches = tuple(element.name for element in elements)
        found = self._fetch_sets.setdefault(graph, {}).setdefault(fetches, _FetchSet())
        if not found.has_gradients and found.graph_version != graph.version:
            gradient_ops = self._notes.gradient_ops(graph)
            found.has_gradients = depends_on(elements, gradient_ops)
            found.graph_version = graph.version
        return found

    def _time(self, call: Call, step: _FetchSet) -> Any:
        if step is not self._chosen or len(self.times_us) >= N_TIMED:
            return call.plainly()
        start_ns = time.perf_counter_ns()
        result = call.plainly()
        self.times_us.append((time.perf_counter_ns() - start_ns) // 1000)
        if len(self.times_us) == N_TIMED:
            self._on_complete()
        return result

    def _trace(self, call: Call, step: _FetchSet) -> Any:
        """Run ``call`` traced, or plainly when tracing it fails."""
        from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415

        number = step.n_runs
        options, metadata = tracing_options(call.options), config_pb2.RunMetadata()
        start_ns = time.perf_counter_ns()
        try:
            result = call.traced_into(options, metadata)
        except Exception as error:
            if is_of_the_program(error):
                raise
            failure = error
        else:
            duration_us = (time.perf_counter_ns() - start_ns) // 1000
            hand_over(call, metadata)
            try:
                traced = traced_step(call, metadata, number, duration_us)
                self._keep(step, traced)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self.failure, self._is_tracing = error, False
            return result
        # Outside the handler, or what it raises would be chained to the failure.
        # It raises again when it was not the tracing that failed.
        result = call.plainly()
        self.failure, self._is_tracing = failure, False
        return result

    def _keep(self, step: _FetchSet, traced: TracedStep) -> None:
        """Keep ``traced`` unless a step that has run more often is kept already."""
        with self._lock:
            kept = self.traced
            if not self._is_tracing:
                return
            if kept is None or step is self._chosen or traced.number > kept.number:
                self._chosen, self.traced = step, traced
            self._is_tracing = traced.number < self._step
