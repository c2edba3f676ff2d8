"""What the trace and the graph say about each node, by name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container, Iterator, Mapping, Sequence

from placement_viz import names
from placement_viz.model import Run
from placement_viz.schema import GraphNode

__all__ = ["Facts", "gather_facts"]

#: Optimisers remove these and let what is behind take what is before.
_PASSED_OVER = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot"})


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """Trace and graph, by node name.

    Attributes:
        ran_on: Node to the devices it ran on, sorted; only nodes that ran.
        op_type: Node to the type it ran as.
        tensors: Node to the tensors it takes, in argument order: as the graph has
            it, else as the trace has it.
        nodes: The graph; empty without one.
        placed: Node to assigned device, where the partition graphs say so.
        kernels: Op type to the types of device that have a kernel for it; only what
            is known.
        devices: Devices of the session as far as they are known, sorted.
        merged: Node to the ops that took its value in this step and take another
            one's in the graph: an optimiser found the two to be equal.
        source_of: Node to ``file:line``; only nodes of which it is known.
        inner_forward: Gradient op inside a loop or branch to the op that it
            differentiates, where TensorFlow noted it.
    """

    ran_on: Mapping[str, tuple[str, ...]]
    op_type: Mapping[str, str]
    tensors: Mapping[str, Sequence[str]]
    nodes: Mapping[str, GraphNode]
    placed: Mapping[str, str]
    kernels: Mapping[str, frozenset[str]]
    devices: tuple[str, ...]
    merged: Mapping[str, tuple[str, ...]]
    source_of: Mapping[str, str]
    inner_forward: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Return all nodes: the graph's as created, then others as they first ran."""
        return tuple(dict.fromkeys((*self.nodes, *self.ran_on)))

    @functools.cached_property
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        """Return node to the nodes whose data it takes, in argument order.

        Names that nothing is known of are left in.
        """
        ran_on, nodes = self.ran_on, self.nodes
        known = _Known(ran_on, nodes)
        return {
            name: tuple(
                [
                    # Nearly always the name as it stands.
                    tensor
                    if ":" not in tensor and (tensor in ran_on or tensor in nodes)
                    else names.producer_of(tensor, known)
                    for tensor in tensors
                    if tensor[:1] != "^"
                ]
            )
            for name, tensors in self.tensors.items()
        }

    @functools.cached_property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """Return node to the nodes that take its data, in the order of ``tensors``."""
        consumers: dict[str, list[str]] = {}
        for consumer, found in self.producers.items():
            for producer in dict.fromkeys(found):
                consumers.setdefault(producer, []).append(consumer)
        return {name: tuple(found) for name, found in consumers.items()}

    @functools.cached_property
    def _by_scope(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self.names:
            found.setdefault(name.rpartition("/")[0], []).append(name)
        return found

    def inside(self, scope: str) -> Sequence[str]:
        """Return the nodes right in ``scope``, in the order of ``names``."""
        return self._by_scope.get(scope, ())

    @property
    def default_device(self) -> str | None:
        """Return where TensorFlow puts what nothing constrains; None without devices.

        Source:
            The placer prefers GPU to CPU and then the lower number
            (``core/common_runtime/placer.cc``).
        """
        devices = self.devices
        gpus = (device for device in devices if "/device:GPU:" in device)
        return next(gpus, next(iter(devices), None))

    @functools.cached_property
    def is_recorded(self) -> bool:
        """Return whether the graph notes what its gradient ops differentiate."""
        return any(node.forward is not None for node in self.nodes.values())

    def is_known(self, name: str) -> bool:
        """Return whether a node of this name ran or is in the graph."""
        return name in self.ran_on or name in self.nodes

    def handles_taken(self, name: str) -> Iterator[str]:
        """Yield the nodes whose resource or reference ``name`` takes."""
        node = self.nodes.get(name) if self._handles else None
        for tensor in node.inputs if node else ():
            producer, slot = names.producer_and_slot(tensor)
            if slot in self._handles.get(producer, ()):
                yield producer

    @functools.cached_property
    def _handles(self) -> dict[str, tuple[int, ...]]:
        return {name: n.handles for name, n in self.nodes.items() if n.handles}

    def type_of(self, name: str) -> str:
        """Return the op type of a node; empty when nothing is known of it."""
        if name in self.nodes:
            return self.nodes[name].op
        return self.op_type.get(name, "")


def gather_facts(run: Run) -> Facts:
    """Return what ``run`` says about each node."""
    # By name where starts are equal, so that the order in the file means nothing.
    executed = run.trace.executed.sort("start_us", "name")
    nodes = run.graph.nodes if run.graph else {}
    called = executed["name"].to_list()
    ran_on = _devices_of_each(called, executed["device"].to_list())
    # A node that ran on several devices (a copied constant) or several times (a loop)
    # is of one type and has the same inputs each time, so the last stands for all.
    op_type = dict(zip(called, executed["op_type"].to_list(), strict=True))
    inputs: dict[str, Sequence[str]] = dict(
        zip(called, executed["inputs"].to_list(), strict=True)
    )
    merged = _merged(inputs, nodes, _Known(ran_on, nodes))
    inputs |= {name: node.inputs for name, node in nodes.items()}
    return Facts(
        ran_on=ran_on,
        op_type=op_type,
        tensors=inputs,
        nodes=nodes,
        placed=run.graph.placed if run.graph else {},
        kernels=run.graph.kernels if run.graph else {},
        devices=_devices(run),
        merged=merged,
        source_of=_sources(run),
        inner_forward=run.section.inner_forward if run.section else {},
    )


def _devices_of_each(
    called: Sequence[str], devices: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return node to the devices it ran on, sorted, in the order of first use."""
    # Nearly all ran on one, and then all of a device share a tuple.
    alone = {device: (device,) for device in set(devices)}
    ran_on: dict[str, tuple[str, ...]] = {}
    several: dict[str, set[str]] = {}
    for name, device in zip(called, devices, strict=True):
        found = ran_on.setdefault(name, alone[device])
        if found[0] != device:
            several.setdefault(name, set(found)).add(device)
    for name, found_on in several.items():
        ran_on[name] = tuple(sorted(found_on, key=names.device_order))
    return ran_on


class _Known:
    """The names of two mappings, without joining them."""

    def __init__(
        self, first: Mapping[str, object], second: Mapping[str, object]
    ) -> None:
        self._first, self._second = first, second

    def __contains__(self, name: object) -> bool:
        return name in self._first or name in self._second


def _merged(
    inputs: Mapping[str, Sequence[str]],
    nodes: Mapping[str, GraphNode],
    known: Container[str],
) -> dict[str, tuple[str, ...]]:
    """Return what ops took in the step although they take something else in the graph.

    Args:
        inputs: Node that ran to the tensors it took.
        nodes: The graph.
        known: All nodes.
    """
    found: dict[str, list[str]] = {}
    for name, tensors in inputs.items():
        node = nodes.get(name)
        if node is not None and tuple(tensors) != node.inputs:
            usual = set(_usual_producers(node, nodes, known))
            for tensor in tensors:
                producer = names.producer_of(tensor, known)
                if tensor.startswith("^"):  # a gate that was removed leaves these
                    continue
                if producer in nodes and producer not in usual:
                    found.setdefault(producer, []).append(name)
    return {name: tuple(takers) for name, takers in found.items()}


def _usual_producers(
    node: GraphNode, nodes: Mapping[str, GraphNode], known: Container[str]
) -> Iterator[str]:
    """Yield what ``node`` takes in the graph, also past ops that only pass it on."""
    for tensor in node.inputs:
        producer = names.producer_of(tensor, known)
        yield producer
        passed = {producer}
        while (source := nodes.get(producer)) and source.op in _PASSED_OVER:
            if not source.inputs:
                break
            producer = names.producer_of(source.inputs[0], known)
            if producer in passed:
                break
            passed.add(producer)
            yield producer


def _devices(run: Run) -> tuple[str, ...]:
    recorded = run.section.devices if run.section else ()
    found = {names.canonical_device(each.name) for each in recorded}
    if run.trace.is_placed:
        found.update(run.trace.devices)
    return tuple(sorted(found, key=names.device_order))


def _sources(run: Run) -> dict[str, str]:
    graph = run.graph
    if graph is None or not graph.sources:
        return {}
    return {name: source for name in graph.nodes if (source := graph.source_of(name))}
