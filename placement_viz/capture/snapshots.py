"""A call of a ``tf.function`` with copies of all that it was called with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from placement_viz.capture.copies import array_of, take_batch, value_of
from placement_viz.capture.function_inputs import (
    FunctionInputs,
    HandleKind,
    InputValues,
)
from placement_viz.capture.inlining import FlatGraph, flatten
from placement_viz.capture.replay import imported, replay, silence
from placement_viz.capture.tracing import (
    FunctionFacts,
    TracedStep,
    one_line,
    placed_nodes,
)
from placement_viz.errors import CaptureError
from placement_viz.schema import DeviceRecord
from placement_viz.units import format_count

__all__ = ["FunctionCall", "KnownFunction", "Snapshot"]

#: What a device's full name begins with in a program of one process.
_TASK = "/job:localhost/replica:0/task:0"


class KnownFunction:
    """What is known of a function that was traced for one signature.

    Attributes:
        graph: Its ``FuncGraph``.
        is_training: Whether it is a training step.
        is_compiled: Whether XLA compiles it as a whole.
        inputs: What it takes.
        placed: Node to the device it had in the program's own call; None before the
            first call, the only one of which TensorFlow tells it.
    """

    def __init__(self, graph: Any) -> None:
        """Know nothing yet of the function with this ``FuncGraph``."""
        self.is_training = False
        self.is_compiled = False
        self.inputs = FunctionInputs({})
        self.placed: dict[str, str] | None = None
        self.graph = graph

    @contextlib.contextmanager
    def noting_placement(self) -> Iterator[None]:
        """Note where TensorFlow puts the function's ops in a call inside the block."""
        if self.placed is not None:
            yield
            return
        from tensorflow.python.eager import context  # noqa: PLC0415

        running = context.context()
        running.enable_graph_collection()
        try:
            yield
            graphs = running.export_run_metadata().function_graphs
            self.placed = {
                node: device
                for graph in graphs
                for node, device in placed_nodes(graph.partition_graphs)
            }
        finally:
            running.disable_graph_collection()


class FunctionCall:
    """A call that the program makes.

    Attributes:
        known: What is known of the function.
        number: Which call of the training step it is, counted from 1.
    """

    def __init__(
        self,
        known: KnownFunction,
        arguments: Sequence[Any],
        run: Callable[[list[Any]], Any],
        number: int,
    ) -> None:
        """Describe a call before it is made.

        Args:
            known: What is known of the function.
            arguments: The tensors that are passed, what the function captured
                included.
            run: Makes the call, given these.
            number: Which call of the training step it is, counted from 1.
        """
        self.known = known
        self.number = number
        self._arguments = list(arguments)
        self._run = run

    def make(self) -> Any:
        """Make the call and return its result."""
        return self._run(self._arguments)

    def copied(self, *, is_made: bool) -> Snapshot | None:
        """Return the call with copies of what it passes.

        Of an iterator a batch is taken, and the call passes one that still has it:
        whatever goes wrong here, the program misses nothing.

        Args:
            is_made: Whether the call will be made.

        Returns:
            None when an iterator has nothing left: the call ends as it would.

        Raises:
            CaptureError: A batch would be lost, as the call will not be made; or a
                variable has no value yet.
        """
        inputs = self.known.inputs
        tensors, variables, batches = {}, {}, {}
        devices = {i: _device_of(each) for i, each in enumerate(self._arguments)}
        copying = () if inputs.obstacle else enumerate(self._arguments)
        for position, argument in copying:
            handle = inputs.handles.get(position)
            if handle is None:
                tensors[position] = array_of(argument)
            elif handle.kind is HandleKind.VARIABLE:
                variables[position] = value_of(argument)
            elif handle.kind is HandleKind.ITERATOR:
                if not is_made:
                    raise CaptureError(
                        f"{self.known.graph.name}: expected a batch, found an "
                        "iterator, from which one would be lost; pass next(iterator)"
                    )
                taken = take_batch(argument, handle.consumer)
                if taken is None:
                    return None
                batch, self._arguments[position] = taken
                batches[position] = [array_of(each) for each in batch]
        values = InputValues(tensors, variables, batches, devices)
        return Snapshot(self.number, self.known, self.known.graph, values)


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot:
    """A call that can be run again.

    Attributes:
        number: Which call of the training step it was, counted from 1.
        known: What is known of the function.
        graph: Its graph, kept alive.
        values: Copies of what it was called with.
    """

    number: int
    known: KnownFunction
    graph: Any
    values: InputValues

    def finished(self) -> TracedStep:
        """Return the call run again and traced, or its placement without times.

        Raises:
            CaptureError: Neither can be had.
        """
        flat = flatten(self.graph, self.known.inputs.names)
        remarks = _left_out(silence(flat.graph_def))
        if self.graph.name.startswith("__backward_"):
            remarks.append(
                "this is the backward pass of a tf.function alone: put the whole step, "
                "the GradientTape with it, into one tf.function to capture all of it"
            )
        reason = self.known.inputs.obstacle
        if flat.is_compiled or self.known.is_compiled:
            remarks.append(
                "training compiles it with XLA as a whole, where ops have no device of "
                "their own; here it runs op by op"
            )
        if not reason:
            try:
                step = replay(flat, self.known.inputs, self.values, self.number)
            except Exception as error:  # noqa: BLE001 - the placement is known still
                reason = f"the replay failed with {one_line(error)}"
            else:
                return self._with_facts(step, flat, remarks, is_replayed=True)
        step = self._placement_only(flat, reason)
        return self._with_facts(step, flat, [_no_times(reason)], is_replayed=False)

    def _placement_only(self, flat: FlatGraph, reason: str) -> TracedStep:
        if not self.known.placed:
            raise CaptureError(
                f"{self.graph.name}: expected to run the function again, found that "
                f"{reason}; its placement is told in its first call only, which was "
                "not watched"
            )
        return TracedStep(
            graph=imported(flat, self.known.inputs, self.values.devices),
            metadata=b"",
            number=self.number,
            fetches=flat.targets,
            feeds=(),
            devices=_logical_devices(),
            soft_placement=True,
            config="",
            duration_us=0,
        )

    def _with_facts(
        self,
        step: TracedStep,
        flat: FlatGraph,
        remarks: list[str],
        *,
        is_replayed: bool,
    ) -> TracedStep:
        facts = FunctionFacts(
            name=self.graph.name,
            flat=flat,
            placed=self.known.placed or {},
            remarks=tuple(remarks),
            is_replayed=is_replayed,
        )
        return dataclasses.replace(step, function=facts)


def _left_out(silenced: Mapping[str, int]) -> list[str]:
    if not silenced:
        return []
    counts = (format_count(n, f"{kind} op") for kind, n in sorted(silenced.items()))
    return [
        f"not run again, as it would be printed or logged twice: {', '.join(counts)}"
    ]


def _no_times(reason: str) -> str:
    return f"this run has no times, for the function could not be run again: {reason}"


def _logical_devices() -> tuple[DeviceRecord, ...]:
    from tensorflow.python.eager import context  # noqa: PLC0415

    devices: Sequence[Any] = context.context().list_logical_devices()
    return tuple(DeviceRecord(f"{_TASK}{device.name}") for device in devices)


def _device_of(tensor: Any) -> str:
    return str(getattr(tensor, "device", "") or "")
