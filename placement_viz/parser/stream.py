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
from collections.abc import Iterable, Iterator

import msgspec

from placement_viz.model import Notice
from placement_viz.parser.events import ChromeTrace, Event
from placement_viz.parser.salvage import BOUNDARY, salvage
from placement_viz.units import format_count

__all__ = ["EventStream", "IrregularError"]

_CUT_OFF = "cut-off"

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
    """The trace is not laid out as this module needs it, or holds nothing."""


class EventStream:
    """A trace, as far as it was read.

    Attributes:
        rest: What stands beside the events, once all batches were taken.
        notices: What was damaged and how it was read.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """Read nothing yet.

        Args:
            pieces: The text, in order, cut anywhere; some may be empty.
        """
        self.rest = ChromeTrace()
        self.notices: list[Notice] = []
        self._pieces = filter(None, pieces)
        self._is_array = False
        self._has_events = False
        self._n_bytes = 0
        self._n_unreadable = 0
        self._first_unreadable = 0

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events in the order of the file.

        Raises:
            IrregularError: See the module; batches so far are to be forgotten.
        """
        buffer = self._after_head()
        end = None
        while end is None and (piece := next(self._pieces, b"")):
            n_known = len(buffer)
            buffer += piece
            cut = _last_boundary(buffer, n_known)
            if cut is None:
                continue
            # What looks like a boundary may be beyond the array.
            events, end = self._read(buffer[:cut])
            yield events
            if end is None:
                self._n_bytes += cut + 1
                buffer = buffer[cut + 1 :]
        if end is None:
            events, end = self._read(buffer)
            yield events
        if end is not None or self._is_array:
            end = len(buffer) if end is None else end
            self._n_bytes += end
            self._finish(buffer[end:])
        elif not any(notice.code == _CUT_OFF for notice in self.notices):
            self._note_cut(len(buffer))
        self._note_unreadable()

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
        self._n_bytes = found.end()
        return head[found.end() :]

    def _read(self, text: bytes) -> tuple[list[Event], int | None]:
        """Return the events in ``text``, and where it goes on after their array."""
        try:
            events, end = _decode(text)
        except IrregularError:
            found = salvage(text)
            # Where nothing at all can be read, the damage is not what is wrong.
            if not found.events and not self._has_events:
                raise
            if found.n_unreadable and not self._n_unreadable:
                self._first_unreadable = self._n_bytes + found.first_unreadable
            self._n_unreadable += found.n_unreadable
            if found.cut_at is not None:
                self._note_cut(found.cut_at)
            events, end = found.events, found.end
        self._has_events |= bool(events)
        if not self._has_events:
            raise IrregularError
        return events, end

    def _finish(self, text: bytes) -> None:
        """Read what follows the array."""
        text = b"".join((text, *self._pieces)).strip()
        if self._is_array:
            if text:
                raise IrregularError
            return
        if not text:
            self._note_cut(0)
            return
        if not text.startswith((b",", b"}")):
            raise IrregularError
        try:
            self.rest = _REST.decode(b"{" + text.removeprefix(b",").lstrip())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if "truncated" not in str(error):
                raise IrregularError from error
            self.notices.append(
                Notice(
                    _CUT_OFF,
                    "the file was cut off behind its events, so the graph that may "
                    "have been there is lost",
                )
            )
        if self.rest.events:
            raise IrregularError

    def _note_cut(self, position: int) -> None:
        self.notices.append(
            Notice(
                _CUT_OFF,
                f"the file was cut off at byte {self._n_bytes + position:,}: the "
                "events before that were read, what came after is lost",
            )
        )

    def _note_unreadable(self) -> None:
        if self._n_unreadable:
            self.notices.append(
                Notice(
                    "unreadable-events",
                    f"{format_count(self._n_unreadable, 'event')} could not be read "
                    f"and left out, the first at byte {self._first_unreadable:,}",
                )
            )


def _last_boundary(buffer: bytes, n_known: int) -> int | None:
    """Return where the last event in ``buffer`` that is surely whole ends.

    Args:
        buffer: Begins with an event.
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
