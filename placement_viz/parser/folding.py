"""The events of a file in columns, by the fastest way that its layout allows."""

from __future__ import annotations

from placement_viz.model import Notice
from placement_viz.parser.ahead import Sent
from placement_viz.parser.events import ChromeTrace, parse_events
from placement_viz.parser.files import Content
from placement_viz.parser.fold import Fold
from placement_viz.parser.parts import fold_in_parts, n_parts_for
from placement_viz.parser.stream import EventStream, IrregularError

__all__ = ["fold_events"]


def fold_events(content: Content) -> tuple[Fold, ChromeTrace, tuple[Notice, ...]]:
    """Return the events of a trace, what stands beside them, and what was damaged.

    Raises:
        TraceFormatError: It is damaged so that nothing can be read, or no trace.
    """
    for way in (_ahead, _in_parts, _piece_by_piece):
        try:
            return way(content)
        except IrregularError:
            continue
    fold = Fold()
    chrome = parse_events(content.whole(), source=content.source)
    fold.add(chrome.events)
    return fold, chrome, ()


def _ahead(content: Content) -> tuple[Fold, ChromeTrace, tuple[Notice, ...]]:
    ahead = content.ahead if isinstance(content, Sent) else None
    if ahead is None or content.n_bytes > content.limit_bytes:
        raise IrregularError
    return *ahead.finish(content.on_read), ()


def _in_parts(content: Content) -> tuple[Fold, ChromeTrace, tuple[Notice, ...]]:
    n_parts = n_parts_for(content.n_bytes)
    if n_parts == 1 or content.path is None or content.is_packed():
        raise IrregularError
    if content.n_bytes > content.limit_bytes:
        # Said where the pieces are counted.
        raise IrregularError
    return *fold_in_parts(content.path, n_parts, content.on_read), ()


def _piece_by_piece(content: Content) -> tuple[Fold, ChromeTrace, tuple[Notice, ...]]:
    fold = Fold()
    notices: list[Notice] = []
    stream = EventStream(content.pieces(notices))
    for batch in stream.batches():
        fold.add(batch)
    stream.finish()
    if stream.notices and not (fold.has_ops or fold.has_pairs):
        # Then the damage is the news, and not that there is no op.
        raise IrregularError
    return fold, stream.rest, (*notices, *stream.notices)
