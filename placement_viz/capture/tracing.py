"""One traced run of ``Session.run``: its options, what it returns, how it may fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from placement_viz.capture.fetches import fetched_elements, names_of
from placement_viz.capture.inlining import FlatGraph
from placement_viz.schema import DeviceRecord

__all__ = [
    "Call",
    "FunctionFacts",
    "TracedStep",
    "hand_over",
    "is_of_the_program",
    "one_line",
    "placed_nodes",
    "session_devices",
    "traced_step",
    "tracing_options",
]


#: Op types with which partitions talk to each other; no part of the program.
_TRANSFERS = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})


@dataclasses.dataclass(frozen=True, eq=False)
class FunctionFacts:
    """What is special about a step that was a call of a ``tf.function``.

    Attributes:
        name: The Python function's name.
        flat: The function's graph, of which the step's graph is a copy.
        placed: Node to the device that the program's own call had it on, where
            TensorFlow told; empty when it did not.
        remarks: What a reader of the run must know, a sentence each.
        is_replayed: Whether the call was run again to be traced. If not the step
            has a placement and no times.
    """

    name: str
    flat: FlatGraph
    placed: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    is_replayed: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class TracedStep:
    """One traced run of a training step.

    Attributes:
        graph: The session's graph.
        metadata: The RunMetadata that TensorFlow returned, serialized.
        number: Which run of the step it was, counted from 1.
        fetches: Names of what the step returned, in order.
        feeds: Names of what it was fed, in order.
        devices: The session's devices.
        soft_placement: Whether the session might move ops.
        config: The session's configuration, as text.
        duration_us: Wall time of the run.
        times_us: Wall times of untraced runs, where they came with the trace.
        function: The function that it was a call of; None for a ``Session.run``.
    """

    graph: Any
    metadata: bytes
    number: int
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    devices: tuple[DeviceRecord, ...]
    soft_placement: bool
    config: str
    duration_us: int
    times_us: tuple[int, ...] = ()
    function: FunctionFacts | None = None

    def finished(self) -> TracedStep:
        """Return this step, of which nothing is left to be done."""
        return self


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A call of ``Session.run``, as the program made it."""

    run: Callable[..., Any]
    session: Any
    fetches: Any
    feed_dict: Any
    options: Any
    run_metadata: Any

    def plainly(self) -> Any:
        """Run what the program asked for and nothing else."""
        return self.traced_into(self.options, self.run_metadata)

    def traced_into(self, options: Any, run_metadata: Any) -> Any:
        """Run it with other options, and fill other metadata."""
        return self.run(
            self.session, self.fetches, self.feed_dict, options, run_metadata
        )


def tracing_options(options: Any) -> Any:
    """Return the program's own run options, with tracing switched on."""
    from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415

    traced = config_pb2.RunOptions()
    if options is not None:
        traced.CopyFrom(options)
    traced.trace_level = config_pb2.RunOptions.FULL_TRACE
    traced.output_partition_graphs = True
    return traced


def hand_over(call: Call, metadata: Any) -> None:
    """Fill the program's own run metadata with what it asked for."""
    if call.run_metadata is None:
        return
    call.run_metadata.CopyFrom(metadata)
    if call.options is None or not call.options.trace_level:
        call.run_metadata.ClearField("step_stats")
    if call.options is None or not call.options.output_partition_graphs:
        call.run_metadata.ClearField("partition_graphs")


def is_of_the_program(error: Exception) -> bool:
    """Return whether an op of the graph failed.

    Then the step has had effects, an input pipeline has advanced, and it must not
    run twice.
    """
    from tensorflow.python.framework import errors_impl  # noqa: PLC0415

    return isinstance(error, errors_impl.OpError) and (
        error.op is not None or error.node_def is not None or "{{node" in error.message
    )


def one_line(error: Exception) -> str:
    """Return an error of somebody else, with its kind, as one line of text."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def placed_nodes(partition_graphs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield each node of the program with the device it was put on."""
    for partition in partition_graphs:
        for node in partition.node:
            if node.op not in _TRANSFERS:
                yield node.name, node.device


def traced_step(call: Call, metadata: Any, number: int, duration_us: int) -> TracedStep:
    """Return the record of ``call``, run ``number`` of its step, just traced."""
    graph = call.session.graph
    config = getattr(call.session, "_config", None)
    elements = fetched_elements(graph, call.fetches)
    return TracedStep(
        graph=graph,
        metadata=metadata.SerializeToString(),
        number=number,
        fetches=tuple(element.name for element in elements),
        feeds=names_of(graph, call.feed_dict or ()),
        devices=session_devices(call.session),
        soft_placement=bool(config and config.allow_soft_placement),
        config=str(config or ""),
        duration_us=duration_us,
    )


def session_devices(session: Any) -> tuple[DeviceRecord, ...]:
    """Return the session's devices; nothing when it does not say."""
    try:
        return tuple(
            DeviceRecord(device.name, memory_bytes=device.memory_limit_bytes)
            for device in session.list_devices()
        )
    except Exception:  # noqa: BLE001 - known only for the record
        return ()
