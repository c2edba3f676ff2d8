"""Chrome trace JSON into typed events.

Supported is what TensorFlow writes: an object with ``traceEvents``, or the bare
array of events. Events of other producers are read too, however they write them.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TypeAlias

import msgspec

from placement_viz.errors import TraceFormatError
from placement_viz.schema import SCHEMA_VERSION, SECTION, RunSection

__all__ = [
    "ChromeTrace",
    "Event",
    "is_json",
    "not_json",
    "parse_events",
    "parse_section",
]

#: A number as some producer writes it: Kineto has fractions, others text.
Number: TypeAlias = int | float | str | None

_ABSENT = msgspec.Raw(b"")
# A line of a log may begin with a bracket too, but not with the one of an array.
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*(?:[{\[\]\"ntf]|$))")
_LEAD = b"\xef\xbb\xbf \t\r\n"
_AT = re.compile(r" - at `\$\.?(.*?)`$")
_BYTE = re.compile(r"^JSON is malformed: (.*) \(byte (\d+)\)$")


class Event(msgspec.Struct, gc=False):
    """One event, with the fields that matter here.

    Attributes:
        ph: The phase: ``X`` a complete event, ``M`` metadata, and others.
        name: For an op of TensorFlow its *type*; the node is in ``args``.
        pid: The row, by a number that is only valid in this file.
        tid: The lane in the row.
        ts: Start in microseconds.
        dur: Duration in microseconds.
        cat: The category: ``Op``, ``DataFlow``, ``Tensor``, ``Memory``.
        args: Whatever else belongs to it.
    """

    ph: str | None = None
    name: str | int | float | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    cat: str | None = None
    args: Any = None


class ChromeTrace(msgspec.Struct, kw_only=True, gc=False):
    """The parts of a trace file that tell what it is.

    Attributes:
        events: In the order of the file.
        section: What ``capture`` added, still JSON; empty in any other trace.
        devices: What PyTorch's profiler says of graphics cards.
        version: How it writes traces; others may say so too.
    """

    events: list[Event] = msgspec.field(name="traceEvents", default_factory=list)
    section: msgspec.Raw = msgspec.field(name=SECTION, default=_ABSENT)
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=_ABSENT)
    version: msgspec.Raw = msgspec.field(name="schemaVersion", default=_ABSENT)

    @property
    def has_section(self) -> bool:
        """Return whether ``capture`` wrote the file."""
        return bool(bytes(self.section))

    @property
    def is_kineto(self) -> bool:
        """Return whether PyTorch's profiler may have written the file."""
        return bool(bytes(self.devices) or bytes(self.version))


def is_json(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is JSON, if anything is."""
    return _JSON.match(head) is not None


_OBJECT = msgspec.json.Decoder(ChromeTrace)
_ARRAY = msgspec.json.Decoder(list[Event])
_SECTION = msgspec.json.Decoder(RunSection)


def parse_events(data: bytes, *, source: str) -> ChromeTrace:
    """Return the events in ``data``.

    Raises:
        TraceFormatError: It is no JSON, or no Chrome trace; the message says at
            which byte or in which event.
    """
    text = data.lstrip(_LEAD)
    if text[:1] not in (b"{", b"["):
        raise not_json(data, source)
    lead = len(data) - len(text)
    try:
        if text.startswith(b"["):
            return ChromeTrace(events=_ARRAY.decode(text))
        return _OBJECT.decode(text)
    except msgspec.ValidationError as error:
        raise TraceFormatError(f"{source}: {_place_of(error)}") from error
    except msgspec.DecodeError as error:
        raise TraceFormatError(
            f"{source}: {_damage(error, lead, len(data))}"
        ) from error
    except UnicodeDecodeError as error:
        message = f"{source}: byte {lead + error.start}: expected UTF-8 text"
        raise TraceFormatError(message) from error
    except RecursionError as error:
        levels = sys.getrecursionlimit()
        message = (
            f"{source}: expected a trace, found JSON nested deeper than the "
            f"{levels:,} levels that are read"
        )
        raise TraceFormatError(message) from error


def parse_section(raw: msgspec.Raw, *, source: str) -> RunSection:
    """Return what ``capture`` wrote beside the events.

    Raises:
        TraceFormatError: It does not follow the schema, or a newer one.
    """
    try:
        section = _SECTION.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = (
            _place_of(error) if isinstance(error, msgspec.ValidationError) else error
        )
        raise TraceFormatError(f"{source}: {SECTION}: {place}") from error
    if not 1 <= section.schema <= SCHEMA_VERSION:
        raise TraceFormatError(
            f"{source}: {SECTION}.schema: expected 1 to {SCHEMA_VERSION}, found "
            f"{section.schema}; open it with the version of placement_viz that wrote it"
        )
    return section


def _place_of(error: Exception) -> str:
    """Return ``traceEvents[3].dur: expected int, found object``."""
    text = str(error)
    at = _AT.search(text)
    problem = _AT.sub("", text).replace("`", "").replace(", got ", ", found ")
    problem = problem[:1].lower() + problem[1:]
    return f"{at.group(1)}: {problem}" if at and at.group(1) else problem


def _damage(error: Exception, lead: int, n_bytes: int) -> str:
    if match := _BYTE.match(str(error)):
        return (
            f"byte {lead + int(match.group(2))}: expected JSON, found {match.group(1)}"
        )
    if "truncated" in str(error):
        return (
            f"byte {n_bytes}: expected the rest of the JSON, found the end of the "
            "file; it was cut off while it was written or copied"
        )
    return f"expected JSON: {error}"


def not_json(head: bytes, source: str) -> TraceFormatError:
    """Return the error for a file that is of no known kind.

    Args:
        head: What it begins with.
        source: What to call it.
    """
    return TraceFormatError(
        f"{source}: expected a TensorFlow timeline in JSON, found "
        f"{_first_bytes(head.lstrip(_LEAD))}"
    )


def _first_bytes(text: bytes) -> str:
    if text:
        return f"content that starts with {text[:12]!r}"
    return "an empty file; the program may have stopped before it wrote the trace"
