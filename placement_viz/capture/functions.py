"""Training steps that are calls of a ``tf.function``: watched, copied and replayed."""

from __future__ import annotations

import functools
import re
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from placement_viz.capture.called import called_functions
from placement_viz.capture.function_inputs import examine
from placement_viz.capture.gradients import GradientNotes
from placement_viz.capture.inlining import COMPILED
from placement_viz.capture.patches import Patches
from placement_viz.capture.snapshots import FunctionCall, KnownFunction, Snapshot
from placement_viz.capture.steps import StepSelection, TrainingStep

__all__ = ["CONCRETE_MODULE", "FUNCTION_MODULE", "CallCopied", "FunctionWatch"]

_PACKAGE = "tensorflow.python.eager.polymorphic_function"
#: The module with the class of what ``tf.function`` returns.
FUNCTION_MODULE = f"{_PACKAGE}.polymorphic_function"
#: The module with the class of a function traced for one signature.
CONCRETE_MODULE = f"{_PACKAGE}.concrete_function"


class CallCopied(BaseException):
    """A call was copied that is not to be made."""


class _Current(threading.local):
    """The function that the program is calling; None outside."""

    function: Any = None


class FunctionWatch:
    """Watches the calls of functions, and replays those that are asked for."""

    def __init__(
        self,
        notes: GradientNotes,
        selection: StepSelection,
        pattern: re.Pattern[str] | None = None,
        *,
        is_dry: bool = False,
    ) -> None:
        """Watch for the training step.

        Args:
            notes: Tells gradient ops.
            selection: Tells which calls to trace.
            pattern: A call is of the training step when it finds something in the
                function's name; None for functions that compute gradients.
            is_dry: Whether to raise :class:`CallCopied` in the place of the call.
        """
        self._is_dry = is_dry
        self._notes = notes
        self._selection = selection
        self._pattern = pattern
        self._known: weakref.WeakKeyDictionary[Any, KnownFunction] = (
            weakref.WeakKeyDictionary()
        )
        self._steps: weakref.WeakKeyDictionary[Any, TrainingStep] = (
            weakref.WeakKeyDictionary()
        )
        self._current = _Current()

    def attach_functions(self, module: ModuleType, patches: Patches) -> None:
        """Start to note which function is called."""
        patches.replace(module.Function, "__call__", self._watching_functions)

    def attach_concrete(self, module: ModuleType, patches: Patches) -> None:
        """Start to watch the calls that run a function."""
        patches.replace(module.ConcreteFunction, "_call_flat", self._watching_calls)

    def _watching_functions(self, call: Callable[..., Any]) -> Callable[..., Any]:
        current = self._current

        @functools.wraps(call)
        def watched_function(function: Any, *args: Any, **kwargs: Any) -> Any:
            if current.function is not None:
                return call(function, *args, **kwargs)
            current.function = function
            try:
                return call(function, *args, **kwargs)
            finally:
                current.function = None

        return watched_function

    def _watching_calls(self, call: Callable[..., Any]) -> Callable[..., Any]:
        from tensorflow.python.eager import context  # noqa: PLC0415

        @functools.wraps(call)
        def watched_call(
            function: Any, tensor_inputs: Any, captured_inputs: Any, *rest: Any
        ) -> Any:
            def run(arguments: list[Any]) -> Any:
                n = len(tensor_inputs)
                return call(function, arguments[:n], arguments[n:], *rest)

            if (
                not self._selection.is_watching
                # A call inside another function's graph.
                or not context.executing_eagerly()
            ):
                return call(function, tensor_inputs, captured_inputs, *rest)
            arguments = [*tensor_inputs, *captured_inputs]
            return self._observe(function, arguments, run)

        return watched_call

    def _observe(
        self, function: Any, arguments: list[Any], run: Callable[[list[Any]], Any]
    ) -> Any:
        with self._selection.lock:
            self._selection.n_calls += 1
            known = self._look_at(function)
        if not known.is_training:
            return run(arguments)
        step = self._steps.setdefault(
            self._current.function or function.graph, TrainingStep()
        )
        number = self._selection.begin(step)
        if not self._selection.is_to_trace(step, number):
            return run(arguments)
        return self._trace(FunctionCall(known, arguments, run, number), step)

    def _look_at(self, function: Any) -> KnownFunction:
        """Return what is known of a function; looking at it may fail."""
        graph = function.graph
        known = self._known.get(graph)
        if known is None:
            known = KnownFunction(graph)
            try:
                known.is_training = self._is_training(graph)
                if known.is_training:
                    known.inputs = examine(graph)
                    known.is_compiled = function.function_def.attr[COMPILED].b
            except Exception as error:  # noqa: BLE001 - the training must go on
                self._selection.failure = self._selection.failure or error
                known.is_training = False
            self._known[graph] = known
        return known

    def _is_training(self, graph: Any) -> bool:
        if self._pattern is not None:
            return self._pattern.search(graph.name) is not None
        return any(self._notes.gradient_ops(each) for each in called_functions(graph))

    def _trace(self, call: FunctionCall, step: TrainingStep) -> Any:
        """Run ``call``, and keep what it takes to run it again."""
        try:
            with self._selection.aside():
                snapshot = call.copied(is_made=not self._is_dry)
        except Exception as error:
            self._selection.give_up(error)
            if self._is_dry:
                raise CallCopied from error
            return call.make()
        if self._is_dry:
            if snapshot is not None:
                self._keep(step, snapshot)
            raise CallCopied
        with call.known.noting_placement():
            result = call.make()
        if snapshot is not None:
            self._keep(step, snapshot)
        return result

    def _keep(self, step: TrainingStep, snapshot: Snapshot) -> None:
        # Replayed only if no later call comes: this one is kept for want of better.
        is_early = snapshot.number < self._selection.schedule.first
        try:
            with self._selection.aside():
                kept = snapshot if is_early else snapshot.finished()
        except Exception as error:  # noqa: BLE001 - the training must go on
            self._selection.give_up(error)
            return
        if not is_early:
            self._selection.time_no_more()
        self._selection.keep(step, kept)
