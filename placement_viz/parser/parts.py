"""A large file in several parts, each folded by a process of its own.

Decoding JSON keeps one core busy, and Python has one interpreter lock. A part begins
and ends between two events, so that no event is cut. Only an undamaged file of the
usual layout is read this way; of anything else :class:`IrregularError` says that one
process must read the whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import msgspec
import polars as pl

from placement_viz.parser import own_process
from placement_viz.parser.events import ChromeTrace
from placement_viz.parser.files import OnRead, counted, pieces_between
from placement_viz.parser.fold import Fold
from placement_viz.parser.salvage import BOUNDARY
from placement_viz.parser.stream import EventStream, IrregularError

__all__ = [
    "add_part",
    "fold_in_parts",
    "n_parts_for",
    "next_boundary",
    "write_part",
]

#: A smaller file is read before another process has started.
_LEAST_BYTES = 48 << 20
#: More processes than this wait for the disk and for the one that joins.
_MOST_PARTS = 4
#: How far to look for the end of an event; one with a long description has some kB.
_WINDOW_BYTES = 1 << 20
#: How much more than its share this process reads, as others begin late.
_HEAD_START = 0.2
_PROGRAM = "placement_viz.parser.parts:fold_part"


class _State(msgspec.Struct, array_like=True):
    """A :class:`Fold` without its table."""

    end: int | None
    labels: list[tuple[Any, str]]
    n_events: int
    exchange: str
    has_pairs: bool
    others: dict[str, int]
    timeless: dict[int, int]
    pids: list[Any]
    tids: list[Any]
    kinds: list[Any]
    sizes: bytes


@dataclasses.dataclass(frozen=True)
class _Part:
    """A process that folds a part, and the file into which it writes that."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]


_STATE = msgspec.msgpack.Decoder(_State)


def n_parts_for(n_bytes: int) -> int:
    """Return in how many parts a file of ``n_bytes`` is best read on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    wanted = min(cores, _MOST_PARTS, n_bytes // _LEAST_BYTES)
    return max(1, wanted) if sys.executable else 1


def fold_in_parts(
    path: pathlib.Path, n_parts: int, on_read: OnRead
) -> tuple[Fold, ChromeTrace]:
    """Return the events of a trace, and what stands beside them.

    Args:
        path: A file of JSON, not packed.
        n_parts: How many processes are to read it, this one included; at least 2.
        on_read: Told how far the file has been read, if all processes are as fast as
            this one.

    Raises:
        IrregularError: It cannot be read in parts, or is damaged.
    """
    n_bytes = path.stat().st_size
    first, *others = _ranges(path, n_bytes, n_parts)
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(_started(path, *each)) for each in others]
        fold = Fold()
        pieces = pieces_between(path, *first)
        share = n_bytes / first[1]
        stream = EventStream(counted(pieces, lambda n: on_read(int(n * share))))
        for batch in stream.batches():
            fold.add(batch)
        if stream.has_damage:
            raise IrregularError
        end = stream.end
        for part in parts:
            if end is not None:
                # The rest of the parts is no array of events.
                break
            end = _add(fold, part)
    if end is None:
        raise IrregularError
    stream.read_rest(pieces_between(path, end, n_bytes))
    if stream.has_damage:
        raise IrregularError
    return fold, stream.rest


def fold_part(path: str, start: str, stop: str) -> None:
    """Write the fold of one part to standard output; the program of a process.

    Its exit code is 1 when the part is damaged or is no part of an array of events.
    """
    fold = Fold()
    stream = EventStream(
        pieces_between(pathlib.Path(path), int(start), int(stop)), start=int(start)
    )
    try:
        for batch in stream.batches():
            fold.add(batch)
    except IrregularError:
        sys.exit(1)
    if stream.has_damage:
        sys.exit(1)
    write_part(fold, stream.end, sys.stdout.buffer)


def write_part(fold: Fold, end: int | None, output: IO[bytes]) -> None:
    """Write the fold of one part for :func:`add_part`.

    Args:
        fold: The part, which may have numbers of its own.
        end: Where in the file the array of events ended, if it did.
        output: Where to write.
    """
    state = _State(
        end,
        list(fold.labels.items()),
        fold.n_events,
        fold.exchange,
        fold.has_pairs,
        fold.others,
        fold.timeless,
        list(fold.numbering.pids),
        list(fold.numbering.tids),
        list(fold.numbering.kinds),
        _packed(fold.sizes.table),
    )
    packed = msgspec.msgpack.encode(state)
    output.write(len(packed).to_bytes(8, "little"))
    output.write(packed)
    fold.table.write_ipc_stream(output)
    output.flush()


def _ranges(path: pathlib.Path, n_bytes: int, n_parts: int) -> list[tuple[int, int]]:
    """Return where each part begins and ends; what is between them is a comma."""
    starts, stops = [0], []
    first = n_bytes / n_parts * (1 + _HEAD_START)
    others = (n_bytes - first) / (n_parts - 1)
    with path.open("rb") as file:
        for part in range(n_parts - 1):
            stop, start = next_boundary(file, int(first + part * others))
            stops.append(stop)
            starts.append(start)
    return list(zip(starts, [*stops, n_bytes], strict=True))


def next_boundary(file: IO[bytes], position: int) -> tuple[int, int]:
    """Return where an event ends and where the next begins, after ``position``.

    Raises:
        IrregularError: None does within reach.
    """
    file.seek(position)
    between = BOUNDARY.search(file.read(_WINDOW_BYTES))
    if between is None:
        raise IrregularError
    return position + between.start() + 1, position + between.end()


@contextlib.contextmanager
def _started(path: pathlib.Path, start: int, stop: int) -> Iterator[_Part]:
    """Start a process that folds a part, and end it when it is not needed."""
    # A pipe would keep it waiting until this process has read its own part.
    with tempfile.TemporaryFile() as output:
        process = own_process.start(
            _PROGRAM,
            *(str(path), str(start), str(stop)),
            stdin=subprocess.DEVNULL,
            stdout=output,
        )
        try:
            yield _Part(process, output)
        finally:
            process.kill()
            process.wait()


def _add(fold: Fold, part: _Part) -> int | None:
    """Add what a process has folded; return where the array of events ended in it."""
    if part.process.wait():
        raise IrregularError
    part.output.seek(0)
    return add_part(fold, part.output)


def add_part(fold: Fold, part: IO[bytes]) -> int | None:
    """Add what :func:`write_part` wrote; return where the array of events ended in it.

    Args:
        fold: The parts before it.
        part: At its beginning; nothing follows it.
    """
    size = int.from_bytes(part.read(8), "little")
    packed = part.read(size)
    state = _STATE.decode(packed)
    own = fold.numbering
    pids = _renumbered(own.pids, state.pids)
    fold.labels.update(state.labels)
    fold.n_events += state.n_events
    fold.exchange = fold.exchange or state.exchange
    fold.has_pairs |= state.has_pairs
    fold.others.update(state.others)
    fold.sizes.add_table(pl.read_ipc_stream(io.BytesIO(state.sizes)))
    fold.timeless.update({pids[pid]: n for pid, n in state.timeless.items()})
    columns = {
        "pid": pids,
        "tid": _renumbered(own.tids, state.tids),
        "kind": _renumbered(own.kinds, state.kinds),
    }
    folded = pl.read_ipc_stream(part)
    fold.add_table(
        folded.with_columns(
            pl.Series(name, numbers, dtype=pl.Int32).gather(folded[name])
            for name, numbers in columns.items()
        )
    )
    return state.end


def _packed(table: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    table.write_ipc_stream(written)
    return written.getvalue()


def _renumbered(own: dict[Any, int], things: Sequence[Any]) -> list[int]:
    """Return the own number of each thing, in the order of another's numbers."""
    return [own[thing] for thing in things]
