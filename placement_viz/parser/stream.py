"""The events of a trace in batches, while it is read piece by piece.

An array of events can be cut wherever an object ends and the next one begins with one
of the keys that Chrome's format knows; inside a string the quote before such a key
would be escaped. Each part is decoded on its own and given up before the next, so that
memory holds one piece and not the file.

What is laid out otherwise, or damaged, is not for this module: it says so, and the
whole text is decoded at once elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from placement_viz.parser.events import ChromeTrace, Event

__all__ = ["EventStream", "IrregularError"]

#: The end of one event and the beginning of the next.
_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|pid|cat|ts)")')
#: How far back a boundary is looked for at first; events are shorter than that.
_REACH_BYTES = 1 << 16
_HEAD = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*(?:"displayTimeUnit"\s*:\s*"\w*"\s*,\s*)?'
    rb'"traceEvents"\s*:\s*\[)'
)
_HEAD_BYTES = 4096
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

_EVENTS = msgspec.json.Decoder(list[Event])
_REST = msgspec.json.Decoder(ChromeTrace)


class IrregularError(Exception):
    """The trace is not laid out, or not whole, as this module needs it."""


class EventStream:
    """A trace, as far as it was read.

    Attributes:
        rest: What stands beside the events, once all batches were taken.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """Read nothing yet.

        Args:
            pieces: The text, in order, cut anywhere.
        """
        self.rest = ChromeTrace()
        self._pieces = iter(pieces)
        self._is_array = False

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events in the order of the file.

        Raises:
            IrregularError: See the module; batches so far are to be forgotten.
        """
        buffer = self._after_head()
        is_over = False
        while not is_over:
            piece = next(self._pieces, b"")
            is_over = not piece
            n_known = len(buffer)
            buffer += piece
            if is_over:
                break
            cut = _last_boundary(buffer, n_known)
            if cut is None:
                continue
            events, end = _decode(buffer[:cut])
            yield events
            if end is not None:
                # What looked like a boundary was beyond the array.
                self._finish(buffer[end:])
                return
            buffer = buffer[cut + 1 :]
        if not buffer.strip():
            raise IrregularError
        events, end = _decode(buffer)
        yield events
        self._finish(buffer[end:] if end is not None else b"")

    def _after_head(self) -> bytes:
        """Return what follows the bracket before the first event."""
        head = b""
        for piece in self._pieces:
            head += piece
            if len(head) >= _HEAD_BYTES:
                break
        found = _HEAD.match(head)
        if found is None:
            raise IrregularError
        self._is_array = b"{" not in found[0]
        return head[found.end() :]

    def _finish(self, text: bytes) -> None:
        """Read what follows the array."""
        text = b"".join((text, *self._pieces)).strip()
        if self._is_array:
            if text:
                raise IrregularError
            return
        if not text.startswith((b",", b"}")):
            raise IrregularError
        try:
            self.rest = _REST.decode(b"{" + text.removeprefix(b",").lstrip())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise IrregularError from error
        if self.rest.events:
            raise IrregularError


def _last_boundary(buffer: bytes, n_known: int) -> int | None:
    """Return where the last event in ``buffer`` that is surely whole ends.

    Args:
        buffer: Begins with an event.
        n_known: How much of it was looked at before.
    """
    reach = _REACH_BYTES
    while True:
        start = max(0, len(buffer) - reach)
        found = list(_BOUNDARY.finditer(buffer, start))
        if found:
            return buffer.index(b",", found[-1].start())
        if start <= max(0, n_known - _REACH_BYTES):
            return None
        reach *= 16


def _decode(text: bytes) -> tuple[list[Event], int | None]:
    """Return the events in ``text``, and where it goes on after their array.

    Args:
        text: Events with commas between; maybe the end of their array, and more.
    """
    for closing in (b"]", b""):
        try:
            return _EVENTS.decode(b"[" + text + closing), None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found = _TRAILING.search(str(error))
            if found is not None:
                # It counts the bytes up to and with the first that is too many.
                end = int(found[1]) - 1
                return _EVENTS.decode((b"[" + text)[:end]), end - 1
    raise IrregularError
