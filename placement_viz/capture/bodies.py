"""The ops inside loops and branches, found again under the names they run by.

TensorFlow takes loops and branches apart before it runs a step: an op ``x`` in the body
of ``while`` runs as ``while/body/_1/x``, with a number that nobody can foretell.

Source:
    ``tensorflow/core/common_runtime/lower_while_op.cc`` and ``lower_if_op.cc``, 2.21.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from placement_viz.capture.called import CALLS, graphs_called_by
from placement_viz.capture.gradients import Forward

__all__ = ["inner_forward_ops"]

#: Which of the functions of an op a part of a name stands for.
_PARTS = {
    **dict.fromkeys(("While", "StatelessWhile"), ("cond", "body")),
    **dict.fromkeys(("If", "StatelessIf"), ("then", "else")),
}
_PART = re.compile(r"(cond|body|then|else)/_\d+/")

_Lookup = Callable[[str], Any]


def inner_forward_ops(
    names: Iterable[str],
    lookup: _Lookup,
    forward_of: Callable[[Any], Forward | None],
) -> dict[str, str]:
    """Return gradient op inside a loop or branch to the op that it differentiates.

    Args:
        names: Of all ops as they were placed.
        lookup: Gives the operation of the graph itself by its name there, or None.
        forward_of: What was noted of an operation.

    Returns:
        Only pairs of which both are among ``names``.
    """
    placed = {name for name in names if _PART.search(name)}
    found = {}
    for name in placed:
        inner = _find(lookup, "", name)
        forward = forward_of(inner[0]) if inner else None
        if inner and forward and not forward.is_elsewhere:
            pair = inner[1] + forward.name
            if pair in placed:
                found[name] = pair
    return found


def _find(lookup: _Lookup, prefix: str, name: str) -> tuple[Any, str] | None:
    """Return the operation that runs as ``prefix + name``, and what is before it.

    Args:
        lookup: Gives an operation of the current graph by its name there.
        prefix: What names of that graph have in front.
        name: The rest of the name.
    """
    op = lookup(name)
    if op is not None:
        return op, prefix
    for head in _heads(name):
        op = lookup(head)
        if op is None:
            continue
        rest = name[len(head) + 1 :]
        entered = _entered(op, rest)
        if entered is not None:
            graph, part = entered
            inner = f"{prefix}{head}/{part}"
            return _find(_lookup_in(graph), inner, rest[len(part) :])
    return None


def _entered(op: Any, rest: str) -> tuple[Any, str] | None:
    """Return the function of ``op`` that ``rest`` is inside of, and its part of it."""
    graphs = list(graphs_called_by(op))
    if op.type in CALLS and graphs:
        return graphs[0], ""
    part = _PART.match(rest)
    parts = _PARTS.get(op.type, ())
    if part is None or part[1] not in parts or len(graphs) != len(parts):
        return None
    return graphs[parts.index(part[1])], part[0]


def _heads(name: str) -> Iterator[str]:
    position = name.find("/")
    while position >= 0:
        yield name[:position]
        position = name.find("/", position + 1)


def _lookup_in(graph: Any) -> _Lookup:
    def lookup(name: str) -> Any:
        try:
            return graph.get_operation_by_name(name)
        except KeyError:
            return None

    return lookup
