"""Events out of damaged text: each on its own, as far as the damage allows."""

from __future__ import annotations

import dataclasses
import json
import re

import msgspec

from placement_viz.parser.events import Event

__all__ = ["BOUNDARY", "Salvaged", "salvage"]

#: The end of one event and the beginning of the next: an object ends and another
#: begins with one of the keys that Chrome's format knows. Inside a string the quote
#: before such a key would be escaped.
BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|pid|cat|ts|tid|dur|id|args)")')

#: What opens and closes, and strings, in which neither counts. A string ends with its
#: line at the latest, so that one lost quote does not turn the whole file inside out.
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[\[\]{}]')

_EVENT = msgspec.json.Decoder(Event)


@dataclasses.dataclass(eq=False)
class Salvaged:
    """What could be read.

    Attributes:
        events: In their order.
        end: Where the text goes on after the array of events; None when it does not.
        n_unreadable: How many events were whole and could not be read.
        first_unreadable: Where the first of them begins.
        cut_at: Where an event begins of which the end is missing; None when all end.
    """

    events: list[Event]
    end: int | None = None
    n_unreadable: int = 0
    first_unreadable: int = 0
    cut_at: int | None = None


def salvage(text: bytes) -> Salvaged:
    """Return what can be read of events, with the damage around them.

    Args:
        text: Events with commas between; maybe the end of their array, and more.
    """
    found = Salvaged([])
    start = 0
    for between in BOUNDARY.finditer(text):
        stop = between.start() + 1
        event = _read(text[start:stop])
        if event is not None:
            found.events.append(event)
        elif _scan(found, text, start, stop) is not None:
            # It cannot be read; or else the array ends in it, and more follows.
            _count(found, start)
        if found.end is not None:
            return found
        start = between.end()
    found.cut_at = _scan(found, text, start, len(text))
    return found


def _scan(found: Salvaged, text: bytes, start: int, stop: int) -> int | None:
    """Read what nothing divides: an event or none, and maybe the end of the array.

    Returns:
        Where an event begins that is still open at ``stop``; None when none is.
    """
    depth, begin = 0, start
    for token in _TOKEN.finditer(text, start, stop):
        mark = token[0]
        if mark in {b"{", b"["}:
            begin = token.start() if depth == 0 else begin
            depth += 1
        elif mark in {b"}", b"]"} and depth:
            depth -= 1
            if depth == 0:
                event = _read(text[begin : token.end()])
                if event is None:
                    _count(found, begin)
                else:
                    found.events.append(event)
        elif mark == b"]":
            found.end = token.end()
            return None
    return begin if depth else None


def _count(found: Salvaged, position: int) -> None:
    """Count an event that cannot be read."""
    if not found.n_unreadable:
        found.first_unreadable = position
    found.n_unreadable += 1


def _read(text: bytes) -> Event | None:
    """Return an event; None for what is none, however generously it is read."""
    try:
        return _EVENT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # Takes NaN and control characters, which no number and no name can be, too.
        value = json.loads(text.decode(errors="replace"), strict=False)
        # Half a character, as a name has that was cut in the middle, is no text.
        clean = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        value = json.loads(clean)
        return msgspec.convert(value, Event)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
