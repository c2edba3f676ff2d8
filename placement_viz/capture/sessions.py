"""Training steps that are ``Session.run`` calls: watched, and traced as they happen."""

from __future__ import annotations

import functools
import re
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from placement_viz.capture.fetches import depends_on, fetched_elements
from placement_viz.capture.gradients import GradientNotes
from placement_viz.capture.patches import Patches
from placement_viz.capture.steps import StepSelection, TrainingStep
from placement_viz.capture.tracing import (
    Call,
    hand_over,
    is_of_the_program,
    traced_step,
    tracing_options,
)

__all__ = ["SESSION_MODULE", "SessionWatch"]

#: The module whose ``BaseSession`` every kind of v1 session goes through.
SESSION_MODULE = "tensorflow.python.client.session"


class _FetchSet(TrainingStep):
    """What runs of one graph with the same fetches have in common.

    Attributes:
        is_training: Whether it is a training step.
        graph_version: The size of the graph for which that was last found out; a
            graph that grows may give an op a new dependency.
    """

    is_training: bool = False
    graph_version: int = -1


class SessionWatch:
    """Watches the calls of sessions, and traces those that are asked for."""

    def __init__(
        self,
        notes: GradientNotes,
        selection: StepSelection,
        pattern: re.Pattern[str] | None = None,
    ) -> None:
        """Watch for the training step.

        Args:
            notes: Tells gradient ops.
            selection: Tells which runs to trace.
            pattern: A run is of the training step when it finds something in one of
                the fetches; None for runs that compute gradients.
        """
        self._notes = notes
        self._selection = selection
        self._pattern = pattern
        self._fetch_sets: weakref.WeakKeyDictionary[
            Any, dict[tuple[str, ...], _FetchSet]
        ] = weakref.WeakKeyDictionary()
        self._plain_run: Callable[..., Any]

    def attach(self, session_module: ModuleType, patches: Patches) -> None:
        """Start watching the sessions of TensorFlow's session module."""
        patches.replace(session_module.BaseSession, "run", self._watching_runs)
        patches.replace(
            session_module.BaseSession, "make_callable", self._watching_callables
        )

    def _watching_runs(self, run: Callable[..., Any]) -> Callable[..., Any]:
        self._plain_run = run

        @functools.wraps(run)
        def watched_run(
            session: Any,
            fetches: Any,
            feed_dict: Any = None,
            options: Any = None,
            run_metadata: Any = None,
        ) -> Any:
            call = Call(run, session, fetches, feed_dict, options, run_metadata)
            if not self._selection.is_watching:
                return call.plainly()
            return self._observe(call)

        return watched_run

    def _watching_callables(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what makes callables; without feeds they do not go through ``run``."""

        @functools.wraps(make)
        def watched_make(
            session: Any,
            fetches: Any,
            feed_list: Any = None,
            accept_options: bool = False,  # noqa: FBT002 - TensorFlow's own
        ) -> Any:
            plain = make(session, fetches, feed_list, accept_options)
            if feed_list is not None:
                return plain

            def run(
                _session: Any, _fetches: Any, _feeds: Any, options: Any, metadata: Any
            ) -> Any:
                if options is None and metadata is None:
                    return plain()
                return self._plain_run(session, fetches, None, options, metadata)

            @functools.wraps(plain)
            def watched_callable(options: Any = None, run_metadata: Any = None) -> Any:
                if not self._selection.is_watching:
                    given = {"options": options, "run_metadata": run_metadata}
                    return plain(**(given if accept_options else {}))
                return self._observe(
                    Call(run, session, fetches, None, options, run_metadata)
                )

            return watched_callable

        return watched_make

    def _observe(self, call: Call) -> Any:
        step = self._training_step(call)
        if step is None:
            return call.plainly()
        number = self._selection.begin(step)
        if self._selection.is_to_trace(step, number):
            return self._trace(call, step, number)
        if self._selection.is_to_time(step):
            return self._time(call)
        return call.plainly()

    def _training_step(self, call: Call) -> _FetchSet | None:
        """Return the training step that ``call`` runs, or None."""
        with self._selection.lock:
            self._selection.n_calls += 1
            try:
                fetch_set = self._fetch_set(call)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self._selection.failure = self._selection.failure or error
                return None
        return fetch_set if fetch_set.is_training else None

    def _fetch_set(self, call: Call) -> _FetchSet:
        graph = call.session.graph
        elements = fetched_elements(graph, call.fetches)
        fetches = tuple(element.name for element in elements)
        found = self._fetch_sets.setdefault(graph, {}).setdefault(fetches, _FetchSet())
        if not found.is_training and found.graph_version != graph.version:
            found.graph_version = graph.version
            if self._pattern is not None:
                found.is_training = any(map(self._pattern.search, fetches))
            else:
                gradient_ops = self._notes.gradient_ops(graph)
                found.is_training = depends_on(elements, gradient_ops)
        return found

    def _time(self, call: Call) -> Any:
        start_ns = time.perf_counter_ns()
        result = call.plainly()
        self._selection.add_time((time.perf_counter_ns() - start_ns) // 1000)
        return result

    def _trace(self, call: Call, step: _FetchSet, number: int) -> Any:
        """Run ``call`` traced, or plainly when tracing it fails."""
        from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415

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
                self._selection.keep(step, traced)
            except Exception as error:  # noqa: BLE001 - the training must go on
                self._selection.give_up(error)
            return result
        # Outside the handler, or what it raises would be chained to the failure.
        # It raises again when it was not the tracing that failed.
        result = call.plainly()
        self._selection.give_up(failure)
        return result
