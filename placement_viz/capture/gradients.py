"""Which ops compute gradients, and of what: noted while TensorFlow builds them.

The notes are taken where gradients are built, by :mod:`graph_gradients` for
``tf.gradients`` and v1 optimizers and by :mod:`tape_gradients` for ``GradientTape``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import weakref
from collections.abc import Container, Iterator, Mapping
from typing import Any

from placement_viz.capture.sources import current_stack

__all__ = [
    "Forward",
    "GradientNotes",
    "default_graph",
    "position_in",
    "requested_scope",
]

#: For graphs that were imported: the scopes in which TensorFlow puts gradient ops.
_GRADIENT_NAME = re.compile(r"(?:^|/)(?:gradients(?:_\d+)?|gradient_tape)/|_grad/")


@dataclasses.dataclass(frozen=True)
class Forward:
    """The op that a gradient op differentiates.

    Attributes:
        name: Its name in its own graph.
        is_elsewhere: Whether that is another graph, of which this one is the
            backward pass.
    """

    name: str
    is_elsewhere: bool = False


@dataclasses.dataclass(frozen=True)
class _Span:
    """Ops by their position in a graph: from ``start`` up to before ``stop``.

    Attributes:
        forward: What they differentiate; None for a whole gradient call.
        stack: Where that call was made; None for a part of one.
    """

    start: int
    stop: int
    forward: Forward | None = None
    stack: Any = None


class GradientNotes:
    """What was seen while gradients were built, by graph."""

    def __init__(self) -> None:
        """Start with no notes."""
        #: Whether forward ops are noted; else what ops say of themselves must do.
        self.knows_forward_ops = False
        # Spans of inner calls are noted before those of the calls around them.
        self._spans: weakref.WeakKeyDictionary[Any, list[_Span]] = (
            weakref.WeakKeyDictionary()
        )
        self._names: weakref.WeakKeyDictionary[Any, tuple[int, frozenset[str]]] = (
            weakref.WeakKeyDictionary()
        )

    def note_call(self, graph: Any, start: int) -> None:
        """Note that the ops of ``graph`` from ``start`` on come from this one call."""
        if start < position_in(graph):
            self._note(graph, _Span(start, position_in(graph), stack=current_stack()))

    def note_forward(self, graph: Any, start: int, op: Any) -> None:
        """Note that the ops of ``graph`` from ``start`` on differentiate ``op``."""
        forward = Forward(op.name, is_elsewhere=op.graph is not graph)
        self._note(graph, _Span(start, position_in(graph), forward))

    def _note(self, graph: Any, span: _Span) -> None:
        if span.start < span.stop:
            self._spans.setdefault(graph, []).append(span)

    def gradient_ops(self, graph: Any) -> frozenset[str]:
        """Return the names of the ops of ``graph`` that were built as gradients.

        Names decide where nothing was noted, as in a graph that was imported.
        """
        spans = self._spans.get(graph, [])
        stamp = len(spans) or -position_in(graph)
        known = self._names.get(graph)
        if known is None or known[0] != stamp:
            known = stamp, frozenset(_gradient_names(graph, spans))
            self._names[graph] = known
        return known[1]

    def forward_ops(self, graph: Any) -> Mapping[str, Forward]:
        """Return gradient op to the op whose gradient it computes.

        Sums and zeros count to the op for whose gradient they are made, and the
        counters of a loop to the exit that they are made for.
        """
        ops = graph.get_operations()
        spans = self._spans.get(graph, [])
        found: dict[str, Forward] = {}
        for span in spans:
            if span.forward is not None:
                for op in ops[span.start : span.stop]:
                    found.setdefault(op.name, span.forward)
        if not self.knows_forward_ops or not spans:
            found = dict(_original_ops(ops, self.gradient_ops(graph))) | found
        return found

    def call_stacks(self, graph: Any) -> Mapping[str, Any]:
        """Return gradient op to the stack of the call that asked for it."""
        ops = graph.get_operations()
        return {
            op.name: span.stack
            for span in self._spans.get(graph, [])
            if span.stack is not None
            for op in ops[span.start : span.stop]
        }


def default_graph() -> Any:
    """Return the graph that ops are being added to."""
    from tensorflow.python.framework import ops  # noqa: PLC0415

    return ops.get_default_graph()


def requested_scope(op: Any, graph: Any) -> contextlib.AbstractContextManager[Any]:
    """Return the scope in which ``graph`` builds the gradient of another graph's op.

    No colocation constraint can reach that op; the device it asks for can be had.
    """
    return graph.device(op.device) if op.device else contextlib.nullcontext()


def position_in(graph: Any) -> int:
    """Return how many ops ``graph`` has."""
    return int(graph.version)


def _gradient_names(graph: Any, spans: list[_Span]) -> Iterator[str]:
    ops = graph.get_operations()
    if not spans:
        yield from (op.name for op in ops if _GRADIENT_NAME.search(op.name))
    for span in spans:
        yield from (op.name for op in ops[span.start : span.stop])


def _original_ops(
    ops: list[Any], gradient_ops: Container[str]
) -> Iterator[tuple[str, Forward]]:
    """Yield what the gradient ops themselves say of their forward ops."""
    for op in ops:
        original = getattr(op, "_original_op", None)
        if original is not None and op.name in gradient_ops:
            yield op.name, Forward(original.name)
