"""What the oracle itself notes while a model is built, apart from ``capture``.

Gradient ops are those that exist after a call of ``tf.gradients`` or
``GradientTape.gradient`` and did not exist before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop, execute
from tensorflow.python.framework import ops
from tensorflow.python.ops import gradients_util

__all__ = ["BuildNotes", "noting_gradients"]

# A tape keeps the attributes of an op as pairs; one more pair travels along.
_FORWARD_OP = "_forward_op"


@dataclasses.dataclass(eq=False)
class BuildNotes:
    """What was noted while one graph was built.

    Attributes:
        root: The graph that the session runs; bodies of functions have others.
        gradients: Names of gradient ops of the root graph.
        inner_gradients: The same of all other graphs.
        forward: Gradient op to the op that it differentiates, whatever their graph.
        sums: For each sum of gradients, in order, the ops that compute it.
    """

    root: Any
    gradients: set[str] = dataclasses.field(default_factory=set)
    inner_gradients: set[str] = dataclasses.field(default_factory=set)
    forward: dict[str, str] = dataclasses.field(default_factory=dict)
    sums: list[tuple[str, ...]] = dataclasses.field(default_factory=list)

    def is_gradient(self, node: str) -> bool:
        """Return whether a node of the step computes gradients."""
        if node in self.gradients:
            return True
        if node in self.names:
            return False
        parts = node.split("/")
        heads = ("/".join(parts[:i]) for i in range(1, len(parts)))
        # The body of a loop or call that itself computes gradients.
        if any(head in self.gradients for head in heads):
            return True
        return self.built_name(node) in self.gradients | self.inner_gradients

    def built_name(self, node: str) -> str | None:
        """Return the gradient op that ``node`` is, or that it was made from.

        Returns:
            The name that the op had when it was built, in whatever graph; None
            when ``node`` cannot be told to be a gradient op.
        """
        if node in self.names:
            return node if node in self.gradients else None
        original = _before_rewrite(node)
        return next((name for name in original if name in self.gradients), None) or (
            self._inner_name([node, *original])
        )

    def _inner_name(self, nodes: list[str]) -> str | None:
        """Return the name that one of ``nodes`` has in a function, if it has one.

        A node of a function that was inlined bears the name of the call, then
        something about control flow, then its own name; outputs end in ``_0``.
        """
        for node in nodes:
            parts = node.split("/")
            for i in range(1, len(parts)):
                tail = "/".join(parts[i:])
                for name in (tail, tail.removesuffix("_0")):
                    if name in self.inner_gradients:
                        return name
        return None

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Return the names of all ops of the finished root graph."""
        return frozenset(op.name for op in self.root.get_operations())

    def add_gradients(self, graph: Any, created: list[Any]) -> None:
        """Note that the ops ``created`` in ``graph`` compute gradients."""
        known = self.gradients if graph is self.root else self.inner_gradients
        known.update(op.name for op in created)


def _before_rewrite(node: str) -> list[str]:
    """Return the names that ``node`` may have had before an optimiser rewrote it.

    Source:
        ``<scope>/ArithmeticOptimizer/<stage>_<its last part>``
        (``core/grappler/optimizers/arithmetic_optimizer.cc``, 2.21).
    """
    scope, made, tail = node.partition("/ArithmeticOptimizer/")
    if not made:
        return []
    starts = [i + 1 for i, character in enumerate(tail) if character == "_"]
    return [f"{scope}/{tail[start:]}" for start in starts]


@contextlib.contextmanager
def noting_gradients(notes: BuildNotes, *, colocate_tape: bool) -> Iterator[None]:
    """Fill ``notes`` while gradients are built.

    Args:
        notes: Of the graph that is built.
        colocate_tape: Whether a tape builds each gradient on the device of its
            forward op. ``tf.gradients`` has a flag for that, a tape has none.
    """
    build, tape = gradients_util._GradientsHelper, backprop.GradientTape.gradient
    patches = [
        (gradients_util, "_GradientsHelper", _noting_call(notes, build)),
        (gradients_util, "_maybe_colocate_with", _noting_forward_op(notes)),
        (gradients_util, "_MultiDeviceAddN", _noting_sum(notes)),
        (backprop.GradientTape, "gradient", _noting_call(notes, tape)),
        (execute, "record_gradient", _tagging_forward_op()),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    differentiate = _noting_tape(notes, colocate=colocate_tape)
    try:
        for owner, name, patch in patches:
            setattr(owner, name, patch)
        pywrap_tfe.TFE_Py_RegisterGradientFunction(differentiate)
        yield
    finally:
        pywrap_tfe.TFE_Py_RegisterGradientFunction(backprop._gradient_function)
        for owner, name, original in originals:
            setattr(owner, name, original)


def _noting_call(notes: BuildNotes, build: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def noting(*args: Any, **kwargs: Any) -> Any:
        with _created() as (graph, created):
            result = build(*args, **kwargs)
        notes.add_gradients(graph, created)
        return result

    return noting


def _noting_forward_op(notes: BuildNotes) -> Callable[..., Any]:
    enter = gradients_util._maybe_colocate_with

    @contextlib.contextmanager
    def noting(op: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        with _created() as (_, created), enter(op, *args, **kwargs):
            yield
        for gradient in created:
            notes.forward.setdefault(gradient.name, op.name)

    return noting


def _noting_sum(notes: BuildNotes) -> Callable[..., Any]:
    add = gradients_util._MultiDeviceAddN

    def noting(*args: Any) -> Any:
        with _created() as (_, created):
            result = add(*args)
        notes.sums.append(tuple(op.name for op in created))
        return result

    return noting


def _tagging_forward_op() -> Callable[..., Any]:
    record = execute.record_gradient

    def tagging(op_name: str, inputs: Any, attrs: Any, outputs: Any) -> Any:
        results = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        made_by = getattr(results[0], "op", None) if results else None
        tag = (_FORWARD_OP, made_by) if made_by is not None else ()
        return record(op_name, inputs, (*(attrs or ()), *tag), outputs)

    return tagging


def _noting_tape(notes: BuildNotes, *, colocate: bool) -> Callable[..., Any]:
    """Return the tape's gradient function; its arguments come by position."""

    def noting(op_name: str, attrs: Any, *args: Any) -> Any:
        forward = attrs[-1] if len(attrs) > 1 and attrs[-2] == _FORWARD_OP else None
        if forward is None:
            return backprop._gradient_function(op_name, attrs, *args)
        out_grads = args[3]
        sums = [t.op for t in out_grads if getattr(t, "op", None) is not None]
        device = ops.device(forward.device) if colocate else contextlib.nullcontext()
        with _created() as (_, created), device:
            result = backprop._gradient_function(op_name, attrs[:-2], *args)
        # What sums the gradients that arrive is built just before, by nobody's rule.
        for op in (*created, *(op for op in sums if op.type == "AddN")):
            if op.name not in notes.forward:
                notes.forward[op.name] = forward.name
                if colocate and op.type == "AddN":
                    op._set_device(forward.device)
        return result

    return noting


@contextlib.contextmanager
def _created() -> Iterator[tuple[Any, list[Any]]]:
    """Give the default graph and a list that is filled on exit with its new ops."""
    graph = ops.get_default_graph()
    n_before = len(graph.get_operations())
    created: list[Any] = []
    yield graph, created
    created += graph.get_operations()[n_before:]
