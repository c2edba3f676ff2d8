"""The events of a trace in batches, while it is read piece by piece.

An array of events can be cut wherever an object ends and the next one begins with one
of the keys that Chrome's format knows; inside a string the quote before such a key
would be escaped. Each part is decoded on its own and given up before the next, so that
memory holds one piece and not the file.

Of a damaged part what can be read is read, and the rest is noted. What is laid out
otherwise is not for this module: it says so, and the whole text is decoded at once
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from placement_viz.model import Notice
from placement_viz.parser import usual
from placement_viz.parser.events import ChromeTrace, Event
from placement_viz.parser.salvage import BOUNDARY, salvage
from placement_viz.units import format_count

__all__ = ["CUT_OFF", "EventStream", "IrregularError"]

CUT_OFF = "cut-off"

#: How far back a boundary is looked for at first; events are shorter than that.
_REACH_BYTES = 1 << 16
_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?=([\[{]))")
#: In a string of what stands before it, the quotes would be escaped.
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
#: What a profiler says of its machine and its job before its events is shorter.
_HEAD_BYTES = 1 << 20
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

_REST = msgspec.json.Decoder(ChromeTrace)
_ESCAPED_CONTROL = b"\\u001"
_COMMA = b", \t\r\n"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class IrregularError(Exception):
    """The trace is not laid out as this module needs it, or holds nothing."""


class EventStream:
    """A trace, as far as it was read.

    Attributes:
        rest: What stands beside the events, once all was read.
        notices: What was damaged and how it was read.
        end: Where the array of events ended, in bytes; None while it has not.
        has_damage: Whether an event could not be read.
    """

    def __init__(
        self, pieces: Iterable[bytes], *, start: int = 0, is_general: bool = False
    ) -> None:
        """Read nothing yet.

        Args:
            pieces: The text, in order, cut anywhere; some may be empty.
            start: Where in the file it begins, in bytes; if not at its start, then
                with an event.
            is_general: Whether all events are to be general ones, with all that they
                hold; usual ones are read faster.
        """
        self.rest = ChromeTrace()
        self._decoders = _GENERAL if is_general else _FASTEST
        self._lead = b"{"
        self.notices: list[Notice] = []
        self.end: int | None = None
        self._pieces = filter(None, pieces)
        self._start = self._n_bytes = start
        self._buffer = b""
        self._is_array = False
        self._n_events = 0
        self._n_unreadable = 0
        self._first_unreadable = 0

    @property
    def has_damage(self) -> bool:
        """Return whether an event could not be read."""
        return bool(self._n_unreadable or self.notices)

    def batches(self) -> Iterator[list[Any]]:
        """Yield the events in the order of the file, of either kind of event.

        Raises:
            IrregularError: See the module; batches so far are to be forgotten.
        """
        self._buffer = b"" if self._start else self._after_head()
        for text in self._cut():
            events, end = self._read(text)
            yield events
            if end is not None:
                # What looked like a boundary was beyond the array.
                self._buffer = text[1 + end : -1] + b"," + self._buffer
                self.end = self._n_bytes = self._n_bytes + end
                return
            self._n_bytes += len(text) - 1
        events, end = self._read(b"".join((b"[", self._buffer, b"]")))
        yield events
        if end is not None:
            self._buffer = self._buffer[end:]
            self.end = self._n_bytes = self._n_bytes + end

    def finish(self) -> None:
        """Read what follows the array, and note what is missing.

        Raises:
            IrregularError: See the module.
        """
        if self.end is not None or self._is_array:
            tail = self._buffer if self.end is not None else b""
            self.read_rest((tail, *self._pieces))
        elif not any(notice.code == CUT_OFF for notice in self.notices):
            self._note_cut(len(self._buffer))
        if self._n_unreadable:
            self.notices.append(
                Notice(
                    "unreadable-events",
                    f"{format_count(self._n_unreadable, 'event')} could not be read "
                    f"and left out, the first at byte {self._first_unreadable:,}",
                )
            )

    def read_rest(self, pieces: Iterable[bytes]) -> None:
        """Read what stands beside the events, behind them.

        Args:
            pieces: All that follows the array.

        Raises:
            IrregularError: See the module.
        """
        text = b"".join(pieces).strip()
        if self._is_array:
            if text:
                raise IrregularError
            return
        if not text:
            self._note_cut(0)
            return
        if not text.startswith((b",", b"}")):
            raise IrregularError
        text = text.removeprefix(b",").lstrip()
        lead = self._lead.rstrip(_COMMA) if text.startswith(b"}") else self._lead
        try:
            self.rest = _REST.decode(lead + text)
        except _UNREADABLE as error:
            if "truncated" not in str(error):
                raise IrregularError from error
            message = (
                "the file was cut off behind its events, so the graph that may have "
                "been there is lost"
            )
            self.notices.append(Notice(CUT_OFF, message))
        if self.rest.events:
            raise IrregularError

    def _after_head(self) -> bytes:
        """Return what follows the bracket before the first event."""
        head, found = b"", None
        for piece in self._pieces:
            head += piece
            found = _START.match(head)
            if found and found[1] == b"{":
                found = _EVENTS.search(head)
            if found or len(head) >= _HEAD_BYTES:
                break
        if found is None:
            raise IrregularError
        self._is_array = found.re is _START
        if self._is_array:
            self._n_bytes = found.end() + 1
            return head[self._n_bytes :]
        self._lead = head[: found.start()].removeprefix(b"\xef\xbb\xbf").lstrip()
        self._n_bytes = found.end()
        try:
            self.rest = _REST.decode(self._lead.rstrip(_COMMA) + b"}")
        except _UNREADABLE as error:
            # The events are not where a trace has them.
            raise IrregularError from error
        return head[self._n_bytes :]

    def _cut(self) -> Iterator[bytes]:
        """Yield arrays of whole events, and keep what follows the last of them."""
        for piece in self._pieces:
            before, self._buffer = self._buffer, piece
            cut = _last_boundary(piece, 0)
            if cut is None:
                self._buffer = before + piece
                cut, before = _last_boundary(self._buffer, len(before)), b""
            if cut is not None:
                text = b"".join((b"[", before, self._buffer[:cut], b"]"))
                self._buffer = self._buffer[cut + 1 :]
                yield text

    def _read(self, text: bytes) -> tuple[list[Any], int | None]:
        """Return the events in ``text``, and where it goes on after their array.

        Args:
            text: An array of events; behind them may be its own end, and more.
        """
        try:
            events, end = self._decode(text)
        except IrregularError:
            found = salvage(text[1:-1])
            # Where nothing at all can be read, the damage is not what is wrong.
            if not found.events and not self._n_events:
                raise
            if found.n_unreadable and not self._n_unreadable:
                self._first_unreadable = self._n_bytes + found.first_unreadable
            self._n_unreadable += found.n_unreadable
            self._n_events += len(found.events)
            if found.cut_at is not None:
                self._note_cut(found.cut_at)
            return found.events, found.end
        self._n_events += len(events)
        if not self._n_events:
            raise IrregularError
        return events, end

    def _decode(self, text: bytes) -> tuple[list[Any], int | None]:
        """Return the events in ``text``, and where it goes on after their array."""
        # What separates inputs in a column can only be in a name in this spelling.
        for decode in _GENERAL if _ESCAPED_CONTROL in text else self._decoders:
            if found := _decode_with(decode, text):
                return found
        raise IrregularError

    def _note_cut(self, position: int) -> None:
        message = (
            f"the file was cut off at byte {self._n_bytes + position:,}: "
            f"{format_count(self._n_events, 'event')} before that could be read; what "
            "came after is lost, and how much that was is not known"
        )
        self.notices.append(Notice(CUT_OFF, message))


def _last_boundary(buffer: bytes, n_known: int) -> int | None:
    """Return where the last event in ``buffer`` that is surely whole ends.

    Args:
        buffer: Begins with an event, or in one.
        n_known: How much of it was looked at before.
    """
    reach = _REACH_BYTES
    while True:
        start = max(0, len(buffer) - reach)
        found = list(BOUNDARY.finditer(buffer, start))
        if found:
            return buffer.index(b",", found[-1].start())
        if start <= max(0, n_known - _REACH_BYTES):
            return None
        reach *= 16


_Decode: TypeAlias = Callable[[bytes], list[Any]]
_GENERAL: tuple[_Decode, ...] = (msgspec.json.Decoder(list[Event]).decode,)
_FASTEST: tuple[_Decode, ...] = (usual.decode, *_GENERAL)


def _decode_with(decode: _Decode, text: bytes) -> tuple[list[Any], int | None] | None:
    try:
        return decode(text), None
    except _UNREADABLE as error:
        found = _TRAILING.search(str(error))
        if found is None:
            return None
        # It counts the bytes up to and with the first that is too many.
        end = int(found[1]) - 1
        return decode(text[:end]), end - 1
