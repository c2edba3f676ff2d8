"""What ops allocated, and how large their tensors are, as FULL_TRACE recorded it."""

from __future__ import annotations

import collections
from typing import Any

from placement_viz.schema import Allocation

__all__ = ["find_allocations", "tensor_sizes"]


def tensor_sizes(step_stats: Any) -> dict[str, int]:
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


def find_allocations(
    step_stats: Any,
) -> dict[str, dict[str, tuple[Allocation, ...]]]:
    """Return device to allocator to what ops took of it, in order of time.

    An op's memory may be given back long after the op, with its last consumer:
    TensorFlow records that with the op that took it. Variables are not among it, as a
    step does not allocate them.
    """
    found: dict[str, dict[str, list[Allocation]]] = {}
    for device in step_stats.dev_stats:
        for stats in device.node_stats:
            for memory in stats.memory:
                taken = found.setdefault(device.device, {}).setdefault(
                    memory.allocator_name, []
                )
                taken.extend(_paired(stats.node_name, memory.allocation_records))
    return {
        device: {
            name: tuple(sorted(taken, key=lambda each: (each.at_us, each.op)))
            for name, taken in allocators.items()
            if taken
        }
        for device, allocators in found.items()
        if any(allocators.values())
    }


def _paired(op: str, records: Any) -> list[Allocation]:
    """Return the allocations of an op, each with the record that gives it back.

    Records do not say which allocation they end: of several of one size it is the
    first that is open.
    """
    freed: dict[int, collections.deque[int]] = {}
    for record in sorted(records, key=lambda record: record.alloc_micros):
        if record.alloc_bytes < 0:
            times = freed.setdefault(-record.alloc_bytes, collections.deque())
            times.append(record.alloc_micros)
    taken = []
    for record in records:
        if record.alloc_bytes > 0:
            times = freed.get(record.alloc_bytes, collections.deque())
            end_us = times.popleft() if times else None
            taken.append(
                Allocation(op, record.alloc_micros, record.alloc_bytes, end_us)
            )
    return taken
