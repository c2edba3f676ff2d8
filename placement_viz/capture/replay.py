"""One call of a ``tf.function``, run again in a session where it can be traced.

Since TensorFlow 2.1 a function leaves no step stats. So its graph is put into a
session with copies of all that it was called with: the values of its variables, its
arguments, and for an iterator one batch. The session has the same devices, places the
graph with the same placer, and traces it. The program's own variables, optimizer,
iterators and random state are only read.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from placement_viz.capture.function_inputs import (
    SPEAKING,
    FunctionInputs,
    HandleKind,
    InputHandle,
    InputValues,
)
from placement_viz.capture.inlining import FlatGraph
from placement_viz.capture.tracing import TracedStep, session_devices, tracing_options
from placement_viz.schema import OWN_SCOPE

__all__ = ["imported", "replay", "silence"]

#: Values are handed over in groups of about this size.
_GROUP_BYTES = 2**28

_N_WARM_UP, _N_TIMED = 2, 10
#: Once untraced runs took this long, no more of them are timed.
_TIMED_S = 20.0


def imported(
    flat: FlatGraph, inputs: FunctionInputs, devices: Mapping[int, str]
) -> Any:
    """Return a graph for sessions with the nodes of ``flat``.

    The function's inputs become what a session can be given: placeholders, and
    variables and iterators of its own in the place of handles.

    Args:
        flat: The function's graph.
        inputs: What its inputs are.
        devices: Full names of the devices that inputs are on.
    """
    import tensorflow as tf  # noqa: PLC0415

    definition = flat.graph_def
    nodes = {node.name: node for node in definition.node}
    for position, name in enumerate(flat.inputs):
        handle, device = inputs.handles.get(position), devices.get(position, "")
        if handle is not None:
            _make_handle(nodes[name], handle, device)
        elif _is_resident(nodes[name], device):
            _make_resident(definition, nodes[name], device)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(definition, name="")
    return graph


def silence(definition: Any) -> Mapping[str, int]:
    """Make ops that print or log do nothing; return op type to how many there were."""
    silenced: collections.Counter[str] = collections.Counter()
    for node in definition.node:
        if node.op in SPEAKING:
            silenced[node.op] += 1
            _make_silent(node, [name.partition(":")[0] for name in node.input])
    for function in definition.library.function:
        parameters = {argument.name for argument in function.signature.input_arg}
        for node in function.node_def:
            if node.op in SPEAKING:
                silenced[node.op] += 1
                names = (name.partition(":")[0] for name in node.input)
                _make_silent(node, [name for name in names if name not in parameters])
    return silenced


def replay(
    flat: FlatGraph, inputs: FunctionInputs, values: InputValues, number: int
) -> TracedStep:
    """Run a function's graph again with the same values, and trace it.

    Args:
        flat: The function's graph.
        inputs: What its inputs are.
        values: What it was called with.
        number: Which call that was, counted from 1.
    """
    import tensorflow as tf  # noqa: PLC0415
    from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415

    graph = imported(flat, inputs, values.devices)
    config = _session_config()
    fetches = [graph.get_operation_by_name(name) for name in flat.targets]
    fed = {i for i, name in enumerate(flat.inputs) if _is_fed(graph, name)}
    feeds = {f"{flat.inputs[i]}:0": values.tensors[i] for i in sorted(fed)}
    initializers = list(_batched(_initializers(graph, flat, values)))
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        options = config_pb2.RunOptions()
        # Collective ops find their partners by it.
        options.experimental.collective_graph_key = 1

        def run(options: Any, metadata: Any = None) -> int:
            start_ns = time.perf_counter_ns()
            session.run(fetches, feeds, options, metadata)
            return (time.perf_counter_ns() - start_ns) // 1000

        def start_over() -> None:
            for operations, given in initializers:
                session.run(operations, given)

        start_over()
        for _ in range(_N_WARM_UP):
            run(options)
        start_over()
        metadata = config_pb2.RunMetadata()
        duration_us = run(tracing_options(options), metadata)
        times_us: list[int] = []
        while len(times_us) < _N_TIMED and sum(times_us) < _TIMED_S * 1e6:
            times_us.append(run(options))
        return TracedStep(
            graph=graph,
            metadata=metadata.SerializeToString(),
            number=number,
            fetches=flat.targets,
            feeds=tuple(feeds),
            devices=session_devices(session),
            soft_placement=config.allow_soft_placement,
            config=str(config),
            duration_us=duration_us,
            times_us=tuple(times_us),
        )


def _make_handle(node: Any, handle: InputHandle, device: str) -> None:
    """Turn the node of an input into one that makes a handle of the session's own."""
    if handle.kind is HandleKind.OPAQUE:
        return
    attributes = {
        key: handle.consumer.node_def.attr[key]
        for key in ("output_types", "output_shapes")
        if handle.kind is HandleKind.ITERATOR
    }
    node.attr.clear()
    del node.input[:]
    node.device = device
    node.attr["shared_name"].s = node.name.encode()
    node.attr["container"].s = b""
    if handle.kind is HandleKind.ITERATOR:
        node.op = "IteratorV2"
        for key, value in attributes.items():
            node.attr[key].CopyFrom(value)
        return
    node.op = "VarHandleOp"
    if handle.variable is None:
        node.attr["dtype"].type = 1
        node.attr["shape"].shape.SetInParent()
    else:
        node.attr["dtype"].type = handle.variable.dtype
        node.attr["shape"].shape.CopyFrom(handle.variable.shape)


def _is_resident(node: Any, device: str) -> bool:
    """Return whether an input is a value that is on another device than feeds are.

    It must be there before the step begins, or the step would begin with a copy that
    the program's own call does without. Other types are kept in host memory anyway.
    """
    from tensorflow.python.framework import dtypes  # noqa: PLC0415

    is_away = bool(device) and not device.endswith("/device:CPU:0")
    return is_away and dtypes.as_dtype(node.attr["dtype"].type).is_floating


def _make_resident(definition: Any, node: Any, device: str) -> None:
    """Turn a placeholder into the value of a variable on ``device``."""
    dtype, shape = node.attr["dtype"].type, node.attr["shape"].shape
    holder = definition.node.add(name=_holder(node.name), op="VarHandleOp")
    holder.device = device
    holder.attr["dtype"].type = dtype
    holder.attr["shape"].shape.CopyFrom(shape)
    holder.attr["shared_name"].s = holder.name.encode()
    holder.attr["container"].s = b""
    node.op, node.device = "ReadVariableOp", device
    node.attr.clear()
    node.attr["dtype"].type = dtype
    node.input.append(holder.name)


def _holder(name: str) -> str:
    return f"{OWN_SCOPE}{name}"


def _make_silent(node: Any, producers: Iterable[str]) -> None:
    node.op = "NoOp"
    node.attr.clear()
    controls = dict.fromkeys(f"^{name.removeprefix('^')}" for name in producers)
    del node.input[:]
    node.input.extend(controls)


def _initializers(
    graph: Any, flat: FlatGraph, values: InputValues
) -> Iterable[tuple[Any, dict[Any, Any]]]:
    """Yield ops that give the session's variables and iterators their copies.

    Each comes with what to feed it.
    """
    import tensorflow as tf  # noqa: PLC0415
    from tensorflow.python.ops import gen_dataset_ops  # noqa: PLC0415

    def handle_of(position: int) -> Any:
        return graph.get_tensor_by_name(f"{flat.inputs[position]}:0")

    def fed(value: Any) -> Any:
        return tf.compat.v1.placeholder(tf.as_dtype(value.dtype), value.shape)

    with graph.as_default(), tf.name_scope(OWN_SCOPE):
        kept = [(handle_of(i), value) for i, value in values.variables.items()]
        kept += [
            (graph.get_tensor_by_name(f"{_holder(flat.inputs[i])}:0"), value)
            for i, value in values.tensors.items()
            if not _is_fed(graph, flat.inputs[i])
        ]
        for handle, value in kept:
            stand_in = fed(value)
            with tf.device(handle.device):
                assign = tf.raw_ops.AssignVariableOp(resource=handle, value=stand_in)
            yield assign, {stand_in: value}
        for position, batch in values.batches.items():
            handle = handle_of(position)
            with tf.device(handle.device):
                stand_ins = tuple(fed(value) for value in batch)
                dataset = tf.data.Dataset.from_tensors(stand_ins).repeat()
                make = gen_dataset_ops.make_iterator(dataset._variant_tensor, handle)  # noqa: SLF001
            yield make, dict(zip(stand_ins, batch, strict=True))


def _batched(
    initializers: Iterable[tuple[Any, dict[Any, Any]]],
) -> Iterator[tuple[list[Any], dict[Any, Any]]]:
    """Yield initializers in groups that are run together.

    Each run prepares the whole graph, and all values at once need the memory twice.
    """
    operations: list[Any] = []
    given: dict[Any, Any] = {}
    n_bytes = 0
    for operation, fed in initializers:
        operations.append(operation)
        given.update(fed)
        n_bytes += sum(value.nbytes for value in fed.values())
        if n_bytes > _GROUP_BYTES:
            yield operations, given
            operations, given, n_bytes = [], {}, 0
    if operations:
        yield operations, given


def _is_fed(graph: Any, name: str) -> bool:
    """Return whether an input of the function is a placeholder in ``graph``."""
    return bool(graph.get_operation_by_name(name).type == "Placeholder")


def _session_config() -> Any:
    """Return a configuration with the devices and options of the eager program."""
    from tensorflow.python.eager import context  # noqa: PLC0415

    return context.context().config
