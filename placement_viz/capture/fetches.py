"""What a ``Session.run`` call asks for."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["depends_on", "fetched_elements", "names_of"]


def fetched_elements(graph: Any, fetches: Any) -> list[Any]:
    """Return the tensors and operations in ``fetches``, in their order.

    Args:
        graph: The session's graph.
        fetches: What the program passed: one element or any nesting of them, as
            objects, names, variables or composite tensors.

    Returns:
        What could be resolved; the rest is TensorFlow's to refuse.
    """
    import tensorflow as tf  # noqa: PLC0415

    elements = []
    for leaf in _leaves(fetches):
        element = _resolve(graph, leaf)
        if element is not None:
            elements.append(element)
            continue
        # SparseTensor, IndexedSlices and their like are several tensors.
        parts = tf.nest.flatten(leaf, expand_composites=True)
        elements += [e for e in (_resolve(graph, p) for p in parts) if e is not None]
    return elements


def names_of(graph: Any, items: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of those ``items`` that the graph knows, in their order."""
    resolved = (_resolve(graph, item) for item in items)
    return tuple(element.name for element in resolved if element is not None)


def depends_on(elements: Iterable[Any], wanted: Container[str]) -> bool:
    """Return whether one of ``wanted`` must run for ``elements``.

    Args:
        elements: Tensors and operations of one graph.
        wanted: Names of operations.
    """
    waiting = [getattr(element, "op", element) for element in elements]
    seen = {op.name for op in waiting}
    while waiting:
        op = waiting.pop()
        if op.name in wanted:
            return True
        for producer in _producers(op):
            if producer.name not in seen:
                seen.add(producer.name)
                waiting.append(producer)
    return False


def _leaves(fetches: Any) -> Iterator[Any]:
    """Yield what is nested in ``fetches``.

    Not tf.nest alone: it sorts the keys of a dict, and those that MonitoredSession
    passes cannot be sorted.
    """
    if isinstance(fetches, Mapping):
        fetches = fetches.values()
    elif not isinstance(fetches, list | tuple):
        yield fetches
        return
    for item in fetches:
        yield from _leaves(item)


def _producers(op: Any) -> Iterator[Any]:
    for tensor in op.inputs:
        yield tensor.op
    yield from op.control_inputs


def _resolve(graph: Any, item: Any) -> Any:
    """Return the graph's own element for ``item``, or None when it has none."""
    try:
        return graph.as_graph_element(item, allow_tensor=True, allow_operation=True)
    except (KeyError, TypeError, ValueError):
        return None
