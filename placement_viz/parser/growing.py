"""A file folded while it is still being written: the program of a process of its own.

It is told on standard input how far the file is there, and writes on standard output
the folds of one part after another. Once the file is complete it leaves the second half
of what it has not read to who started it. Both sides know these messages:

===================  ==========================================================
told                 how many bytes are there
said                 up to where it has read, and a fold; or no fold: from there
                     on it reads nothing
===================  ==========================================================

Its exit code is 0 when all that it has said is of use.
"""

from __future__ import annotations

import io
import os
import pathlib
import sys
import threading
from collections.abc import Iterator
from typing import IO

from placement_viz.parser.fold import Fold
from placement_viz.parser.packing import PIECE_BYTES
from placement_viz.parser.parts import next_boundary, write_part
from placement_viz.parser.stream import EventStream, IrregularError

__all__ = ["fold_growing", "heard", "told"]

_NUMBER_BYTES = 8
#: How many pieces make a part.
_TOGETHER = 8
#: Less than this is read before somebody else has begun with half of it.
_LEAST_SHARED_BYTES = 16 << 20


def told(n_bytes: int) -> bytes:
    """Return the message that so many bytes of the file are there."""
    return n_bytes.to_bytes(_NUMBER_BYTES, "little")


def heard(output: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield what the process says, until it ends: up to where it read, and a fold.

    An empty fold means that the process reads nothing from there on.
    """
    while len(header := output.read(2 * _NUMBER_BYTES)) == 2 * _NUMBER_BYTES:
        position = int.from_bytes(header[:_NUMBER_BYTES], "little")
        size = int.from_bytes(header[_NUMBER_BYTES:], "little")
        part = output.read(size)
        if len(part) < size:
            return
        yield position, part


def fold_growing(path: str, n_bytes: str) -> None:
    """Fold the file at ``path``, which will have ``n_bytes``, from its beginning."""
    growing = _Growing(pathlib.Path(path), int(n_bytes))
    stream = EventStream(growing.pieces())
    fold = Fold()
    try:
        for number, batch in enumerate(stream.batches(), 1):
            fold.add(batch)
            if number % _TOGETHER == 0 and stream.end is None:
                _say_part(growing.position, fold, None)
                fold = Fold()
    except (IrregularError, OSError):
        sys.exit(1)
    if stream.has_damage:
        sys.exit(1)
    _say_part(growing.position, fold, stream.end)


def _say_part(position: int, fold: Fold, end: int | None) -> None:
    written = io.BytesIO()
    write_part(fold, end, written)
    _say(position, written.getbuffer())


def _say(position: int, part: bytes | memoryview) -> None:
    output = sys.stdout.buffer
    output.write(position.to_bytes(_NUMBER_BYTES, "little"))
    output.write(len(part).to_bytes(_NUMBER_BYTES, "little"))
    output.write(part)
    output.flush()


class _Growing:
    """The bytes of a file, each as soon as it is there.

    Attributes:
        position: How many of them were given away.
    """

    def __init__(self, path: pathlib.Path, n_bytes: int) -> None:
        """Listen to how far the file is.

        Args:
            path: Where it is.
            n_bytes: How many bytes it will have.
        """
        self.position = 0
        self._path = path
        self._n_bytes = self._stop = n_bytes
        self._there = 0
        self._news = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes, but for what is left to who started this process.

        Raises:
            IrregularError: There is no place at which to leave the rest, or less of
                the file than was told.
        """
        is_shared = False
        # Unbuffered, since what was not there may be meanwhile.
        with self._path.open("rb", buffering=0) as file:
            while self.position < self._stop:
                wanted = min(PIECE_BYTES, self._stop - self.position)
                is_complete = self._wait_for(self.position + wanted)
                if is_complete and not is_shared:
                    is_shared = True
                    self._share(file)
                    continue
                piece = file.read(wanted)
                if not piece:
                    # Somebody has cut it off meanwhile.
                    raise IrregularError
                self.position += len(piece)
                yield piece

    def _wait_for(self, n_bytes: int) -> bool:
        """Wait until so many bytes are there; return whether all are."""
        with self._news:
            self._news.wait_for(lambda: self._there >= n_bytes)
            return self._there == self._n_bytes

    def _share(self, file: IO[bytes]) -> None:
        """Leave half of the rest to who started this, if it is worth that."""
        left = self._n_bytes - self.position
        if left < _LEAST_SHARED_BYTES:
            _say(self._n_bytes, b"")
            return
        self._stop, others = next_boundary(file, self.position + left // 2)
        file.seek(self.position)
        _say(others, b"")

    def _listen(self) -> None:
        # Not by a buffer, whose lock would be held when the interpreter ends.
        while number := os.read(sys.stdin.fileno(), _NUMBER_BYTES):
            with self._news:
                self._there = int.from_bytes(number, "little")
                self._news.notify()
        # Nobody waits for the fold any more.
        os._exit(1)
