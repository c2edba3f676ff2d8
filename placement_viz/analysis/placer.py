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

Devices sort by type (GPU before CPU) and number. A group only goes where all its
members have a kernel, as far as that is known; what would leave it no device does not
join it.

Source:
    ``core/common_runtime/placer.cc`` and ``colocation_graph.cc``, 2.x.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from placement_viz import names
from placement_viz.analysis.device_requests import (
    ANYWHERE,
    Request,
    preference,
    request_of,
)

__all__ = ["FUNCTION_CALLS", "PlacerNode", "place"]

_NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
_MERGES = frozenset({"Merge", "RefMerge"})
_METADATA = frozenset({"Shape", "Size", "Rank"})
#: Op types that run a function, whose ops bear the name of the call in front.
FUNCTION_CALLS = frozenset(
    {
        "Case",
        "If",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "StatelessCase",
        "StatelessIf",
        "StatelessWhile",
        "While",
    }
)
# Their insides are placed on their own, so a handle that goes in binds nothing here.
_HANDLES_PASS = FUNCTION_CALLS | {"IdentityN"}


class PlacerNode(msgspec.Struct, frozen=True, gc=False):
    """A node as the placer sees it.

    Attributes:
        name: Unique in the graph.
        op: The op type.
        device: Canonical request, possibly partial or empty.
        groups: Names of the nodes it is bound to; its own may be left out.
        inputs: Producer and output number, data only, in argument order.
        handles: Numbers of the outputs that are a resource or a reference.
        after: Nodes that it waits for without taking anything.
        kinds: Types of device that have a kernel for it; None when not known.
    """

    name: str
    op: str
    device: str = ""
    groups: tuple[str, ...] = ()
    inputs: tuple[tuple[str, int], ...] = ()
    handles: frozenset[int] = frozenset()
    after: tuple[str, ...] = ()
    kinds: frozenset[str] | None = None


def place(nodes: Sequence[PlacerNode], devices: Iterable[str]) -> dict[str, str]:
    """Return node to assigned device, for every node.

    Args:
        nodes: The graph in the order of creation.
        devices: Full canonical names of the session's devices; at least one.
    """
    return _Placer(_in_order(nodes), sorted(devices, key=preference)).run()


def _in_order(nodes: Sequence[PlacerNode]) -> Sequence[PlacerNode]:
    """Return the nodes in the order in which TensorFlow's importer takes them.

    It takes the first one of which all inputs are there. That is the order of creation,
    but for loops of version 1: when their gradient is built, nodes of the loop are made
    to wait for ones that come later.

    Source:
        ``GraphConstructor::InitFromEdges`` and ``Convert`` in
        ``core/common_runtime/graph_constructor.cc``.
    """
    back = {node.name for node in nodes if node.op in _NEXT_ITERATIONS}
    if not back:
        return nodes
    place = {node.name: number for number, node in enumerate(nodes)}
    takers: list[list[int]] = [[] for _ in nodes]
    pending = []
    for number, node in enumerate(nodes):
        given = [name for name, _ in node.inputs if name in place]
        waits = [name for name in node.after if name in place]
        for name in (*given, *waits):
            takers[place[name]].append(number)
        # A loop comes round again: its entrance only waits for the way in.
        is_entrance = node.op in _MERGES and any(name in back for name in given)
        pending.append(len(waits) + (1 if is_entrance else len(given)))
    ready = [number for number, n in enumerate(pending) if n == 0]
    found = []
    while ready:
        number = heapq.heappop(ready)
        found.append(nodes[number])
        for taker in takers[number]:
            pending[taker] -= 1
            if pending[taker] == 0:
                heapq.heappush(ready, taker)
    # In a damaged graph some wait for ever.
    taken = {node.name for node in found}
    return [*found, *(node for node in nodes if node.name not in taken)]


class _Placer:
    """The placer of one graph; nodes and groups go by their position in it."""

    def __init__(self, nodes: Sequence[PlacerNode], devices: list[str]) -> None:
        self._nodes = nodes = list({node.name: node for node in nodes}.values())
        self._devices = devices
        self._parent = list(range(len(self._nodes)))
        self._rank = [0] * len(self._nodes)
        self._matching: dict[tuple[str, frozenset[str] | None], list[str]] = {}
        self._kinds = {at: n.kinds for at, n in enumerate(nodes) if n.kinds is not None}
        # Groups that ask for nothing, which most nodes do, have no entry.
        self._request: dict[int, Request] = {}
        self._owner: dict[int, Request] = {}
        for position, node in enumerate(self._nodes):
            if node.device:
                self._request[position] = request_of(node.device)
                if not node.inputs and 0 in node.handles:
                    self._owner[position] = request_of(node.device)

    def run(self) -> dict[str, str]:
        self._join_handles()
        self._join_groups()
        fixed: dict[int, str] = {}  # group to device
        assigned: dict[str, str] = {}
        waiting = []
        for position, node in enumerate(self._nodes):
            if not node.inputs and 0 not in node.handles:
                waiting.append(position)
                continue
            preferred = None
            if node.op in _METADATA and node.inputs:
                preferred = assigned.get(node.inputs[0][0])
            assigned[node.name] = self._assign(position, preferred, fixed)
        takers = self._devices_of_takers(waiting, assigned)
        for position in waiting:
            name = self._nodes[position].name
            where = takers[name]
            preferred = where.pop() if len(where) == 1 else None
            assigned[name] = self._assign(position, preferred, fixed)
        return assigned

    def _assign(
        self, position: int, preferred: str | None, fixed: dict[int, str]
    ) -> str:
        root = self._root(position)
        if root not in fixed:
            allowed = self._allowed(root)
            fixed[root] = preferred if preferred in allowed else allowed[0]
        return fixed[root]

    def _allowed(self, root: int) -> list[str]:
        """Return the devices that satisfy a group, best first; never none.

        Soft placement drops the request before it drops the need of a kernel.
        """
        request, kinds = self._request.get(root, ANYWHERE), self._kinds.get(root)
        wanted = request.task
        if request.kind:
            wanted += f"/device:{request.kind}:{request.number or '*'}"
        key = wanted, kinds
        if key not in self._matching:
            able = [
                device
                for device in self._devices
                if kinds is None or names.device_type(device) in kinds
            ]
            found = [d for d in able if names.device_matches(wanted, d)]
            self._matching[key] = found or able or self._devices
        return self._matching[key]

    def _join_handles(self) -> None:
        makers = {n.name: at for at, n in enumerate(self._nodes) if n.handles}
        for position, node in enumerate(self._nodes) if makers else ():
            if node.op in _HANDLES_PASS:
                continue
            for producer, slot in node.inputs:
                maker = makers.get(producer)
                if maker is not None and slot in self._nodes[maker].handles:
                    source, target = self._root(maker), self._root(position)
                    wanted = self._request.get(source, ANYWHERE)
                    if self._request.get(target, ANYWHERE).clashes_with(wanted):
                        owner = self._owner.get(target, ANYWHERE)
                        self._request[target] = wanted.obeying(owner)
                    self._union(source, target)

    def _join_groups(self) -> None:
        bound = {group for node in self._nodes for group in node.groups}
        first: dict[str, int] = {}
        for position, node in enumerate(self._nodes):
            groups = node.groups
            if len(groups) > 1:
                groups = tuple(sorted(groups))
            # A node whose name no other one is bound to needs no group of its own.
            if node.name in bound:
                groups += (node.name,)
            for group in groups:
                other = first.setdefault(group, position)
                if other == position:
                    continue
                mine, theirs = self._root(position), self._root(other)
                if self._may_join(mine, theirs):
                    self._union(mine, theirs)

    def _may_join(self, one: int, other: int) -> bool:
        """Return whether two groups can share a device; else a request is ignored.

        Two resources keep their devices, and nothing leaves its task.
        """
        request, other_request = self._request.get(one), self._request.get(other)
        if request is None or other_request is None or request == other_request:
            return True
        owner = self._owner.get(one, ANYWHERE)
        return not (
            owner.clashes_with(self._owner.get(other, ANYWHERE))
            or request.is_in_another_task(other_request)
        )

    def _union(self, one: int, other: int) -> None:
        if one == other or (self._kinds and not self._join_kinds(one, other)):
            return
        if self._rank[one] < self._rank[other]:
            one, other = other, one
        elif self._rank[one] == self._rank[other]:
            self._rank[one] += 1
        self._parent[other] = one
        if other in self._owner:
            owner = self._owner.get(one, ANYWHERE)
            self._owner[one] = owner.merged(self._owner[other])
        if other in self._request or one in self._request:
            request = self._request.get(one, ANYWHERE)
            request = request.merged(self._request.get(other, ANYWHERE))
            self._request[one] = request.obeying(self._owner.get(one, ANYWHERE))

    def _join_kinds(self, one: int, other: int) -> bool:
        """Note for both groups where they can go together; False if nowhere."""
        mine, theirs = self._kinds.get(one), self._kinds.get(other)
        if mine is None or theirs is None:
            both = theirs if mine is None else mine
        else:
            both = mine & theirs
            if not both:
                return False
        if both is not None:
            self._kinds[one] = self._kinds[other] = both
        return True

    def _root(self, position: int) -> int:
        parent = self._parent
        root = parent[position]
        while parent[root] != root:
            root = parent[root]
        while parent[position] != root:
            parent[position], position = root, parent[position]
        return root

    def _devices_of_takers(
        self, givers: Iterable[int], assigned: Mapping[str, str]
    ) -> Mapping[str, set[str]]:
        """Return each node of ``givers``, by name, to where what takes from it is."""
        found: dict[str, set[str]] = {self._nodes[each].name: set() for each in givers}
        for node in self._nodes:
            for producer, _ in node.inputs:
                if producer in found:
                    found[producer].add(assigned[node.name])
        return found
