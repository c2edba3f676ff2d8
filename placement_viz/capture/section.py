"""What a timeline leaves out: the graph, its placement and how the step was run."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from placement_viz import names, schema
from placement_viz.capture.bodies import inner_forward_ops
from placement_viz.capture.gradients import Forward, GradientNotes
from placement_viz.capture.inlining import FlatGraph
from placement_viz.capture.machine import described, machine_record
from placement_viz.capture.program import Program
from placement_viz.capture.sources import SourceLines
from placement_viz.capture.tracing import TracedStep, placed_nodes
from placement_viz.schema import OWN_SCOPE, DeviceRecord, GraphNode, RunSection
from placement_viz.step_stats import find_allocations, find_copies, tensor_sizes
from placement_viz.units import format_count
from placement_viz.version import __version__

__all__ = ["lacks_kernels", "run_section"]

_MADE_UP = re.compile(r"/_\d+$")
_BACKWARD_NAME = re.compile(r"gradients/(.+)_grad/")


def run_section(
    step: TracedStep, metadata: Any, notes: GradientNotes, program: Program
) -> RunSection:
    """Return everything about ``step`` that its timeline does not say.

    Args:
        step: The traced run.
        metadata: Its RunMetadata.
        notes: What was noted while its gradients were built.
        program: What was run.
    """
    import tensorflow as tf  # noqa: PLC0415

    sources = SourceLines(program.folder)
    known = _GradientFacts(notes)
    nodes = tuple(_nodes(step, known, sources))
    facts = step.function
    placed = list(placed_nodes(metadata.partition_graphs))
    if facts is not None and not facts.is_replayed:
        placed = list(facts.placed.items())
    machine = machine_record()
    return RunSection(
        schema=schema.SCHEMA_VERSION,
        tool=f"placement_viz {__version__}",
        tensorflow=tf.__version__,
        python=platform.python_version(),
        machine=f"{machine.system}, {machine.cores} cores",
        hardware=machine,
        command=program.command,
        step=step.number,
        fetches=step.fetches,
        feeds=step.feeds,
        config=step.config,
        soft_placement=step.soft_placement,
        devices=described(step.devices),
        nodes=nodes,
        kernels=_kernels(nodes, step.devices),
        placed=_by_device(placed),
        inner_forward=inner_forward_ops(
            (node for node, _ in placed),
            _lookup(step),
            known.forward_of,
        ),
        tensor_bytes=tensor_sizes(metadata.step_stats),
        allocations=find_allocations(metadata.step_stats),
        copies=find_copies(metadata.step_stats),
        sources=tuple(sources.lines),
        step_times_us=step.times_us,
        traced_step_us=step.duration_us,
        function=facts.name if facts else "",
        is_replayed=bool(facts and facts.is_replayed),
        remarks=tuple(_remarks(step, metadata, dict(placed))),
    )


def _remarks(
    step: TracedStep, metadata: Any, placed: Mapping[str, str]
) -> Iterator[str]:
    """Yield what a reader must know of how the step was traced."""
    if lacks_kernels(step.devices, metadata.step_stats):
        yield (
            "the GPUs' kernels were not recorded, only when they were launched: CUPTI "
            "is missing or this user may not profile; put libcupti on LD_LIBRARY_PATH, "
            "or let the driver profile for everybody "
            "(NVreg_RestrictProfilingToAdminUsers=0)"
        )
    facts = step.function
    if facts is None:
        return
    yield from facts.remarks
    if facts.is_replayed:
        yield from _moved_by_replay(facts.placed, placed)


def lacks_kernels(devices: Iterable[DeviceRecord], step_stats: Any) -> bool:
    """Return whether GPUs were used and none of their kernels was recorded.

    Args:
        devices: The session's devices.
        step_stats: What FULL_TRACE recorded.
    """
    has_gpu = any("/device:GPU:" in device.name for device in devices)
    rows = [device.device for device in step_stats.dev_stats]
    is_used = any("GPU" in row for row in rows)
    return has_gpu and is_used and not any("stream" in row for row in rows)


def _moved_by_replay(
    placed: Mapping[str, str], here: Mapping[str, str]
) -> Iterator[str]:
    """Yield what the replay (``here``) has elsewhere than the program's own call."""
    # Numbers that TensorFlow makes up on the way differ from run to run.
    common = [node for node in here if node in placed and not _MADE_UP.search(node)]
    moved = [node for node in common if here[node] != placed[node]]
    if moved:
        yield (
            f"{len(moved)} of {format_count(len(common), 'op')} ran on another device "
            f"in the program's own call, such as {moved[0]} on "
            f"{names.short_device(placed[moved[0]])}"
        )


def _lookup(step: TracedStep) -> Callable[[str], Any]:
    """Return what gives an operation, as the program made it, by its name."""
    if step.function is not None:
        return step.function.flat.origins.get
    operations = {op.name: op for op in step.graph.get_operations()}
    return operations.get


def _nodes(
    step: TracedStep, known: _GradientFacts, sources: SourceLines
) -> Iterator[GraphNode]:
    """Yield the nodes of the step's graph, with what is known of how they were made.

    The graph of a function is a copy; the program's own ops know where they come from.
    """
    flat = step.function.flat if step.function else None
    origins = flat.origins if flat else {}
    own = {op.name for op in step.graph.get_operations()}
    for op in step.graph.get_operations():
        if op.name.startswith(OWN_SCOPE):
            continue
        origin = origins.get(op.name) if flat else op
        if origin is None:
            yield _node(op)
            continue
        forward = known.forward_of(origin)
        if flat is None:
            name = forward.name if forward else None
        else:
            name = _flat_name(forward, flat, op.name, origin.name)
        yield _node(
            op,
            forward=name if name in own else None,
            source=sources.position(origin.traceback),
            call=sources.position(known.stack_of(origin)),
        )


def _flat_name(
    forward: Forward | None, flat: FlatGraph, name: str, inner_name: str
) -> str | None:
    """Return what the forward op of a gradient op is called in the flat graph.

    Args:
        forward: What was noted of it; None when nothing was.
        flat: The flat graph.
        name: The gradient op.
        inner_name: What it is called in the function that it comes from.
    """
    scope = flat.scopes[name]
    caller = flat.callers.get(scope.rstrip("/"))
    if forward is None:
        # A backward pass that was built before the capture began tells by its names.
        found = _BACKWARD_NAME.match(inner_name) if caller else None
        return f"{caller}/{found[1]}" if found else None
    return f"{caller}/{forward.name}" if forward.is_elsewhere else scope + forward.name


class _GradientFacts:
    """What was noted of gradient ops, looked up graph by graph."""

    def __init__(self, notes: GradientNotes) -> None:
        self._notes = notes
        self._forward: dict[Any, Mapping[str, Forward]] = {}
        self._stacks: dict[Any, Mapping[str, Any]] = {}

    def forward_of(self, op: Any) -> Forward | None:
        if op.graph not in self._forward:
            self._forward[op.graph] = self._notes.forward_ops(op.graph)
        return self._forward[op.graph].get(op.name)

    def stack_of(self, op: Any) -> Any:
        if op.graph not in self._stacks:
            self._stacks[op.graph] = self._notes.call_stacks(op.graph)
        return self._stacks[op.graph].get(op.name)


def _node(
    op: Any,
    *,
    forward: str | None = None,
    source: int | None = None,
    call: int | None = None,
) -> GraphNode:
    groups = (group.decode().removeprefix("loc:@") for group in op.colocation_groups())
    colocate = tuple(groups)
    outputs = op.outputs
    return GraphNode(
        name=op.name,
        op=op.type,
        device=op.device,
        colocate=() if colocate == (op.name,) else colocate,
        inputs=(
            *(tensor.name.removesuffix(":0") for tensor in op.inputs),
            *sorted(f"^{control.name}" for control in op.control_inputs),
        ),
        forward=forward,
        handles=tuple(i for i, each in enumerate(outputs) if _is_handle(each.dtype)),
        dtype=outputs[0].dtype.base_dtype.name if outputs else "",
        source=source,
        call=call,
    )


def _is_handle(dtype: Any) -> bool:
    return bool(dtype.name == "resource" or dtype._is_ref_dtype)  # noqa: SLF001 - TensorFlow has no other way to ask


def _kernels(
    nodes: Iterable[GraphNode], devices: Iterable[DeviceRecord]
) -> dict[str, tuple[str, ...]]:
    """Return op type to the types of device with a kernel for it.

    Only where there is a choice: a session with CPUs alone needs none of it.
    """
    if all("/device:CPU:" in device.name for device in devices):
        return {}
    try:
        from tensorflow.python.framework import kernels  # noqa: PLC0415
    except ImportError:
        return {}
    found = {}
    for op_type in sorted({node.op for node in nodes}):
        registered = kernels.get_registered_kernels_for_op(op_type).kernel
        kinds = {each.device_type for each in registered}
        # DEFAULT is any device; what an optimiser takes apart has no kernel at all.
        if kinds and "DEFAULT" not in kinds:
            found[op_type] = tuple(sorted(kinds))
    return found


def _by_device(placed: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    members: dict[str, list[str]] = {}
    for node, device in placed:
        members.setdefault(device, []).append(node)
    return {device: tuple(found) for device, found in members.items()}
