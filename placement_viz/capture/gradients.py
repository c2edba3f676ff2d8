"""Which ops compute gradients, and of what: noted while TensorFlow builds them.

All of TensorFlow's private names that capture relies on to understand a graph are
in this module. They were read in TensorFlow 2.21 and exist alike since 1.15; where
one is missing less is known, and the training runs as ever.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

__all__ = ["GRADIENT_MODULE", "GradientNotes"]

#: The module through which tf.gradients and every v1 optimizer build gradients.
GRADIENT_MODULE = "tensorflow.python.ops.gradients_util"

#: For graphs that were imported: the scopes in which TensorFlow puts gradient ops.
_GRADIENT_NAME = re.compile(r"(?:^|/)(?:gradients(?:_\d+)?|gradient_tape)/|_grad/")


@dataclasses.dataclass(frozen=True)
class _Span:
    """Ops by their position in a graph: from ``start`` up to before ``stop``.

    Attributes:
        forward: The op that they differentiate; None for a whole gradient call.
    """

    start: int
    stop: int
    forward: str | None = None


class GradientNotes:
    """What was seen while gradients were built, by graph.

    Only graphs that a session can run are noted; the bodies of functions have graphs
    of their own.
    """

    def __init__(self, *, colocate: bool = False) -> None:
        """Start with no notes.

        Args:
            colocate: Whether to build gradients on the devices of their forward ops,
                whatever the program asks for.
        """
        self._colocate = colocate
        self._knows_forward_ops = False
        # Spans of inner calls are noted before those of the calls around them.
        self._spans: weakref.WeakKeyDictionary[Any, list[_Span]] = (
            weakref.WeakKeyDictionary()
        )
        self._names: weakref.WeakKeyDictionary[Any, tuple[int, frozenset[str]]] = (
            weakref.WeakKeyDictionary()
        )

    def attach(self, gradients_util: ModuleType) -> None:
        """Start taking notes in TensorFlow's module for gradients."""
        build = getattr(gradients_util, "_GradientsHelper", None)
        if build is not None:
            gradients_util._GradientsHelper = self._noting_calls(build)  # type: ignore[attr-defined] # noqa: SLF001
        # Entered once for each differentiated op, around everything that is built for
        # it: sums of gradients, zeros, loop state and the gradient function.
        enter = getattr(gradients_util, "_maybe_colocate_with", None)
        if enter is not None:
            self._knows_forward_ops = True
            gradients_util._maybe_colocate_with = self._noting_forward_op(enter)  # type: ignore[attr-defined] # noqa: SLF001
        # Makes the counters of a v1 loop, before any op is differentiated.
        loops = getattr(gradients_util, "control_flow_state", None)
        state = getattr(loops, "_ControlFlowState", None)
        if state is not None:
            state.AddWhileContext = self._noting_loop(state.AddWhileContext)

    def gradient_ops(self, graph: Any) -> frozenset[str]:
        """Return the names of the ops of ``graph`` that were built as gradients.

        Names decide where nothing was noted, as in a graph that was imported.
        """
        spans = self._spans.get(graph, [])
        stamp = len(spans) or -graph.version
        known = self._names.get(graph)
        if known is None or known[0] != stamp:
            known = stamp, frozenset(_gradient_names(graph, spans))
            self._names[graph] = known
        return known[1]

    def forward_ops(self, graph: Any) -> Mapping[str, str]:
        """Return gradient op to the op whose gradient it computes.

        Sums and zeros count to the op for whose gradient they are made, and the
        counters of a loop to the exit that they are made for.
        """
        ops = graph.get_operations()
        spans = self._spans.get(graph, [])
        if not self._knows_forward_ops:
            return dict(_original_ops(ops, spans))
        found: dict[str, str] = {}
        for span in spans:
            if span.forward is not None:
                for op in ops[span.start : span.stop]:
                    found.setdefault(op.name, span.forward)
        return found

    def _note(self, graph: Any, span: _Span) -> None:
        if span.start < span.stop and not graph.building_function:
            self._spans.setdefault(graph, []).append(span)

    def _noting_calls(self, build: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(build)

        @functools.wraps(build)
        def build_and_note(*args: Any, **kwargs: Any) -> Any:
            call = signature.bind(*args, **kwargs)
            # With src_graph the forward ops are in another graph, where a
            # colocation constraint cannot reach them.
            if self._colocate and call.arguments.get("src_graph") is None:
                call.arguments["colocate_gradients_with_ops"] = True
            graph = _default_graph()
            start = graph.version
            try:
                return build(*call.args, **call.kwargs)
            finally:
                self._note(graph, _Span(start, graph.version))

        return build_and_note

    def _noting_forward_op(self, enter: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(enter)
        @contextlib.contextmanager
        def enter_and_note(op: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
            graph = _default_graph()
            start = graph.version
            with enter(op, *args, **kwargs):
                yield
            self._note(graph, _Span(start, graph.version, op.name))

        return enter_and_note

    def _noting_loop(self, add: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(add)
        def add_and_note(state: Any, op: Any, *args: Any) -> Any:
            graph = _default_graph()
            start = graph.version
            result = add(state, op, *args)
            self._note(graph, _Span(start, graph.version, op.name))
            return result

        return add_and_note


def _default_graph() -> Any:
    from tensorflow.python.framework import ops  # noqa: PLC0415

    return ops.get_default_graph()


def _gradient_names(graph: Any, spans: list[_Span]) -> Iterator[str]:
    ops = graph.get_operations()
    if not spans:
        yield from (op.name for op in ops if _GRADIENT_NAME.search(op.name))
    for span in spans:
        yield from (op.name for op in ops[span.start : span.stop])


def _original_ops(ops: list[Any], spans: list[_Span]) -> Iterator[tuple[str, str]]:
    """Yield what the gradient ops themselves say of their forward ops."""
    for span in spans:
        for op in ops[span.start : span.stop]:
            original = getattr(op, "_original_op", None)
            if original is not None:
                yield op.name, original.name
