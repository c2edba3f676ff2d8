"""The graph as TensorFlow would have built it with colocated gradients.

``colocate_gradients_with_ops=True`` changes three things, and so does
:func:`rebuild_colocated`:

- Each gradient op joins the group of its forward op and takes over its request. What
  the gradient function itself binds (a shape to its tensor) is bound as before.
- A sum of gradients is split: the summands that ask for one device are added there,
  first, and the parts are added with the forward op. TensorFlow numbers sums as it
  makes them, so from the first split on ``AddN_3`` is another sum than before.
- ``tf.device`` around the call no longer counts.

Source:
    ``gradients_util._GradientsHelper`` and ``_MultiDeviceAddN``,
    ``ops.Graph._create_op_helper`` (2.21 and 1.15 alike).
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from placement_viz import names
from placement_viz.analysis.colocation.around import devices_around
from placement_viz.analysis.colocation.pairs import Pair
from placement_viz.analysis.placer import PlacerNode
from placement_viz.schema import GraphNode

__all__ = ["Rebuilt", "rebuild_colocated"]

_SUM = re.compile(r"(?:(.*)/)?AddN(?:_\d+)?")
_LOOPS = frozenset({"While", "StatelessWhile"})
_NO_HANDLES: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, eq=False)
class Rebuilt:
    """A graph as the placer would see it.

    Attributes:
        nodes: In the order of creation; sums of gradients are split and renumbered.
        renamed: Sum as it was built to the op that has its value here.
    """

    nodes: list[PlacerNode]
    renamed: dict[str, str]


def rebuild_colocated(
    nodes: Mapping[str, GraphNode],
    pairs: Mapping[str, Pair],
    kernels: Mapping[str, frozenset[str]] | None = None,
) -> Rebuilt:
    """Return the colocated graph.

    Args:
        nodes: The graph as it was built, in the order of creation.
        pairs: Gradient op to its pair, for every gradient op of the graph; without
            any, the graph stays as it was built.
        kernels: Op type to the types of device that have a kernel for it, as far as
            known.
    """
    rebuild = _Rebuild(nodes, pairs, kernels or {})
    for event in _events(list(nodes.values()), pairs):
        rebuild.add(event)
    return Rebuilt(_past_loops(rebuild.made), rebuild.renamed)


def _events(
    nodes: Sequence[GraphNode], pairs: Mapping[str, Pair]
) -> Iterator[tuple[GraphNode, ...]]:
    """Yield the nodes one by one, but the ops of one sum of gradients together."""
    device = {node.name: node.device for node in nodes}
    before: list[GraphNode] = []
    for node in nodes:
        parts: list[GraphNode] = []
        if node.op == "AddN" and _is_sum_of_gradients(node.name, pairs):
            parts = _parts_of(node, before, device)
            if not parts:
                before.append(node)
                continue
        if before:
            yield from ((each,) for each in before if each not in parts)
            before = []
        yield (*parts, node)
    yield from ((each,) for each in before)


def _parts_of(
    node: GraphNode, before: Sequence[GraphNode], device: Mapping[str, str]
) -> list[GraphNode]:
    """Return those of the sums made just before that the sum ``node`` adds up.

    A total adds up what asks for different devices; any other sum does not.
    """
    summands = {names.producer_of(tensor, device) for tensor in node.inputs}
    if len({device.get(each) for each in summands}) < len(summands):
        return []
    return [each for each in before if each.name in summands]


def _is_sum_of_gradients(name: str, pairs: Mapping[str, Pair]) -> bool:
    pair = pairs.get(name)
    match = _SUM.fullmatch(name)
    if pair is None or match is None or not pair.forward_op:
        return False
    return pair.scope in {"", match.group(1)}


class _Rebuild:
    """The colocated graph while it grows, in TensorFlow's order."""

    def __init__(
        self,
        nodes: Mapping[str, GraphNode],
        pairs: Mapping[str, Pair],
        kernels: Mapping[str, frozenset[str]],
    ) -> None:
        self.made: list[PlacerNode] = []
        self._kernels = kernels
        self._pairs = pairs
        self._device: dict[str, str] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self.renamed: dict[str, str] = {}
        self._n_sums: collections.Counter[str] = collections.Counter()
        self._around = devices_around(nodes, pairs)

    def add(self, event: tuple[GraphNode, ...]) -> None:
        """Make what TensorFlow makes in place of the nodes of ``event``."""
        node = event[-1]
        pair = self._pairs.get(node.name)
        if pair is None or pair.forward_op is None:
            request = names.canonical_device(node.device)
            self._make(node, request, node.colocate)
        elif node.op == "AddN" and _is_sum_of_gradients(node.name, self._pairs):
            self._add_sum(event, pair.forward_op)
        elif "_grad/tuple/" in node.name:
            self._add_gate(node)
        else:
            self._add_gradient(node, pair)

    def _add_gradient(self, node: GraphNode, pair: Pair) -> None:
        forward = pair.forward_op or ""
        groups = self._groups_of(forward)
        if node.colocate:
            groups = tuple(sorted({*self._inner_groups(node), *groups}))
        request = (
            self._inner_device(node)
            or self._device.get(forward, "")
            or self._pinned_device(node, pair)
        )
        self._make(node, request, groups)

    def _add_gate(self, node: GraphNode) -> None:
        """Make an op that only waits: outside of every constraint, with its input."""
        source = next((name for name, _ in self._sources(node)), node.name)
        groups = self._groups_of(source) if source != node.name else ()
        self._make(node, self._device.get(source, ""), groups)

    def _add_sum(self, event: tuple[GraphNode, ...], forward: str) -> None:
        own = {node.name for node in event}
        summands = [
            source
            for node in event
            for source in self._sources(node)
            if source[0] not in own
        ]
        if not summands:  # a damaged graph: there is nothing to split
            for node in event:
                self._add_gradient(node, self._pairs[node.name])
            return
        by_device: dict[str, list[tuple[str, int]]] = {}
        for source in summands:
            device = self._device.get(source[0], "")
            by_device.setdefault(device, []).append(source)
        parts = []
        for _, group in sorted(by_device.items()):
            if len(group) > 1:
                first = group[0][0]
                group = [self._make_sum(event[-1], first, group)]  # noqa: PLW2901
            parts += group
        if len(parts) > 1:
            parts = [self._make_sum(event[-1], forward, parts)]
        self.renamed[event[-1].name] = parts[0][0]

    def _make_sum(
        self, node: GraphNode, with_op: str, sources: list[tuple[str, int]]
    ) -> tuple[str, int]:
        """Make the next sum of the scope of ``node``, bound to ``with_op``."""
        match = _SUM.fullmatch(node.name)
        scope = (match.group(1) or "") if match else ""
        number = self._n_sums[scope]
        self._n_sums[scope] += 1
        name = "/".join(filter(None, (scope, f"AddN_{number}" if number else "AddN")))
        made = PlacerNode(
            name=name,
            op=node.op,
            device=self._device.get(with_op, ""),
            groups=self._groups_of(with_op),
            inputs=tuple(sources),
            kinds=self._kernels.get(node.op),
        )
        self._keep(made)
        return name, 0

    def _make(self, node: GraphNode, device: str, groups: tuple[str, ...]) -> None:
        inputs = self._sources(node)
        after: tuple[str, ...] = ()
        if len(inputs) < len(node.inputs):
            after = tuple(each[1:] for each in node.inputs if each[:1] == "^")
        made = PlacerNode(
            name=node.name,
            op=node.op,
            device=device,
            groups=groups,
            inputs=inputs,
            handles=frozenset(node.handles) if node.handles else _NO_HANDLES,
            after=after,
            kinds=self._kernels.get(node.op),
        )
        self._keep(made)

    def _keep(self, made: PlacerNode) -> None:
        self.made.append(made)
        if made.device:
            self._device[made.name] = made.device
        if made.groups:
            self._groups[made.name] = made.groups

    def _sources(self, node: GraphNode) -> tuple[tuple[str, int], ...]:
        found = [
            names.producer_and_slot(tensor) if ":" in tensor else (tensor, 0)
            for tensor in node.inputs
            if tensor[:1] != "^"
        ]
        if self.renamed:
            found = [(self.renamed.get(name, name), slot) for name, slot in found]
        return tuple(found)

    def _groups_of(self, name: str) -> tuple[str, ...]:
        return self._groups.get(name, (name,))

    def _inner_groups(self, node: GraphNode) -> tuple[str, ...]:
        found = {g for each in node.colocate for g in self._groups_of(each)}
        return tuple(sorted(found))

    def _inner_device(self, node: GraphNode) -> str:
        if not node.colocate:
            return ""
        of_binding = (self._device.get(each, "") for each in node.colocate)
        return next(filter(None, of_binding), names.canonical_device(node.device))

    def _pinned_device(self, node: GraphNode, pair: Pair) -> str:
        """Return what the gradient function itself asked for."""
        device = names.canonical_device(node.device)
        return "" if device == self._around.get(pair.scope) else device


def _past_loops(nodes: list[PlacerNode]) -> list[PlacerNode]:
    """Return the nodes with handles that pass through a loop taken from before it.

    TensorFlow takes a loop apart before it places anything, and a handle that goes
    in comes out again.
    """
    loops = {node.name: node for node in nodes if node.op in _LOOPS}
    if not loops:
        return nodes
    made = {node.name: node for node in nodes}

    def before(source: tuple[str, int]) -> tuple[str, int]:
        origin, seen = source, {source}
        while origin[0] in loops:
            name, slot = origin
            inputs = loops[name].inputs
            if slot >= len(inputs) or inputs[slot] in seen:
                return source
            origin = inputs[slot]
            seen.add(origin)
        maker = made.get(origin[0])
        # A plain value that comes out of a loop was computed in it.
        return origin if maker is not None and origin[1] in maker.handles else source

    return [
        node
        if node.op in _LOOPS
        else msgspec.structs.replace(node, inputs=tuple(map(before, node.inputs)))
        for node in nodes
    ]
