"""A large file read while it is still on its way, by a process of its own.

What has been read when the last byte comes need not be read any more, and of the rest
this process reads one half. As with a file that is read in parts, only an undamaged
trace of the usual layout can be read so; of anything else
:class:`~placement_viz.parser.stream.IrregularError` says that it must be read again,
and nothing is different for that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pathlib
import queue
import threading

from placement_viz.parser import own_process
from placement_viz.parser.events import ChromeTrace, is_json
from placement_viz.parser.files import (
    LIMIT_BYTES,
    Content,
    OnRead,
    counted,
    pieces_between,
)
from placement_viz.parser.fold import Fold
from placement_viz.parser.growing import heard, told
from placement_viz.parser.packing import is_packed
from placement_viz.parser.parts import add_part, n_parts_for, write_part
from placement_viz.parser.stream import EventStream, IrregularError

__all__ = ["Ahead", "Sent", "read_ahead"]

#: A smaller file may be here before another process has started, and is soon read.
_LEAST_BYTES = 192 << 20
#: A file of any other kind shows that sooner.
_HEAD_BYTES = 1 << 10
_PROGRAM = "placement_viz.parser.growing:fold_growing"


class Ahead:
    """A process that folds a file as far as it is there.

    Attributes:
        path: Where the file is.
        n_bytes: How many bytes it will have.
        done: How many of them have been read.
    """

    def __init__(self, path: pathlib.Path, n_bytes: int) -> None:
        """Start the process.

        Raises:
            OSError: It cannot be started.
        """
        self.path = path
        self.n_bytes = n_bytes
        self.done = 0
        self._fold = Fold()
        self._end: int | None = None
        self._is_whole = False
        self._telling = threading.Lock()
        self._rest: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._process = own_process.start(_PROGRAM, str(path), str(n_bytes))
        self._thread = threading.Thread(target=self._take_in, daemon=True)
        self._thread.start()

    def reach(self, n_bytes: int) -> None:
        """Say that the first ``n_bytes`` of the file are there and stay as they are."""
        with self._telling:
            stdin = self._process.stdin
            assert stdin is not None
            # It may have ended, when this file cannot be read so.
            if not stdin.closed:
                with contextlib.suppress(OSError):
                    os.write(stdin.fileno(), told(n_bytes))

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._process.kill()

    def finish(self, on_read: OnRead) -> tuple[Fold, ChromeTrace]:
        """Return the events of the whole file, and what stands beside them.

        Called once, when the file is complete.

        Args:
            on_read: Told how far the file has been read, if both processes are equally
                fast. What it raises ends the reading.

        Raises:
            IrregularError: It cannot be read so, or is damaged.
        """
        try:
            own = self._fold_rest(self._rest.get(), on_read)
            self._thread.join()
        finally:
            self.close()
        fold, self._fold = self._fold, Fold()
        if not self._is_whole:
            raise IrregularError
        if self._end is None and own is not None:
            # Otherwise the array ended before, and the rest is no array of events.
            self._end = add_part(fold, own)
        if self._end is None:
            raise IrregularError
        return fold, self._beside(self._end)

    def _fold_rest(self, start: int | None, on_read: OnRead) -> io.BytesIO | None:
        """Return the fold of what the process left, as a part; None for none."""
        if start is None or start == self.n_bytes:
            return None
        done = self.done
        share = (self.n_bytes - done) / (self.n_bytes - start)
        fold = Fold()
        pieces = pieces_between(self.path, start, self.n_bytes)
        stream = EventStream(
            counted(pieces, lambda n: on_read(int(done + n * share))), start=start
        )
        try:
            for batch in stream.batches():
                fold.add(batch)
        except IrregularError:
            return None
        if stream.has_damage:
            return None
        part = io.BytesIO()
        write_part(fold, stream.end, part)
        part.seek(0)
        return part

    def _beside(self, end: int) -> ChromeTrace:
        """Return what stands before the events and behind them."""
        stream = EventStream(pieces_between(self.path, 0, end))
        # What stands before them is known with the first of them.
        next(stream.batches())
        stream.read_rest(pieces_between(self.path, end, self.n_bytes))
        if stream.has_damage:
            raise IrregularError
        return stream.rest

    def _take_in(self) -> None:
        """Take in parts as they come, so that none is left for the end."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            for position, part in heard(stdout):
                if part:
                    self._end = add_part(self._fold, io.BytesIO(part))
                    self.done = position
                else:
                    self._rest.put(position)
            self._is_whole = self._process.wait() == 0
        finally:
            with self._telling, self._process:
                self._process.kill()
            self._rest.put(None)


@dataclasses.dataclass(frozen=True)
class Sent(Content):
    """The content of a file that was read on its way.

    Attributes:
        ahead: Who has read it.
    """

    ahead: Ahead | None = None

    @classmethod
    def of(cls, content: Content, ahead: Ahead) -> Sent:
        """Return ``content``, of which ``ahead`` has read some."""
        return cls(**vars(content), ahead=ahead)


def read_ahead(path: pathlib.Path, n_bytes: int) -> Ahead | None:
    """Begin to read a file of which only the beginning is there.

    Args:
        path: Where it is.
        n_bytes: How many bytes it will have.

    Returns:
        None where it is better read when it is complete.
    """
    # No other process would read the largest file where there is only one core.
    if n_bytes < _LEAST_BYTES or n_parts_for(LIMIT_BYTES) == 1:
        return None
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if is_packed(head) or not is_json(head):
            return None
        return Ahead(path, n_bytes)
    except OSError:
        return None
