"""What the lines and events of a profiler's XSpace say, and which of them are ops.

Source:
    ``xplane_schema`` and ``tf_op_utils`` in ``xla/tsl/profiler/utils``, as in
    TensorFlow 2.21.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from placement_viz.model import RowKind
from placement_viz.parser.marks import Fact

__all__ = [
    "COPIES",
    "NAMED_BY",
    "Plane",
    "is_copy",
    "label_of",
    "lines_of_ops",
    "op_behind",
    "op_of_host",
    "part_of_device",
]

#: What the copies of a device are called, as in TensorFlow's own rows.
COPIES = "memcpy"

#: What may name the op behind a kernel, the best first. ``level 0`` is an annotation
#: in profiles of older versions, which had no ``tf_op`` for kernels.
NAMED_BY = ("tf_op", "level 0", "hlo_op")
_FACTS = frozenset({*NAMED_BY, "group_id", "step_num"})
#: What XLA calls a kernel for which it knows no op.
_NO_NAME = "XlaModule"
_UNKNOWN = "unknown"

_STREAM = re.compile(r"[Ss]tream #(\d+)")
#: What ran on a device that shows no streams, such as a TPU.
_XLA_OPS = "XLA Ops"
#: Lines that the profiler makes of others. Beside streams every other line is one.
_DERIVED = frozenset(
    {
        "Async XLA Ops",
        "Framework Name Scope",
        "Framework Ops",
        "Launch Stats",
        "Source code",
        "Steps",
        "TensorFlow Name Scope",
        "TensorFlow Ops",
        "XLA Modules",
        "XLA TraceMe",
    }
)

#: ``name:OpType``, as an executor labels what it runs.
_HOST_OP = re.compile(r"([A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*):([A-Z_][A-Za-z0-9_]*)")
#: JAX writes its types in small letters.
_TYPE = re.compile(r"\w*", re.ASCII)


class Plane:
    """A device or the host, with what its events refer to.

    Attributes:
        name: Such as ``/device:GPU:0`` or ``/host:CPU``.
        lines: Its lines that have events, as messages.
        is_device: Whether it is a device.
        is_host: Whether it is the host, or a part of it.
    """

    def __init__(self, message: Any) -> None:
        """Take in an XPlane."""
        self.name: str = message.name
        self.is_device = self.name.startswith("/device:")
        self.is_host = self.name.startswith("/host:")
        self.lines = [line for line in message.lines if line.events]
        self._metadata = message.event_metadata
        self._texts: dict[int, str] = {
            key: stat.name for key, stat in message.stat_metadata.items()
        }
        self._asked = {k: text for k, text in self._texts.items() if text in _FACTS}
        # By id, for there are few kinds of event and many events.
        self._labels: dict[int, str] = {}
        self._shared: dict[int, dict[str, Fact]] = {}

    def label(self, event: Any) -> str:
        """Return what the profiler calls an event; never empty."""
        key = event.metadata_id
        if key not in self._labels:
            self._labels[key] = self._label(key)
        return self._labels[key]

    def facts(self, event: Any) -> dict[str, Fact]:
        """Return what is known of an event, by the name of the stat.

        Only stats that name an op or a step; the event's own go before those that it
        shares with all of its kind.
        """
        if not self._asked:
            return {}
        key = event.metadata_id
        if key not in self._shared:
            metadata = self._metadata.get(key)
            self._shared[key] = self._read(metadata.stats) if metadata else {}
        return self._shared[key] | self._read(event.stats)

    def has_fact(self, name: str) -> bool:
        """Return whether an event may have a stat of this name."""
        return name in self._asked.values()

    def _label(self, key: int) -> str:
        metadata = self._metadata.get(key)
        if metadata is None:
            return _UNKNOWN
        return label_of(metadata.name, metadata.display_name)

    def _read(self, stats: Any) -> dict[str, Fact]:
        found: dict[str, Fact] = {}
        for stat in stats:
            name = self._asked.get(stat.metadata_id)
            if name is None:
                continue
            kind = stat.WhichOneof("value")
            if kind == "ref_value":
                found[name] = self._texts.get(stat.ref_value, "")
            elif kind in {"str_value", "int64_value", "uint64_value"}:
                found[name] = getattr(stat, kind)
        return found


def label_of(name: str, display: str) -> str:
    """Return the name or the shorter one that is displayed, whichever says more."""
    # An op of the host has its type alone, an op of XLA its whole text as name.
    is_typed = _HOST_OP.fullmatch(name)
    return ("" if is_typed else display) or name or _UNKNOWN


def is_copy(label: str) -> bool:
    """Return whether an event of this label moves or fills memory of a device."""
    return label.startswith(("Memcpy", "Memset"))


def lines_of_ops(names: Iterable[str]) -> frozenset[str]:
    """Return those lines of a device that show what ran on it, each op once.

    Args:
        names: The names of its lines.
    """
    known = frozenset(names)
    streams = frozenset(name for name in known if _STREAM.match(name))
    return streams or known & {_XLA_OPS} or known - _DERIVED


def part_of_device(line: str) -> tuple[str, RowKind]:
    """Return what to call the part of a device that a line shows, and its kind.

    It is :data:`COPIES` for a line such as ``Stream #14(MemcpyH2D,Memset)``.
    """
    stream = _STREAM.match(line)
    if stream is None:
        return line, RowKind.STREAM if line == _XLA_OPS else RowKind.OTHER
    if all(map(is_copy, line.partition("(")[2].split(","))):
        return COPIES, RowKind.MEMCPY
    return f"stream:{stream[1]}", RowKind.STREAM


def op_behind(facts: Mapping[str, Fact]) -> tuple[str, str] | None:
    """Return name and type of the op that a kernel ran for; None when not known.

    The type is empty where only a name is known.
    """
    for key in NAMED_BY:
        text = str(facts.get(key, ""))
        name, colon, op_type = text.rpartition(":")
        if not colon or not _TYPE.fullmatch(op_type):
            name, op_type = text, ""
        if name and name != _NO_NAME:
            return name, op_type
    return None


def op_of_host(label: str, facts: Mapping[str, Fact]) -> tuple[str, str] | None:
    """Return name and type of an op that ran on the host; None for other events.

    What only launches a kernel also says for which op, and is none.
    """
    if match := _HOST_OP.fullmatch(label):
        return match[1], match[2]
    # XLA on a CPU.
    return (label, "") if facts.get("hlo_op") == label else None
