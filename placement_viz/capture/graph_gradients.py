"""Hooks in the code with which ``tf.gradients`` and v1 optimizers build gradients.

TensorFlow's private names here were read in TensorFlow 2.21 and exist alike since
1.15; where one is missing less is known, and the training runs as ever.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
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

__all__ = ["GRADIENT_MODULE", "GraphGradients"]

#: The module through which tf.gradients and every v1 optimizer build gradients.
GRADIENT_MODULE = "tensorflow.python.ops.gradients_util"


class GraphGradients:
    """Notes, and on request colocates, the gradients that are built in a graph."""

    def __init__(self, notes: GradientNotes, *, colocate: bool = False) -> None:
        """Prepare to take notes.

        Args:
            notes: Where to put them.
            colocate: Whether to build gradients on the devices of their forward ops,
                whatever the program asks for.
        """
        self._notes = notes
        self._colocate = colocate

    def attach(self, gradients_util: ModuleType, patches: Patches) -> None:
        """Start taking notes in TensorFlow's module for gradients."""
        patches.replace(gradients_util, "_GradientsHelper", self._noting_calls)
        # Entered once for each differentiated op, around everything that is built for
        # it: sums of gradients, zeros, loop state and the gradient function.
        enters = patches.replace(
            gradients_util, "_maybe_colocate_with", self._noting_forward_op
        )
        self._notes.knows_forward_ops |= enters
        # Makes the counters of a v1 loop, before any op is differentiated.
        loops = getattr(gradients_util, "control_flow_state", None)
        state = getattr(loops, "_ControlFlowState", None)
        patches.replace(state, "AddWhileContext", self._noting_loop)

    def _noting_calls(self, build: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(build)

        @functools.wraps(build)
        def build_and_note(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            # With src_graph the forward ops are in another graph, where a
            # colocation constraint cannot reach them.
            if self._colocate and call.arguments.get("src_graph") is None:
                call.arguments["colocate_gradients_with_ops"] = True
            graph = default_graph()
            start = position_in(graph)
            try:
                return build(*call.args, **call.kwargs)
            finally:
                self._notes.note_call(graph, start)

        return build_and_note

    def _noting_forward_op(self, enter: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(enter)
        @contextlib.contextmanager
        def enter_and_note(op: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
            graph = default_graph()
            start = position_in(graph)
            with self._requested_device(op, graph), enter(op, *args, **kwargs):
                yield
            self._notes.note_forward(graph, start, op)

        return enter_and_note

    def _requested_device(self, op: Any, graph: Any) -> Any:
        """Return the device scope for a gradient in another graph than its op."""
        if not self._colocate or op.graph is graph:
            return contextlib.nullcontext()
        return requested_scope(op, graph)

    def _noting_loop(self, add: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(add)
        def add_and_note(state: Any, op: Any, *args: Any) -> Any:
            graph = default_graph()
            start = position_in(graph)
            result = add(state, op, *args)
            self._notes.note_forward(graph, start, op)
            return result

        return add_and_note
