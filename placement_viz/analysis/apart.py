"""Runs judged beside the server, so that nobody else waits for that.

Judging is plain Python and keeps the interpreter lock; a thread that did it for a
million ops would hold up every window that somebody looks at meanwhile, and what it
needed would stay with the server. Both sides send data that can be nothing but data:
messages of known types, and tables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import sys
import threading
from typing import IO

import msgspec
import polars as pl

from placement_viz.analysis import Analysis, analyze_run
from placement_viz.analysis.colocation import Colocation
from placement_viz.analysis.fixes import Fix
from placement_viz.analysis.usage import DeviceUsage
from placement_viz.model import Notice, Recorded, Run
from placement_viz.parser import own_process
from placement_viz.parser.stored import pack_run, unpack_run

__all__ = ["LARGE_OPS", "judge_here", "judge_run"]

#: Fewer are judged before another process has started.
LARGE_OPS = 50_000
#: Who looks at a window goes first.
_NICE = 10
#: How many ops are sent at a time: all of them once more would be the most that the
#: server ever needs for a run.
_SLICE = 1 << 15
_PROGRAM = "placement_viz.analysis.apart:judge_here"


class _Answer(msgspec.Struct):
    """An analysis without its run; tables as Arrow.

    Attributes:
        gradients: As in its colocation, like the next three.
        doubts: What limits the verdicts.
        collateral: As there.
        replay: As there.
        usage: As in the analysis, like the next two.
        fixes: As there.
        notices: As there.
        ops: The ops of the trace where something of it was put right, else nothing.
        origin_us: When the first of them began.
    """

    gradients: bytes
    doubts: tuple[Notice, ...]
    collateral: dict[str, tuple[str, str]]
    replay: tuple[int, int]
    usage: tuple[DeviceUsage, ...]
    fixes: tuple[Fix, ...]
    notices: tuple[Notice, ...]
    ops: bytes
    origin_us: int


_ANSWER = msgspec.msgpack.Decoder(_Answer)
#: What comes of a run, or of an answer, that cannot be sent or read.
_UNSENT = (
    OSError,
    OverflowError,
    ValueError,
    msgspec.MsgspecError,
    pl.exceptions.PolarsError,
)


def judge_run(run: Run) -> Analysis:
    """Return what :func:`~placement_viz.analyze_run` does, from another process.

    A small run is judged in this one, and any run where no other can be started or
    that cannot be sent.
    """
    if run.trace.ops.height >= LARGE_OPS and sys.executable:
        judged = _judged_apart(run)
        if judged is not None:
            return judged
    return analyze_run(run)


def judge_here() -> None:
    """Judge the run on standard input; the program of a process.

    The process ends when its input does, as then nobody waits for the verdicts.
    """
    if hasattr(os, "nice"):
        os.nice(_NICE)
    run = _received_run(sys.stdin.buffer)

    def end_with_input() -> None:
        sys.stdin.buffer.read(1)
        os._exit(1)

    threading.Thread(target=end_with_input, daemon=True).start()
    sys.stdout.buffer.write(_packed(analyze_run(run), run))
    sys.stdout.flush()
    os._exit(0)


def _judged_apart(run: Run) -> Analysis | None:
    """Return the analysis; None when the process did not give one."""
    # That the process has ended may show only when the pipe to it is closed.
    with (
        contextlib.suppress(*_UNSENT),
        own_process.start(_PROGRAM) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                _send_run(run, process.stdin)
            return _unpacked(process.stdout.read(), run)
        finally:
            process.kill()
    return None


def _send_run(run: Run, stream: IO[bytes]) -> None:
    """Send ``run`` for :func:`_received_run`: its ops after all else."""
    ops = run.trace.ops
    # Verdicts do not rest on sizes and memory.
    trace = dataclasses.replace(run.trace, ops=ops.clear(), recorded=Recorded())
    _send(pack_run(dataclasses.replace(run, trace=trace)), stream)
    for some in ops.iter_slices(_SLICE):
        _send(_table_bytes(some), stream)
    _send(b"", stream)
    stream.flush()


def _received_run(stream: IO[bytes]) -> Run:
    run = unpack_run(_received(stream), source="")
    tables = map(_table, iter(lambda: _received(stream), b""))
    trace = dataclasses.replace(run.trace, ops=pl.concat(tables))
    return dataclasses.replace(run, trace=trace)


def _send(data: bytes, stream: IO[bytes]) -> None:
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)


def _received(stream: IO[bytes]) -> bytes:
    return stream.read(int.from_bytes(stream.read(8), "little"))


def _packed(analysis: Analysis, run: Run) -> bytes:
    """Return ``analysis`` for who has ``run``, of which it is."""
    trace, colocation = analysis.run.trace, analysis.colocation
    is_whole = trace is run.trace
    answer = _Answer(
        gradients=_table_bytes(colocation.gradients),
        doubts=colocation.notices,
        collateral=dict(colocation.collateral),
        replay=colocation.replay,
        usage=analysis.usage,
        fixes=analysis.fixes,
        notices=analysis.notices,
        ops=b"" if is_whole else _table_bytes(trace.ops),
        origin_us=trace.origin_us,
    )
    return msgspec.msgpack.encode(answer)


def _unpacked(data: bytes, run: Run) -> Analysis:
    answer = _ANSWER.decode(data)
    if answer.ops:
        ops, origin_us = _table(answer.ops), answer.origin_us
        trace = dataclasses.replace(run.trace, ops=ops, origin_us=origin_us)
        run = dataclasses.replace(run, trace=trace)
    return Analysis(
        run=run,
        colocation=Colocation(
            gradients=_table(answer.gradients),
            notices=answer.doubts,
            collateral=answer.collateral,
            replay=answer.replay,
        ),
        usage=answer.usage,
        fixes=answer.fixes,
        notices=answer.notices,
    )


def _table_bytes(table: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    table.write_ipc_stream(written)
    return written.getvalue()


def _table(data: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(data))
