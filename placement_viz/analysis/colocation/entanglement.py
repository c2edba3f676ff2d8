"""Which ops colocation may draw elsewhere, as far as a trace tells.

What takes a resource must be where the resource is. The stacks that carry values
from a loop to its gradient belong to the op that made the value *and*, once gradients
are colocated, to the op whose gradient takes it: so loops bind ops together that were
free before. Where such a group ran on several devices, some of its ops move, and the
order of the graph, which a trace does not have, decides which.

Source:
    ``core/common_runtime/colocation_graph.cc`` and
    ``control_flow_state.AddForwardAccumulator``, ``tensor_array_ops.TensorArray``
    (``colocate_with_first_write_call``), 2.21.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairs import Pair

__all__ = ["find_entangled"]

_TAKES_HANDLE = re.compile(
    r"TensorArray\w+V3|Stack(?:Push|Pop)V2|ReadVariableOp|VariableShape"
    r"|Resource\w+|Assign\w*VariableOp"
)
# A tensor array is made with the first value that is written into it.
_FIRST_WRITES = frozenset({"TensorArrayWriteV3", "TensorArrayScatterV3"})
_VALUE = 2
_PASSES_ON = frozenset(
    {"Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"}
)
_LOOP_CONDITION = re.compile(r"(?P<loop>.+)/LoopCond/_\d+")
_LOOP_INPUT = re.compile(r"(?P<loop>.+)/enter/_\d+")


def find_entangled(facts: Facts, pairs: Mapping[str, Pair]) -> frozenset[str]:
    """Return the ops whose group ran on several devices, forward ops and others.

    Args:
        facts: What the trace says.
        pairs: Gradient op to its pair.
    """
    groups = _Groups()
    for one, other in _bonds(facts, pairs):
        groups.join(one, other)
    devices: dict[str, set[str]] = {}
    for name in groups.members():
        # A gradient op was not colocated yet, so where it ran binds nothing. What
        # passes values on is on the default device where nobody asked for another.
        if name not in pairs:
            ran_on = set(facts.ran_on.get(name, ()))
            if facts.type_of(name) in _PASSES_ON:
                ran_on.discard(facts.default_device or "")
            devices.setdefault(groups.root(name), set()).update(ran_on)
    return frozenset(
        name for name in groups.members() if len(devices.get(groups.root(name), ())) > 1
    )


def _bonds(facts: Facts, pairs: Mapping[str, Pair]) -> Iterator[tuple[str, str]]:
    for name, kind in facts.op_type.items():
        producers = facts.producers.get(name, ())
        if not producers:
            continue
        if _TAKES_HANDLE.fullmatch(kind):
            yield name, producers[0]
            yield from _passed_on(producers[0], facts)
        if kind in _FIRST_WRITES and name not in pairs and len(producers) > _VALUE:
            yield name, producers[_VALUE]
        if kind == "StackPushV2" and name in pairs and len(producers) > 1:
            yield name, pairs[name].forward_op or name
            yield pairs[name].forward_op or name, producers[1]
        elif kind == "Enter" and (match := _LOOP_INPUT.fullmatch(name)):
            if facts.type_of(producers[0]) == "VarHandleOp":
                yield match["loop"], producers[0]
        elif kind == "LoopCond" and (match := _LOOP_CONDITION.fullmatch(name)):
            yield match["loop"], name
        elif name in pairs and kind.startswith(("TensorArray", "Stack")):
            yield name, pairs[name].forward_op or name


def _passed_on(name: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the bonds along the way that a handle took."""
    seen = set()
    while facts.type_of(name) in _PASSES_ON and name not in seen:
        seen.add(name)
        producers = facts.producers.get(name, ())
        if not producers:
            return
        yield name, producers[0]
        name = producers[0]


class _Groups:
    """Names that belong together."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def members(self) -> tuple[str, ...]:
        return tuple(self._parent)

    def root(self, name: str) -> str:
        root = self._parent.setdefault(name, name)
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[name] != root:
            self._parent[name], name = root, self._parent[name]
        return root

    def join(self, one: str, other: str) -> None:
        self._parent[self.root(one)] = self.root(other)
