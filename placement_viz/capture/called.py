"""The functions that a function's graph calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["CALLS", "called_functions", "function_of", "graphs_called_by"]

#: Op types that call a function whose body TensorFlow inlines.
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})

#: Op types that may call functions, to the attributes that name them.
_FUNCTIONS = {
    **dict.fromkeys(CALLS, ("f",)),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
    **dict.fromkeys(("While", "StatelessWhile"), ("cond", "body")),
    **dict.fromkeys(("Case", "StatelessCase"), ("branches",)),
    # What a Python loop over a dataset becomes.
    **dict.fromkeys(("ReduceDataset", "ScanDataset"), ("f",)),
}


def called_functions(graph: Any) -> Iterator[Any]:
    """Yield the graphs of all functions that ``graph`` uses, itself first."""
    seen = {id(graph)}
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        yield current
        for op in current.get_operations():
            for called in graphs_called_by(op):
                if id(called) not in seen:
                    seen.add(id(called))
                    waiting.append(called)


def graphs_called_by(op: Any) -> Iterator[Any]:
    """Yield the graphs of the functions that ``op`` may call, in a fixed order."""
    for attribute in _FUNCTIONS.get(op.type, ()):
        value = op.get_attr(attribute)
        for function in value if isinstance(value, list) else [value]:
            found = function_of(op.graph, function.name)
            if found is not None:
                yield found.graph


def function_of(graph: Any, name: str) -> Any:
    """Return the function that ``graph`` knows by ``name``, or None."""
    find = getattr(graph, "_get_function", None)
    return find(name) if find is not None else None
