"""The run file: what ``capture`` writes beside the Chrome trace.

A run file is a timeline that chrome://tracing and Perfetto open, with one more
top-level key, ``placement_viz``, whose value is a :class:`RunSection`. The section
holds what TensorFlow knew and its timeline leaves out: the graph as the program
built it, the device each node was assigned, and how the step was obtained.

Readers accept every section whose ``schema`` they know and ignore unknown keys,
so fields may be added freely and none may be renamed.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "OWN_SCOPE",
    "SCHEMA_VERSION",
    "SECTION",
    "Allocation",
    "CopyRecord",
    "DeviceRecord",
    "GpuRecord",
    "GraphNode",
    "MachineRecord",
    "RunSection",
]

SCHEMA_VERSION = 1
SECTION = "placement_viz"
#: Scope of the nodes that ``capture`` adds to replay a function, to hand its inputs in.
OWN_SCOPE = "placement_viz_inputs/"


class GraphNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node of the graph as the program built it, before any optimiser.

    Attributes:
        name: Unique in the graph.
        op: The op type, such as ``MatMul``.
        device: The requested device, possibly partial; empty when the program
            asked for none.
        colocate: Nodes this one must share a device with (``_class`` without its
            ``loc:@``), in graph order; empty when it is only bound to itself.
        inputs: Tensor names as GraphDef writes them: ``op``, ``op:1``, ``^op``.
        forward: The op whose gradient this node computes, as TensorFlow itself
            noted while building it; None when it computes none, or when that is
            not known.
        handles: Numbers of the outputs that are a resource or a reference: what takes
            one must be where it is.
        dtype: Type of the node's values, such as ``float``; empty when not known.
        source: Position in :attr:`RunSection.sources`; None when not known.
        call: For an op that a gradient call made, the position in
            :attr:`RunSection.sources` of the line with that call.
    """

    name: str
    op: str
    device: str = ""
    colocate: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    forward: str | None = None
    handles: tuple[int, ...] = ()
    dtype: str = ""
    source: int | None = None
    call: int | None = None


class DeviceRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device that the session could have used.

    Attributes:
        name: Full canonical name.
        memory_bytes: Its memory limit; 0 when not known.
        physical: What it is, such as ``NVIDIA V100, pci bus id 0000:00:1e.0``.
    """

    name: str
    memory_bytes: int = 0
    physical: str = ""


class GpuRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A graphics card, as the driver lists it; the order need not be TensorFlow's.

    Attributes:
        name: Its model.
        bus_id: Its address on the PCI bus.
        driver: Version of the driver.
        link_generation: PCI Express generation of its link at the time; cards lower
            it while they have nothing to do. 0 when not known, as below.
        max_link_generation: The highest that card and slot allow.
        link_width: Number of lanes of its link at the time.
        max_link_width: The most that card and slot allow.
    """

    name: str = ""
    bus_id: str = ""
    driver: str = ""
    link_generation: int = 0
    max_link_generation: int = 0
    link_width: int = 0
    max_link_width: int = 0


class MachineRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The machine that a step was captured on.

    Attributes:
        system: Operating system and processor.
        cores: Number of processor cores.
        cuda: CUDA version that TensorFlow was built for; empty when for none.
        cudnn: cuDNN version that TensorFlow was built for; empty when for none.
        gpus: Its graphics cards.
    """

    system: str = ""
    cores: int = 0
    cuda: str = ""
    cudnn: str = ""
    gpus: tuple[GpuRecord, ...] = ()


class Allocation(msgspec.Struct, frozen=True, array_like=True):
    """Memory that an op took, as an array: there are many of them.

    Attributes:
        op: The op.
        at_us: When, by the clock of the trace.
        n_bytes: How much.
        freed_us: When it was given back; None when not in this step.
    """

    op: str
    at_us: int
    n_bytes: int
    freed_us: int | None = None


class CopyRecord(msgspec.Struct, frozen=True, array_like=True):
    """A tensor that was copied from one device to another, as an array.

    Attributes:
        op: The op that made it; empty when not known.
        source: The device it came from; empty when not known.
        target: The device that got it, likewise.
        at_us: When the copy began, by the clock of the trace.
        duration_us: How long it took.
        n_bytes: Its size.
    """

    op: str
    source: str
    target: str
    at_us: int
    duration_us: int
    n_bytes: int


class RunSection(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything about a captured step that its Chrome trace does not say.

    Attributes:
        schema: :data:`SCHEMA_VERSION` at the time of writing.
        tool: Name and version of the writer.
        tensorflow: TensorFlow's version.
        python: Python's version.
        machine: Operating system, processor and number of cores, in words.
        hardware: The same for programs, with graphics cards.
        command: The program and its arguments.
        placement: ``as-is`` or ``colocated``: what was done to the program's own
            gradient placement.
        step: Which run of the training step was traced, counted from 1.
        fetches: What the traced step returned, in order.
        feeds: What it was fed, in order.
        config: The session's ConfigProto as text; empty when it had none.
        soft_placement: Whether the session might move ops whose requested device
            has no kernel for them.
        devices: All devices of the session, in its own order.
        nodes: The graph, in the order of creation.
        kernels: Op type to the types of device that have a kernel for it; only
            recorded where the session has other devices than CPUs.
        placed: Device to the nodes that TensorFlow put there, from the partition
            graphs; includes nodes that only the optimiser made.
        inner_forward: Gradient op inside a loop or branch, by the name it ran under, to
            the op whose gradient it computes; such ops are no nodes of the graph.
        tensor_bytes: Tensor (``op:0``) to its size in this step.
        allocations: Device to the name of its allocator to what ops took of it.
        copies: Tensors that were copied between devices, where that was recorded.
        sources: ``file:line`` strings that :attr:`GraphNode.source` points into.
        step_times_us: Wall times of untraced runs of the same step, oldest first.
        traced_step_us: Wall time of the traced run.
        function: The ``tf.function`` whose call was the step; empty for a
            ``Session.run``.
        is_replayed: Whether that call was run again in a session to be traced. If not,
            there is a placement and no times.
        remarks: What a reader must know of how the step was traced, a sentence each.
    """

    schema: int
    tool: str = ""
    tensorflow: str = ""
    python: str = ""
    machine: str = ""
    hardware: MachineRecord | None = None
    command: tuple[str, ...] = ()
    placement: str = "as-is"
    step: int = 0
    fetches: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    config: str = ""
    soft_placement: bool = False
    devices: tuple[DeviceRecord, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    kernels: dict[str, tuple[str, ...]] = {}
    placed: dict[str, tuple[str, ...]] = {}
    inner_forward: dict[str, str] = {}
    tensor_bytes: dict[str, int] = {}
    allocations: dict[str, dict[str, tuple[Allocation, ...]]] = {}
    copies: tuple[CopyRecord, ...] = ()
    sources: tuple[str, ...] = ()
    step_times_us: tuple[int, ...] = ()
    traced_step_us: int = 0
    function: str = ""
    is_replayed: bool = False
    remarks: tuple[str, ...] = ()
