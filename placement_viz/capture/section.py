"""What a timeline leaves out: the graph, its placement and how the step was run."""

from __future__ import annotations

import os
import platform
import runpy
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from placement_viz import schema
from placement_viz.capture.program import PACKAGE_FOLDER, Program
from placement_viz.capture.tracing import TracedStep
from placement_viz.schema import DeviceRecord, GraphNode, RunSection
from placement_viz.version import __version__

__all__ = ["run_section"]

#: Packages whose frames are never the line a person wrote.
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "tf_slim")

#: Op types with which partitions talk to each other; no part of the program.
_TRANSFERS = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})


def run_section(
    step: TracedStep, metadata: Any, forward_ops: Mapping[str, str], program: Program
) -> RunSection:
    """Return everything about ``step`` that its timeline does not say.

    Args:
        step: The traced run.
        metadata: Its RunMetadata.
        forward_ops: Gradient op to the op it differentiates.
        program: What was run.
    """
    import tensorflow as tf  # noqa: PLC0415

    sources = _Sources(program.folder)
    nodes = tuple(
        _node(op, forward_ops.get(op.name), sources)
        for op in step.graph.get_operations()
    )
    return RunSection(
        schema=schema.SCHEMA_VERSION,
        tool=f"placement_viz {__version__}",
        tensorflow=tf.__version__,
        python=platform.python_version(),
        machine=_machine(),
        command=(program.script, *program.arguments),
        step=step.number,
        fetches=step.fetches,
        feeds=step.feeds,
        soft_placement=step.soft_placement,
        devices=step.devices,
        nodes=nodes,
        kernels=_kernels(nodes, step.devices),
        placed=_placed(metadata.partition_graphs),
        tensor_bytes=_tensor_bytes(metadata.step_stats),
        sources=tuple(sources.lines),
        traced_step_us=step.duration_us,
    )


class _Sources:
    """The lines of the program that created ops, each listed once."""

    def __init__(self, folder: Path) -> None:
        self.lines: dict[str, int] = {}
        self._folder = folder
        self._foreign = (
            PACKAGE_FOLDER,
            runpy.__file__,
            "<frozen ",
            *_framework_folders(),
        )
        self._shown: dict[str, str | None] = {}

    def position(self, op: Any) -> int | None:
        """Return the position of the line that created ``op``, None if not known."""
        for frame in _frames_innermost_first(op):
            file = self._show(frame.filename)
            if file is not None:
                line = f"{file}:{frame.lineno}"
                return self.lines.setdefault(line, len(self.lines))
        return None

    def _show(self, file: str) -> str | None:
        """Return how a file of the program is shown; None for any other file."""
        if file not in self._shown:
            self._shown[file] = (
                None if file.startswith(self._foreign) else self._name(file)
            )
        return self._shown[file]

    def _name(self, file: str) -> str:
        path = Path(file).resolve()
        if path.is_relative_to(self._folder):
            return path.relative_to(self._folder).as_posix()
        return path.name


def _framework_folders() -> Iterable[str]:
    for name in _FRAMEWORKS:
        # Not tensorflow.__file__ alone: Keras is loaded lazily and may be absent.
        for folder in getattr(sys.modules.get(name), "__path__", ()):
            yield str(folder).rstrip(os.sep) + os.sep


def _frames_innermost_first(op: Any) -> Sequence[Any]:
    stack = op.traceback
    if stack is None:
        return ()
    # Leaves out TensorFlow's own frames, which are most of them, and is read at
    # native speed.
    user_frames = getattr(stack, "get_user_frames", None)
    frames = list(user_frames() if user_frames else stack)
    return frames[::-1]


def _node(op: Any, forward: str | None, sources: _Sources) -> GraphNode:
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
        source=sources.position(op),
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


def _placed(partition_graphs: Iterable[Any]) -> dict[str, tuple[str, ...]]:
    members: dict[str, list[str]] = {}
    for partition in partition_graphs:
        for node in partition.node:
            if node.op not in _TRANSFERS:
                members.setdefault(node.device, []).append(node.name)
    return {device: tuple(found) for device, found in members.items()}


def _tensor_bytes(step_stats: Any) -> dict[str, int]:
    """Return tensor to its size; of a tensor made several times the largest."""
    sizes: dict[str, int] = {}
    for device in step_stats.dev_stats:
        for stats in device.node_stats:
            for output in stats.output:
                description = output.tensor_description.allocation_description
                if description.requested_bytes > 0:
                    tensor = f"{stats.node_name}:{output.slot}"
                    sizes[tensor] = max(
                        sizes.get(tensor, 0), description.requested_bytes
                    )
    return sizes


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
