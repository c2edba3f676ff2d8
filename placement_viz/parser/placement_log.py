"""What ``log_device_placement`` prints: where ops were placed, and no times.

Lines of every era are read, wherever they stand in a log and whatever stands in front
of them; the rest of the log is counted in ``Trace.skipped``.

Source:
    ``mm: (MatMul): /job:…/device:GPU:0`` on standard output and, in the log, up to
    TensorFlow 1.x without the second colon (``core/common_runtime/placer.cc``, 1.0 to
    2.21); ``mm: /job:…/gpu:0`` (``simple_placer.cc``, 0.5 to 0.8); ``Executing op
    MatMul in device /job:…`` (``core/common_runtime/eager/execute.cc``, 2.x).
"""

from __future__ import annotations

import array
import collections
import functools
import io
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import polars as pl

from placement_viz import names
from placement_viz.errors import NoOpsError
from placement_viz.model import Graph, Notice, RowKind, Run, Trace
from placement_viz.parser.table import Row, ops_table

__all__ = ["is_placement_log", "read_placement_log"]

# A name begins where none goes on, so that no text is read twice.
_NAME = rb"(?<![\w.\\/>-])[\w.][\w.\\/>-]*"
_DEVICE = rb"/job:[\w.-]+(?:/replica:\d+)?/task:\d+/(?:device:)?[A-Za-z_]+:\d+"
_LINE = re.compile(
    rb"(?:(?P<node>" + _NAME + rb"): \((?P<type>[\w.>]+)\):? ?"
    rb"|Executing op (?P<executed>[\w.>/-]+) in device "
    rb"|(?:^|placer\.cc:\d+\] )(?P<bare>" + _NAME + rb"): )"
    rb"(?P<device>" + _DEVICE + rb")\s*$"
)
_DEVICE_MARK = b"/job:"
#: What comes in and goes out, in the graph of a function.
_ARGUMENTS = frozenset({"_Arg", "_DeviceArg", "_DeviceRetval", "_Retval"})


class _Op(NamedTuple):
    """An op as a line has it; the type is empty where the line has none."""

    name: str
    op_type: str
    device: str


def is_placement_log(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` tells where ops were placed."""
    if _DEVICE_MARK not in head or b"\0" in head:
        return False
    return any(_match(line) for line in io.BytesIO(head))


def read_placement_log(data: bytes, *, source: str) -> Run:
    """Return the run in a log: ops with a device that start at 0 and last no time.

    A node is in it once for each device it was placed on, however often that was
    logged, and an op that was executed eagerly each time. The run's graph has no nodes,
    for nothing is known of what they take and ask for, and of ``placed`` only what the
    log is of one mind about.

    Args:
        data: The log.
        source: What to call it in messages and results.

    Raises:
        NoOpsError: No line of it says where an op was placed.
    """
    log = _Log()
    for line in io.BytesIO(data):
        log.add(line)
    ops = log.table()
    if ops.is_empty():
        raise NoOpsError(
            f"{source}: no line says where an op was placed; set log_device_placement "
            "and keep what the program prints"
        )
    rows = {device: Row(device, RowKind.EXECUTOR) for device in ops["row"].unique()}
    notice = Notice(
        "no-times",
        "a log of log_device_placement says where ops were placed, not when they ran "
        "nor what they take: there are no times, so no cost is given, and an explicit "
        "tf.device cannot be told from none",
    )
    trace = Trace(ops=ops_table(ops, rows)[0], skipped=log.skipped(), notices=(notice,))
    graph = Graph(nodes={}, placed=log.placed())
    return Run(source=source, format="placement-log", trace=trace, graph=graph)


class _Log:
    """What the lines that were read so far say."""

    def __init__(self) -> None:
        self._typed: dict[_Op, None] = {}
        self._bare: dict[_Op, None] = {}
        self._executed: dict[_Op, int] = {}
        # A program may execute an op a million times: a number for each.
        self._executions = array.array("q")
        self._skipped: collections.Counter[str] = collections.Counter()

    def add(self, line: bytes) -> None:
        """Add what a line says."""
        match = _match(line)
        device = _full_device(match["device"]) if match else ""
        if match is None or not device:
            self._skipped["other line"] += bool(line.strip())
            return
        if match["executed"]:
            op_type = match["executed"].decode()
            op = _Op(op_type, op_type, device)
            number = self._executed.setdefault(op, len(self._executed))
            self._executions.append(number)
            return
        name = (match["node"] or match["bare"]).decode()
        op = _Op(name, (match["type"] or b"").decode(), device)
        known = self._typed if op.op_type else self._bare
        if op in known:
            self._skipped["repeated line"] += 1
        known[op] = None

    def table(self) -> pl.DataFrame:
        """Return the columns of what ran or was placed."""
        executed = _columns(self._executed)
        # An op that is executed eagerly is placed first, in a graph of its own.
        placed = _columns(op for op in self._placements() if op not in self._executed)
        numbers = pl.Series(self._executions, dtype=pl.Int64)
        return pl.concat([placed, executed[numbers]])

    def placed(self) -> Mapping[str, str]:
        """Return node to device, for the nodes with one device.

        Nodes of functions bear the same name in several. Where ops are executed
        eagerly each is placed in a graph of its own, as a node that is called like its
        type between others for its arguments: no names of the program's.
        """
        placements = list(self._placements())
        is_eager = any(op.op_type in _ARGUMENTS for op in placements)
        devices: dict[str, set[str]] = {}
        for op in placements:
            if not is_eager or op.op_type not in {op.name, *_ARGUMENTS}:
                devices.setdefault(op.name, set()).add(op.device)
        return {
            name: next(iter(found))
            for name, found in devices.items()
            if len(found) == 1
        }

    def skipped(self) -> Mapping[str, int]:
        """Return kind of line that holds no op to how many there were."""
        counts = self._skipped.copy()
        if self._typed or self._executed:
            counts["other line"] += len(self._bare)
        return dict(+counts)

    def _placements(self) -> Iterable[_Op]:
        """Return the nodes that were placed, each once for a device.

        No TensorFlow writes lines with types and lines without: where there are types,
        the others are something that the program prints.
        """
        return self._bare if not (self._typed or self._executed) else self._typed


def _match(line: bytes) -> re.Match[bytes] | None:
    return _LINE.search(line) if _DEVICE_MARK in line else None


@functools.lru_cache(maxsize=256)
def _full_device(text: bytes) -> str:
    """Return the device in canonical spelling; empty when it is not one alone."""
    device = names.canonical_device(text.decode())
    return device if names.is_full_device(device) else ""


def _columns(ops: Iterable[_Op]) -> pl.DataFrame:
    found = list(ops)
    return pl.DataFrame(
        {
            "name": [op.name for op in found],
            "op_type": [op.op_type for op in found],
            "row": [op.device for op in found],
        },
        schema={"name": pl.String, "op_type": pl.String, "row": pl.String},
    ).with_columns(lane=pl.lit(0), start_us=pl.lit(0), duration_us=pl.lit(0))
