"""TensorBoard's event files (``events.out.tfevents.*``); needs TensorFlow.

A training program that logs to TensorBoard may leave there the RunMetadata of traced
steps (``FileWriter.add_run_metadata``) and the graph (``FileWriter(…, graph)``): all
that a run is made of.

Source:
    Framing: ``tensorflow/core/lib/io/record_writer.h``: length (8 bytes, little
    endian), its checksum (4), data, its checksum (4). Each record is an Event.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from placement_viz.errors import TraceFormatError
from placement_viz.model import Graph, Notice
from placement_viz.parser.checksum import masked_crc32c
from placement_viz.parser.graphdef import graph_of
from placement_viz.units import format_count

__all__ = ["EventFile", "is_event_file", "parse_event_file"]

_LENGTH_BYTES = 8
_SUM_BYTES = 4
_HEAD_BYTES = _LENGTH_BYTES + _SUM_BYTES


@dataclasses.dataclass(frozen=True, eq=False)
class EventFile:
    """What an event file says about training steps.

    Attributes:
        steps: Tag and serialised RunMetadata of each traced step, in the order of the
            file; empty when none was logged.
        graph: The graph that was logged last; None without one.
        skipped: Kind of event that is neither, to how many there were.
        notices: What could not be read.
    """

    steps: tuple[tuple[str, bytes], ...]
    graph: Graph | None = None
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


class _DamageError(Exception):
    """What is wrong with a record, and where."""


def is_event_file(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` consists of records.

    The checksum of the first record's length tells, so no other file is taken for one.
    """
    length, checksum = head[:_LENGTH_BYTES], head[_LENGTH_BYTES:_HEAD_BYTES]
    return len(head) >= _HEAD_BYTES and _is_sum(checksum, length)


def parse_event_file(data: bytes, *, source: str) -> EventFile:
    """Return what the events in ``data`` say about training steps.

    A file that was cut off, as one is that is still written to, is read up to the cut,
    and a damaged one up to the damage, for nothing says where the next record begins.

    Args:
        data: The content of an event file.
        source: What to call it in messages.

    Raises:
        TraceFormatError: No event can be read, or TensorFlow is not installed.
    """
    try:
        from tensorflow.core.util import event_pb2  # noqa: PLC0415 - heavy
    except ImportError as error:
        text = (
            f"{source}: expected TensorFlow to read an event file with, found none; "
            "install tensorflow, or open the timeline that it writes of a step"
        )
        raise TraceFormatError(text) from error
    found = _Found()
    notices: list[Notice] = []
    try:
        for record in _records(data):
            found.add(record, event_pb2.Event)
    except _DamageError as damage:
        if not found.n_events:
            text = f"{source}: expected an event file, found {damage}; copy it again"
            raise TraceFormatError(text) from damage
        notices.append(
            Notice(
                "events-damaged",
                f"{damage}: only the {format_count(found.n_events, 'event')} before "
                "that could be read",
            )
        )
    if not found.n_events:
        text = (
            f"{source}: expected events of TensorBoard, found records of another kind"
        )
        raise TraceFormatError(text)
    return EventFile(
        steps=tuple(found.steps),
        graph=found.graph(),
        skipped=dict(found.skipped),
        notices=tuple(notices),
    )


class _Found:
    """What the records that were read so far say."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, bytes]] = []
        self.skipped: collections.Counter[str] = collections.Counter()
        self.n_events = 0
        self._graphs: dict[str, bytes] = {}

    def add(self, record: bytes, kind: Any) -> None:
        """Add a record; ``kind`` is the class of events."""
        from google.protobuf import message  # noqa: PLC0415 - heavy

        try:
            event = kind.FromString(record)
        except message.DecodeError:
            self.skipped["record of another kind"] += 1
            return
        what = event.WhichOneof("what")
        if what is None:
            self.skipped["event of an unknown kind"] += 1
            return
        self.n_events += 1
        if what == "tagged_run_metadata":
            step = event.tagged_run_metadata
            self.steps.append((step.tag, step.run_metadata))
        elif what in {"graph_def", "meta_graph_def"}:
            self._graphs[what] = getattr(event, what)
        else:
            self.skipped[f"{what} event"] += 1

    def graph(self) -> Graph | None:
        """Return the last graph that can be read; a GraphDef before a MetaGraphDef.

        A MetaGraphDef may have been written for a part of the graph.
        """
        from google.protobuf import message  # noqa: PLC0415 - heavy
        from tensorflow.core.framework import graph_pb2  # noqa: PLC0415 - heavy
        from tensorflow.core.protobuf import meta_graph_pb2  # noqa: PLC0415 - heavy

        try:
            if data := self._graphs.get("graph_def"):
                return _with_nodes(graph_pb2.GraphDef.FromString(data))
            if data := self._graphs.get("meta_graph_def"):
                meta = meta_graph_pb2.MetaGraphDef.FromString(data)
                return _with_nodes(meta.graph_def)
        except message.DecodeError:
            # Its checksum is right, so it was written so.
            self.skipped["graph that cannot be read"] += 1
        return None


def _with_nodes(graph_def: Any) -> Graph | None:
    return graph_of(graph_def) if graph_def.node else None


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the content of each record.

    Raises:
        _DamageError: A checksum is wrong or the end is missing.
    """
    position = 0
    while position < len(data):
        length = data[position : position + _LENGTH_BYTES]
        start = position + _HEAD_BYTES
        if start > len(data):
            raise _DamageError(f"the end of the file in the record at byte {position}")
        if not _is_sum(data[position + _LENGTH_BYTES : start], length):
            raise _DamageError(f"damage at byte {position}")
        end = start + int.from_bytes(length, "little")
        if end + _SUM_BYTES > len(data):
            raise _DamageError(f"the end of the file in the record at byte {position}")
        record = data[start:end]
        if not _is_sum(data[end : end + _SUM_BYTES], record):
            raise _DamageError(f"damage in the record at byte {position}")
        yield record
        position = end + _SUM_BYTES


def _is_sum(checksum: bytes, data: bytes) -> bool:
    return masked_crc32c(data) == int.from_bytes(checksum, "little")
