"""Tensors that crossed devices, as FULL_TRACE recorded it.

The timeline that TensorFlow writes leaves out what was received and how large it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from placement_viz.schema import CopyRecord

__all__ = ["find_copies"]

# The label of what was received is "[1.0MB] [3.1Gb/s] edge_14_mm from /job:ps/… to …"
# (``WorkerCacheLogger::RecordDataTransfer``, 1.x and 2.21).
_RECEIVED = re.compile(r"(?:edge_\d+_)?(\S+) from (\S+) to (\S+)$")
_EDGE = re.compile(r"edge_\d+_(.+?)(?::.*)?$")
# "512 bytes" up to TensorFlow 2.1, "size:512" since.
_SIZE = re.compile(r"(?:^|\s)(\d+) bytes|\bsize:(\d+)")
_COPY = re.compile(r"memcpy", re.IGNORECASE)


def find_copies(step_stats: Any) -> tuple[CopyRecord, ...]:
    """Return the copies between devices whose size was recorded, in order of time."""
    found = [
        copy
        for device in step_stats.dev_stats
        for stats in device.node_stats
        if (copy := _received(stats) or _copied(device.device, stats))
    ]
    # The tracer has each copy on the row of its stream and on that of all copies.
    return tuple(sorted(set(found), key=lambda copy: (copy.at_us, copy.op)))


def _received(stats: Any) -> CopyRecord | None:
    """Return what a process got from another one."""
    if stats.node_name != "RecvTensor":
        return None
    told = _RECEIVED.search(stats.timeline_label)
    size = max(_sizes(stats), default=0)
    if told is None or not size:
        return None
    op, source, target = told.groups()
    return CopyRecord(
        op, source, target, stats.all_start_micros, stats.all_end_rel_micros, size
    )


def _sizes(stats: Any) -> Iterator[int]:
    for output in stats.output:
        yield output.tensor_description.allocation_description.requested_bytes


def _copied(row: str, stats: Any) -> CopyRecord | None:
    """Return what the tracer of a GPU saw copied from it or to it."""
    size = _SIZE.search(stats.timeline_label)
    if not size or not _COPY.search(f"{row} {stats.node_name} {stats.timeline_label}"):
        return None
    edge = _EDGE.match(stats.node_name)
    return CopyRecord(
        edge[1] if edge else "",
        "",
        "",
        stats.all_start_micros,
        stats.all_end_rel_micros,
        int(size[1] or size[2]),
    )
