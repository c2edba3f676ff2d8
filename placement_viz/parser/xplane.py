"""What the profiler of TensorFlow 2 and JAX writes (``*.xplane.pb``); needs TensorFlow.

An XSpace holds planes (a device, the host), a plane lines (a stream, a thread), and a
line events. The profiler also derives lines from others: steps, modules, scopes. They
repeat what the streams show, so they are counted and not shown; of the host only the
ops are shown, and not the calls around them.

No event says which logical device its op was placed on.

Source:
    ``tsl/profiler/protobuf/xplane.proto`` and ``xla/tsl/profiler/utils``
    (``xplane_schema``, ``tf_op_utils``), as in TensorFlow 2.21.
"""

from __future__ import annotations

import collections
import operator
import re
from typing import Any

import polars as pl

from placement_viz.errors import NoOpsError, TraceFormatError
from placement_viz.model import Notice, RowKind, Run, Trace
from placement_viz.names import canonical_device
from placement_viz.parser.marks import Marks
from placement_viz.parser.nesting import depths
from placement_viz.parser.table import Row, ops_table
from placement_viz.parser.xplane_planes import (
    COPIES,
    Plane,
    is_copy,
    lines_of_ops,
    op_behind,
    op_of_host,
    part_of_device,
)
from placement_viz.parser.xplane_steps import find_marks, start_ps
from placement_viz.units import format_count

__all__ = ["is_xplane", "read_xplane"]

#: The first plane that is not empty: its number, which may be left out, and its name,
#: after one byte that says how long it is. Messages of other kinds that begin with a
#: message have another one inside it, or a text that is no name of a plane.
_HEAD = re.compile(
    rb"(?:\n\x00)*\n[\x80-\xff]{0,9}[\x00-\x7f]"
    rb"(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x05-\x7f]"
    rb"(?:/host:|/device:|#Chip|Host CPUs|Task Environment|Syscalls|ScopeRangeIdTree)"
)
_PS_PER_US = 1_000_000

_SCHEMA = pl.Schema(
    {
        "name": pl.String(),
        "op_type": pl.String(),
        "row": pl.String(),
        "lane": pl.Int32(),
        "start_us": pl.Int64(),
        "duration_us": pl.Int64(),
        "step": pl.Int32(),
    }
)


def is_xplane(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is an XSpace.

    Args:
        head: A piece of it, unpacked.
    """
    return _HEAD.match(head) is not None


def read_xplane(data: bytes, *, source: str) -> Run:
    """Return the run in a profiler's XSpace, which has no row that proves a placement.

    Kernels are ``STREAM`` rows, copies and memsets ``MEMCPY`` rows whose op type is
    the kind of copy, and ops of the host ``OTHER`` rows with a lane for each thread.

    Args:
        data: The whole message, unpacked.
        source: What to call it in messages and results.

    Raises:
        TraceFormatError: It is damaged, or TensorFlow is not installed.
        NoOpsError: No op ran on a device or on the host.
    """
    planes = [Plane(message) for message in _space(data, source).planes]
    ops = _Ops()
    for plane, marks in zip(planes, find_marks(planes), strict=True):
        ops.add(plane, marks)
    table = ops.table()
    if table.is_empty():
        n_events = format_count(sum(ops.skipped.values()), "event")
        raise NoOpsError(
            f"{source}: no op among {n_events} of {format_count(len(planes), 'plane')};"
            " profile while a step runs, with device and host tracing on"
        )
    table, origin_us = ops_table(table, ops.rows)
    notice = Notice(
        "no-placement",
        "a profiler's xplane records devices of kernels, not of logical ops, so no "
        "gradient is judged; `placement-viz capture` records a step that can be",
    )
    trace = Trace(table, origin_us, dict(ops.skipped), (notice,))
    return Run(source=source, format="xplane", trace=trace)


def _space(data: bytes, source: str) -> Any:
    """Return the XSpace in ``data``."""
    try:
        from google.protobuf import message  # noqa: PLC0415 - heavy
        from tensorflow.tsl.profiler.protobuf import (  # noqa: PLC0415 - heavy
            xplane_pb2,
        )
    except ImportError as error:
        text = (
            f"{source}: expected TensorFlow to read a profiler's xplane with, found "
            "none; install tensorflow"
        )
        raise TraceFormatError(text) from error
    space = xplane_pb2.XSpace()
    try:
        space.ParseFromString(data)
    except message.DecodeError as error:
        text = (
            f"{source}: expected a profiler's xplane, found damage; copy the file "
            "again, or profile fewer steps if it is larger than 2 GiB"
        )
        raise TraceFormatError(text) from error
    return space


class _Ops:
    """Ops in columns, as far as they were read.

    Attributes:
        rows: Label of each row to what it says.
        skipped: Kind of event that is no op to how many there were.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.rows: dict[str, Row] = {}
        self.skipped: collections.Counter[str] = collections.Counter()
        self._columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA}
        self._n_lanes = 0

    def add(self, plane: Plane, marks: Marks) -> None:
        """Take in the events of one more plane."""
        is_of_ops = lines_of_ops(line.name for line in plane.lines)
        for line in plane.lines:
            if plane.is_host:
                self._add_line(plane, line, marks)
            elif not plane.is_device:
                self.skipped["other"] += len(line.events)
            elif line.name in is_of_ops:
                self._add_line(plane, line, marks)
            else:
                self.skipped["derived event"] += len(line.events)

    def table(self) -> pl.DataFrame:
        """Return the ops in the order of the file, their steps without gaps."""
        return pl.DataFrame(self._columns, schema=_SCHEMA).with_columns(
            step=pl.col("step").rank("dense") - 1
        )

    def _add_line(self, plane: Plane, line: Any, marks: Marks) -> None:
        """Take in a line that may hold ops."""
        row, copies = self._rows_of(plane, line)
        columns, starts, ends = self._columns, [], []
        for event in line.events:
            label, facts = plane.label(event), plane.facts(event)
            named = op_of_host(label, facts) if plane.is_host else op_behind(facts)
            if plane.is_host and named is None:
                self.skipped["host event"] += 1
                continue
            # What stands for several events has a number of them for a start.
            if event.duration_ps < 0 or event.num_occurrences:
                self.skipped["op without a usable time"] += 1
                continue
            name, op_type = named or (label, "")
            is_copied = not plane.is_host and (row == copies or is_copy(label))
            columns["name"].append(name)
            columns["op_type"].append(label if is_copied else op_type)
            columns["row"].append(copies if is_copied else row)
            begin_ps = start_ps(line, event)
            columns["step"].append(marks.step_at(begin_ps, facts.get("group_id")))
            # Both ends are rounded, and not the duration, so that ops that follow
            # each other do not overlap.
            starts.append(_microseconds(begin_ps))
            ends.append(_microseconds(begin_ps + event.duration_ps))
        columns["start_us"] += starts
        columns["duration_us"] += map(operator.sub, ends, starts)
        nested = depths(starts, ends)
        columns["lane"] += [self._n_lanes + depth for depth in nested]
        self._n_lanes += max(nested, default=-1) + 1

    def _rows_of(self, plane: Plane, line: Any) -> tuple[str, str]:
        """Return the labels of the rows for a line's ops and for its copies."""
        if plane.is_host:
            self.rows[plane.name] = Row(plane.name, RowKind.OTHER)
            return plane.name, plane.name
        device, (part, kind) = (
            canonical_device(plane.name),
            part_of_device(line.name or str(line.id)),
        )
        row, copies = f"{plane.name}/{part}", f"{plane.name}/{COPIES}"
        self.rows |= {row: Row(device, kind), copies: Row(device, RowKind.MEMCPY)}
        return row, copies


def _microseconds(time_ps: int) -> int:
    return (time_ps + _PS_PER_US // 2) // _PS_PER_US
