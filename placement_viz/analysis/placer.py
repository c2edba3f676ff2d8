"""TensorFlow's placer, replayed: which device each node of a graph is assigned.

The rules, in TensorFlow's order:

1. A node starts with the device it requests. A node that makes a resource (a
   variable, a stack) *owns* its device: nobody overrides that.
2. What takes a resource or reference joins the group of what made it and, where the
   two requests clash, takes over the maker's.
3. Nodes bound by ``_class`` join one group. Clashing numbers or types are dropped
   (soft placement), and the next member that names one sets it again: the device
   of a group with clashing requests depends on the order of its members.
4. In graph order each node takes the first device its group allows, and with that
   fixes the group. Nodes that only read a shape prefer the device of their input;
   nodes without inputs wait and go to their consumers, if those agree.

Devices sort by type (GPU before CPU) and number. Kernels are not considered: a node
whose type has no kernel on the device ends up elsewhere.

Source:
    ``core/common_runtime/placer.cc`` and ``colocation_graph.cc``, 2.x.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from placement_viz import names

__all__ = ["PlacerNode", "place"]

_METADATA = frozenset({"Shape", "Size", "Rank"})
# Their bodies are placed on their own, so a handle that goes in binds nothing here.
_CALLS = frozenset(
    {
        "Case",
        "IdentityN",
        "If",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "StatelessCase",
        "StatelessIf",
        "StatelessWhile",
        "While",
    }
)
_TYPE_ORDER = {"TPU": 0, "GPU": 1}


@dataclasses.dataclass(frozen=True)
class PlacerNode:
    """A node as the placer sees it.

    Attributes:
        name: Unique in the graph.
        op: The op type.
        device: Canonical request, possibly partial or empty.
        groups: Names of the nodes it is bound to; its own may be left out.
        inputs: Producer and output number, data only, in argument order.
        handles: Numbers of the outputs that are a resource or a reference.
    """

    name: str
    op: str
    device: str = ""
    groups: tuple[str, ...] = ()
    inputs: tuple[tuple[str, int], ...] = ()
    handles: frozenset[int] = frozenset()


def place(nodes: Sequence[PlacerNode], devices: Iterable[str]) -> dict[str, str]:
    """Return node to assigned device, for every node.

    Args:
        nodes: The graph in the order of creation.
        devices: Full canonical names of the session's devices; at least one.
    """
    return _Placer(nodes, sorted(devices, key=_preference)).run()


@dataclasses.dataclass
class _Request:
    """What a group asks for; None where it leaves the choice."""

    task: str = ""
    kind: str | None = None
    number: str | None = None

    @classmethod
    def of(cls, device: str) -> _Request:
        task, _, last = device.rpartition("/device:")
        if not last:
            return cls()
        kind, _, number = last.partition(":")
        return cls(task, kind or None, None if number == "*" else number or None)

    def clashes_with(self, other: _Request) -> bool:
        return _differ(self.kind, other.kind) or _differ(self.number, other.number)

    def merge(self, other: _Request) -> None:
        """Take over what ``other`` names; drop what the two disagree on."""
        self.task = self.task or other.task
        if _differ(self.kind, other.kind):
            self.kind = self.number = None
            return
        self.kind = self.kind or other.kind
        if _differ(self.number, other.number):
            self.number = None
            return
        self.number = self.number or other.number

    def specialise(self, owner: _Request) -> None:
        """Obey the device of a resource."""
        self.kind = owner.kind or self.kind
        self.number = owner.number or self.number


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


class _Placer:
    def __init__(self, nodes: Sequence[PlacerNode], devices: list[str]) -> None:
        self._nodes = {node.name: node for node in _in_graph_order(nodes)}
        self._devices = devices
        self._parent = {name: name for name in self._nodes}
        self._rank = dict.fromkeys(self._nodes, 0)
        self._request: dict[str, _Request] = {}
        self._owner: dict[str, _Request] = {}
        for node in self._nodes.values():
            self._request[node.name] = _Request.of(node.device)
            makes_handle = not node.inputs and 0 in node.handles
            self._owner[node.name] = (
                _Request.of(node.device) if makes_handle else _Request()
            )

    def run(self) -> dict[str, str]:
        self._join_handles()
        self._join_groups()
        fixed: dict[str, str] = {}  # group to device
        assigned: dict[str, str] = {}
        waiting = []
        for node in self._nodes.values():
            if not node.inputs and 0 not in node.handles:
                waiting.append(node)
                continue
            preferred = None
            if node.op in _METADATA and node.inputs:
                preferred = assigned.get(node.inputs[0][0])
            self._assign(node, preferred, fixed, assigned)
        consumers = self._consumers()
        for node in waiting:
            where = {assigned.get(each) for each in consumers.get(node.name, ())}
            preferred = where.pop() if len(where) == 1 else None
            self._assign(node, preferred, fixed, assigned)
        return assigned

    def _assign(
        self,
        node: PlacerNode,
        preferred: str | None,
        fixed: dict[str, str],
        assigned: dict[str, str],
    ) -> None:
        root = self._root(node.name)
        if root not in fixed:
            allowed = self._allowed(self._request[root])
            fixed[root] = preferred if preferred in allowed else allowed[0]
        assigned[node.name] = fixed[root]

    def _allowed(self, request: _Request) -> list[str]:
        """Return the devices that satisfy ``request``; all, where none does."""
        wanted = request.task
        if request.kind:
            wanted += f"/device:{request.kind}:{request.number or '*'}"
        found = [d for d in self._devices if names.device_matches(wanted, d)]
        return found or self._devices

    def _join_handles(self) -> None:
        for node in self._nodes.values():
            if node.op in _CALLS:
                continue
            for producer, slot in node.inputs:
                maker = self._nodes.get(producer)
                if maker and slot in maker.handles:
                    source, target = self._root(producer), self._root(node.name)
                    if self._request[target].clashes_with(self._request[source]):
                        self._request[target] = dataclasses.replace(
                            self._request[source]
                        )
                        self._request[target].specialise(self._owner[target])
                    self._union(source, target)

    def _join_groups(self) -> None:
        first: dict[str, str] = {}
        for node in self._nodes.values():
            for group in (*sorted(node.groups), node.name):
                mine = self._root(node.name)
                theirs = self._root(first.setdefault(group, node.name))
                # Two resources keep their devices, and the request to join is ignored.
                if not self._owner[mine].clashes_with(self._owner[theirs]):
                    self._union(mine, theirs)

    def _union(self, one: str, other: str) -> None:
        if one == other:
            return
        if self._rank[one] < self._rank[other]:
            one, other = other, one
        elif self._rank[one] == self._rank[other]:
            self._rank[one] += 1
        self._parent[other] = one
        self._owner[one].merge(self._owner[other])
        self._request[one].merge(self._request[other])
        self._request[one].specialise(self._owner[one])

    def _root(self, name: str) -> str:
        root = name
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[name] != root:
            self._parent[name], name = root, self._parent[name]
        return root

    def _consumers(self) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = {}
        for node in self._nodes.values():
            for producer, _ in node.inputs:
                found.setdefault(producer, set()).add(node.name)
        return found


def _in_graph_order(nodes: Sequence[PlacerNode]) -> Sequence[PlacerNode]:
    """Return ``nodes`` as TensorFlow numbers them; they are created so already."""
    return nodes


def _preference(device: str) -> tuple[int, str, int, str, int]:
    job, task, kind, number = names.device_order(device)
    return _TYPE_ORDER.get(kind, 9), job, task, kind, number
