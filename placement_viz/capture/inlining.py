"""The graph of a function as one flat graph: the bodies of called functions inlined.

TensorFlow inlines calls before it places a function, so that ops inside a called
function get a device each. The same is done here, with the same names
(``call/op``), to have the graph that TensorFlow places, and to know for every node of
it the operation that the program built. Loops and branches stay calls, as the program
wrote them.

Source:
    ``tensorflow/core/common_runtime/inline_function_utils.cc`` and
    ``lower_functional_ops.cc``, 2.21.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from placement_viz.capture.called import CALLS, function_of

__all__ = ["COMPILED", "FlatGraph", "flatten"]

#: An attribute by which a function is compiled as a whole.
COMPILED = "_XlaMustCompile"

_LOOP_FRAMES = frozenset({"Enter", "RefEnter"})


@dataclasses.dataclass(frozen=True, eq=False)
class FlatGraph:
    """A function's graph without calls.

    Attributes:
        graph_def: Its nodes in the order of creation, and the functions that its loops
            and branches use.
        origins: Name of a node to the operation that the program built; without the
            few nodes that only inlining made.
        scopes: Name of a node to the call around it, with a slash; empty at the top.
        inputs: Names of the nodes that stand for the function's inputs, in order.
        targets: Names of the nodes that a call of the function runs for.
        callers: Call to the call that it differentiates, where it is the backward
            pass of another function.
        is_compiled: Whether a part of it would be compiled by XLA.
    """

    graph_def: Any
    origins: Mapping[str, Any]
    scopes: Mapping[str, str]
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    callers: Mapping[str, str]
    is_compiled: bool


def flatten(graph: Any, names: Mapping[str, str]) -> FlatGraph:
    """Return the graph of a function, with the bodies of called functions inlined.

    Args:
        graph: The function's ``FuncGraph``.
        names: What to call some of its own ops instead; no name may be taken.
    """
    return _Inliner(graph, names).flat_graph()


class _Inliner:
    """Copies the nodes of a function and of all that it calls into one graph."""

    def __init__(self, graph: Any, names: Mapping[str, str]) -> None:
        self._graph = graph
        self._names = names
        self._origins: dict[str, Any] = {}
        self._scopes: dict[str, str] = {}
        self._callers: dict[str, str] = {}
        self._is_compiled = False

    def flat_graph(self) -> FlatGraph:
        from tensorflow.core.framework import graph_pb2  # noqa: PLC0415

        graph = self._graph
        top = _Body(graph, "", "", self._names)
        definition = graph.as_graph_def()
        flat = graph_pb2.GraphDef(node=self._copied(top))
        flat.versions.CopyFrom(definition.versions)
        flat.library.CopyFrom(definition.library)
        self._drop_compilation(flat)
        targets = [top.tensors[t.ref()].partition(":")[0] for t in graph.outputs]
        for op in graph.control_outputs:
            targets += (c.removeprefix("^") for c in top.controls[op.name])
        return FlatGraph(
            graph_def=flat,
            origins=self._origins,
            scopes=self._scopes,
            inputs=tuple(top.name_of(tensor.op.name) for tensor in graph.inputs),
            targets=tuple(dict.fromkeys(targets)),
            callers=self._callers,
            is_compiled=self._is_compiled,
        )

    def _copied(self, body: _Body) -> list[Any]:
        """Return copies of the nodes of ``body``, in the order of creation.

        An op may wait for one that was created after it, so what all are called is
        settled before the first is copied.
        """
        nodes = {node.name: node for node in body.graph.as_graph_def().node}
        ops = [
            op for op in body.graph.get_operations() if op.name not in body.parameters
        ]
        calls = [op for op in ops if self._is_inlined(op, nodes[op.name])]
        inlined = {op.name for op in calls}
        for op in ops:
            if op.name not in inlined:
                body.register(op)
        copies = {op.name: self._inline(body, op, nodes[op.name]) for op in calls}
        return [
            copy
            for op in ops
            for copy in (
                copies[op.name]
                if op.name in copies
                else [self._copied_node(body, op, nodes[op.name])]
            )
        ]

    def _is_inlined(self, op: Any, node: Any) -> bool:
        return (
            op.type in CALLS
            and not node.attr["_noinline"].b
            and function_of(op.graph, node.attr["f"].func.name) is not None
        )

    def _copied_node(self, body: _Body, op: Any, node: Any) -> Any:
        name = body.name_of(op.name)
        node.name = name
        node.device = _merged(node.device, body.device)
        controls = [c for op in op.control_inputs for c in body.controls[op.name]]
        del node.input[:]
        node.input.extend(body.tensors[tensor.ref()] for tensor in op.inputs)
        if not node.input and not controls and body.entry:
            controls = [body.entry]
        node.input.extend(dict.fromkeys(controls))
        self._rename_attributes(body, node)
        self._origins[name] = op
        self._scopes[name] = body.prefix
        return node

    def _rename_attributes(self, body: _Body, node: Any) -> None:
        if "_class" in node.attr:
            groups = [
                b"loc:@" + body.name_of(group.decode().removeprefix("loc:@")).encode()
                for group in node.attr["_class"].list.s
            ]
            node.attr["_class"].list.s[:] = groups
        if node.op in _LOOP_FRAMES:
            frame = node.attr["frame_name"]
            frame.s = body.prefix.encode() + frame.s

    def _inline(self, body: _Body, call: Any, node: Any) -> list[Any]:
        """Return copies of the nodes of a called function."""
        name = body.prefix + call.name
        graph = function_of(call.graph, node.attr["f"].func.name).graph
        self._is_compiled |= node.attr[COMPILED].b
        self._note_direction(body, call, name)
        inner = _Body(graph, f"{name}/", _merged(node.device, body.device))
        for tensor, parameter in zip(call.inputs, graph.inputs, strict=True):
            inner.pass_in(parameter, body.tensors[tensor.ref()])
        copies = []
        controls = [c for op in call.control_inputs for c in body.controls[op.name]]
        controls = controls or [body.entry] * bool(body.entry)
        if controls:
            copies.append(_joined(f"{name}/input_control_node", controls, inner))
            inner.entry = f"^{copies[0].name}"
        copies += self._copied(inner)
        for tensor, result in zip(call.outputs, graph.outputs, strict=True):
            body.tensors[tensor.ref()] = inner.tensors[result.ref()]
        ends = [c for op in graph.control_outputs for c in inner.controls[op.name]]
        ends = ends or [inner.entry] * bool(inner.entry)
        body.controls[call.name] = ()
        if ends:
            copies.append(_joined(f"{name}/output_control_node", ends, inner))
            body.controls[call.name] = (f"^{copies[-1].name}",)
        return copies

    def _note_direction(self, body: _Body, call: Any, name: str) -> None:
        """Note which call this one is the backward pass of, if it is one.

        It takes what that call keeps for it, so most of its inputs come from there.
        """
        producers = collections.Counter(
            body.prefix + tensor.op.name
            for tensor in call.inputs
            if tensor.op.type in CALLS
        )
        if producers:
            [(self._callers[name], _)] = producers.most_common(1)

    def _drop_compilation(self, graph_def: Any) -> None:
        """Let TensorFlow run op by op what it would compile as a whole."""
        functions = graph_def.library.function
        nodes = [*graph_def.node, *(node for f in functions for node in f.node_def)]
        for holder in (*nodes, *functions):
            if COMPILED in holder.attr:
                self._is_compiled |= holder.attr[COMPILED].b
                del holder.attr[COMPILED]


class _Body:
    """A function's body while it is copied.

    Attributes:
        graph: The function's graph.
        prefix: What its names get in front.
        device: The device of the call around it, which its ops inherit.
        entry: A control input for what would else start before the call; empty
            where nothing has to be waited for.
        tensors: The body's tensors to those of the flat graph.
        controls: Name of an op to the control inputs that wait for it.
        parameters: Name of a parameter to the tensor that the call passes.
    """

    def __init__(
        self,
        graph: Any,
        prefix: str,
        device: str,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.graph = graph
        self.prefix = prefix
        self.device = device
        self.entry = ""
        self._names = names
        self.tensors: dict[Any, str] = {}
        self.controls: dict[str, tuple[str, ...]] = {}
        self.parameters: dict[str, str] = {}

    def register(self, op: Any) -> None:
        """Settle what ``op`` is called in the flat graph."""
        name = self.name_of(op.name)
        for index, tensor in enumerate(op.outputs):
            self.tensors[tensor.ref()] = f"{name}:{index}"
        self.controls[op.name] = (f"^{name}",)

    def pass_in(self, parameter: Any, tensor: str) -> None:
        """Let a parameter of the function stand for a tensor of the flat graph."""
        self.tensors[parameter.ref()] = tensor
        self.parameters[parameter.op.name] = tensor
        self.controls[parameter.op.name] = ()

    def name_of(self, op: str) -> str:
        """Return what an op of this body is called in the flat graph."""
        tensor = self.parameters.get(op)
        if tensor:
            return tensor.partition(":")[0]
        return self.prefix + self._names.get(op, op)


def _joined(name: str, controls: Iterable[str], body: _Body) -> Any:
    from tensorflow.core.framework import node_def_pb2  # noqa: PLC0415

    inputs = dict.fromkeys(controls)
    return node_def_pb2.NodeDef(name=name, op="NoOp", device=body.device, input=inputs)


def _merged(device: str, around: str) -> str:
    """Return ``device``, completed by the one around it."""
    if not device or not around:
        return device or around
    from tensorflow.python.framework import device_spec  # noqa: PLC0415

    parse = device_spec.DeviceSpecV2.from_string
    return str(parse(around).make_merged_spec(parse(device)).to_string())
