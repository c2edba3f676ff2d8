"""Hooks in the code with which ``GradientTape`` builds gradients inside a graph.

The tape keeps, for each op that it records, the op's attributes as a tuple, and hands
that very tuple to the op's gradient function. So a tuple that also knows its op tells,
while a gradient is built, what it is the gradient of. TensorFlow has no other way:
what the tape keeps of inputs and outputs is only what the gradient function needs.

TensorFlow's private names here were read in 2.15 to 2.21. Where one is missing nothing
is noted, and colocation is refused.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from placement_viz.capture.gradients import (
    GradientNotes,
    default_graph,
    position_in,
    requested_scope,
)
from placement_viz.capture.patches import Patches

__all__ = ["TAPE_MODULE", "TapeGradients"]

#: The module in which the tape's gradient functions are.
TAPE_MODULE = "tensorflow.python.eager.backprop"


class _Attributes(tuple[Any, ...]):  # noqa: SLOT001 - with data it cannot have slots
    """The attributes of a recorded op, and the op itself in ``op``."""

    op: Any


class _Progress(threading.local):
    """What one ``tape.gradient`` call has built so far.

    Attributes:
        position: Where in the graph the next op's gradient begins: what was built
            since the last one, sums of gradients, is made for the next.
        targets: Gradient, by its id, to itself and to the op whose output it is the
            gradient of. The reference keeps the id from being given again.
    """

    position: int | None = None
    targets: dict[int, tuple[Any, Any]] | None = None


class TapeGradients:
    """Notes, and on request colocates, the gradients that a tape builds."""

    def __init__(self, notes: GradientNotes, *, colocate: bool = False) -> None:
        """Prepare to take notes.

        Args:
            notes: Where to put them.
            colocate: Whether to build gradients on the devices of their forward ops.
        """
        self._notes = notes
        self._colocate = colocate
        self._progress = _Progress()

    def attach(self, backprop: ModuleType, patches: Patches) -> None:
        """Start taking notes in TensorFlow's module for the tape.

        Raises:
            AttributeError: TensorFlow has another tape than the known ones; nothing
                was changed that ``patches`` does not undo.
        """
        record = importlib.import_module("tensorflow.python.eager.record")
        _NATIVE.register(backprop)
        patches.replace(
            backprop.execute, "record_gradient", self._recording, needed=True
        )
        patches.replace(
            backprop.imperative_grad, "imperative_grad", self._noting_calls, needed=True
        )
        for name in ("record_operation", "record_operation_backprop_only"):
            patches.replace(record, name, self._recording_functions, needed=True)
        patches.call(_NATIVE.add, _NATIVE.remove, self)

    def _recording(self, record: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(record)
        def record_with_op(op_name: Any, inputs: Any, attrs: Any, outputs: Any) -> Any:
            op = _op_of(outputs)
            if op is not None:
                attrs = _Attributes(attrs or ())
                attrs.op = op
            return record(op_name, inputs, attrs, outputs)

        return record_with_op

    def _recording_functions(self, record: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what records a Python gradient: tf.custom_gradient, a function call."""

        # Parameters are named as TensorFlow's, which are passed by name too.
        @functools.wraps(record)
        def record_wrapped(
            op_type: Any,
            output_tensors: Any,
            input_tensors: Any,
            backward_function: Any,
            *rest: Any,
            **named: Any,
        ) -> Any:
            op = _op_of(output_tensors)
            if op is not None:
                backward_function = self._noting_backward(
                    backward_function, op, input_tensors
                )
            return record(
                op_type,
                output_tensors,
                input_tensors,
                backward_function,
                *rest,
                **named,
            )

        return record_wrapped

    def _noting_backward(
        self, backward: Callable[..., Any], op: Any, inputs: Any
    ) -> Callable[..., Any]:
        @functools.wraps(backward)
        def backward_and_note(*gradients: Any) -> Any:
            with self._gradient_of(op, default_graph()):
                results = backward(*gradients)
            self._keep(results, inputs)
            return results

        return backward_and_note

    def _noting_calls(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(differentiate)
        def differentiate_and_note(*args: Any, **kwargs: Any) -> Any:
            graph = default_graph()
            progress = self._progress
            around = progress.position, progress.targets
            start = position_in(graph)
            progress.position, progress.targets = start, {}
            try:
                return differentiate(*args, **kwargs)
            finally:
                progress.position, progress.targets = around
                self._notes.note_call(graph, start)

        return differentiate_and_note

    def differentiating(self, differentiate: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what calls the gradient function of an op."""

        @functools.wraps(differentiate)
        def differentiate_and_note(
            op_name: Any, attributes: Any, *arguments: Any
        ) -> Any:
            op = getattr(attributes, "op", None)
            if op is None:
                return differentiate(op_name, attributes, *arguments)
            with self._gradient_of(op, default_graph()):
                gradients = differentiate(op_name, attributes, *arguments)
            self._keep(gradients, op.inputs)
            return gradients

        return differentiate_and_note

    @contextlib.contextmanager
    def _gradient_of(self, op: Any, graph: Any) -> Iterator[None]:
        """Build the gradient of ``op`` where it belongs, and note what was built."""
        start = self._progress.position
        begin = position_in(graph) if start is None else start
        with self._home(op, graph):
            yield
        self._notes.note_forward(graph, begin, op)
        if start is not None:
            self._progress.position = position_in(graph)

    def _keep(self, gradients: Any, tensors: Any) -> None:
        """Remember which tensors ``gradients`` belong to, to know where to add them."""
        targets = self._progress.targets
        if targets is None or not isinstance(gradients, list | tuple):
            return
        for gradient, tensor in zip(gradients, tensors, strict=False):
            op = _op_of([tensor])
            if gradient is not None and op is not None:
                targets[id(gradient)] = gradient, op

    def summing(self, add: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what adds the gradients of one tensor."""

        @functools.wraps(add)
        def add_at_home(gradients: Any) -> Any:
            targets = self._progress.targets or {}
            known = [targets[id(g)] for g in gradients if id(g) in targets]
            if not known:
                return add(gradients)
            _, op = known[0]
            with self._home(op, default_graph()):
                total = add(gradients)
            targets[id(total)] = total, op
            return total

        return add_at_home

    def _home(self, op: Any, graph: Any) -> Any:
        """Return the scope in which the gradient of ``op`` is built."""
        if not self._colocate:
            return contextlib.nullcontext()
        if op.graph is not graph:
            return requested_scope(op, graph)
        # The scope of tf.gradients: it leaves aside any device scope around the call.
        return graph._colocate_with_for_gradient(op, None, ignore_existing=True)  # noqa: SLF001


class _Native:
    """What TensorFlow's native tape calls: registered once, and never taken back.

    A tape in the middle of its work would be left with what is gone.
    """

    def __init__(self) -> None:
        self._active: list[TapeGradients] = []
        self._originals: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self._differentiate: Callable[..., Any]
        self._add: Callable[..., Any]

    def register(self, backprop: ModuleType) -> None:
        """Let the native tape call through here; nothing changes by that alone."""
        if self._originals is not None:
            return
        space = backprop._default_vspace  # noqa: SLF001
        self._originals = backprop._gradient_function, space.aggregate_fn  # noqa: SLF001
        self._compose()
        native = backprop.pywrap_tfe
        native.TFE_Py_RegisterGradientFunction(self._called_for_an_op)
        native.TFE_Py_RegisterVSpace(
            space._replace(aggregate_fn=self._called_for_a_sum)
        )

    def add(self, hooks: TapeGradients) -> None:
        """Let ``hooks`` act, around those that act already."""
        self._active.append(hooks)
        self._compose()

    def remove(self, hooks: TapeGradients) -> None:
        """Let ``hooks`` act no longer."""
        self._active.remove(hooks)
        self._compose()

    def _called_for_an_op(self, *arguments: Any) -> Any:
        return self._differentiate(*arguments)

    def _called_for_a_sum(self, gradients: Any) -> Any:
        return self._add(gradients)

    def _compose(self) -> None:
        assert self._originals is not None
        self._differentiate, self._add = self._originals
        for hooks in self._active:
            self._differentiate = hooks.differentiating(self._differentiate)
            self._add = hooks.summing(self._add)


_NATIVE = _Native()


def _op_of(tensors: Any) -> Any:
    """Return the operation that made the first of ``tensors``; None in eager code."""
    if not isinstance(tensors, list | tuple) or not tensors:
        return None
    try:
        return tensors[0].op
    except (AttributeError, NotImplementedError, ValueError):
        return None
