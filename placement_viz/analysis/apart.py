"""Runs judged beside the server, so that nobody else waits for that.

Judging is plain Python and keeps the interpreter lock; a thread that did it for a
million ops would hold up every window that somebody looks at meanwhile, and what it
needed would stay with the server. The process is started as a program, not forked: a
server has threads that would not survive that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
from typing import Any

import polars as pl

from placement_viz.analysis import Analysis, analyze_run
from placement_viz.analysis.colocation import Colocation
from placement_viz.model import Run, Trace

__all__ = ["LARGE_OPS", "judge_here", "judge_run"]

#: Fewer are judged before another process has started.
LARGE_OPS = 50_000
#: Who looks at a window goes first.
_NICE = 10

#: Files for one run. Large tables go through these: to pack them as Python does would
#: keep the interpreter lock for a second.
_OPS, _GRADIENTS = "ops.arrow", "gradients.arrow"
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
    "from placement_viz.analysis.apart import judge_here; judge_here(sys.argv[2])"
)


def judge_run(run: Run) -> Analysis:
    """Return what :func:`~placement_viz.analyze_run` does, from another process.

    A small run is judged in this one, and any run where no other can be started.
    """
    if run.trace.ops.height >= LARGE_OPS and sys.executable:
        judged = _judged_apart(run)
        if judged is not None:
            return judged
    return analyze_run(run)


def judge_here(folder: str) -> None:
    """Judge the run on standard input; the program of a process.

    The process ends when its input does, as then nobody waits for the verdicts.

    Args:
        folder: Where its ops are, and the gradient ops are to be.
    """
    if hasattr(os, "nice"):
        os.nice(_NICE)
    run = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one

    def end_with_input() -> None:
        sys.stdin.buffer.read(1)
        os._exit(1)

    threading.Thread(target=end_with_input, daemon=True).start()
    place = pathlib.Path(folder)
    trace = _with_ops(run.trace, pl.read_ipc(place / _OPS))
    run = dataclasses.replace(run, trace=trace)
    analysis = analyze_run(run)
    gradients = analysis.colocation.gradients
    gradients.write_ipc(place / _GRADIENTS)
    found = {
        each.name: getattr(analysis, each.name)
        for each in dataclasses.fields(analysis)
        if each.name != "run"
    }
    found["colocation"] = _with_gradients(analysis.colocation, gradients.clear())
    # Who asks has the run, and of the trace nearly always all of it.
    found["trace"] = None if analysis.run.trace is trace else analysis.run.trace
    pickle.dump(found, sys.stdout.buffer, protocol=5)
    sys.stdout.flush()
    os._exit(0)


def _judged_apart(run: Run) -> Analysis | None:
    """Return the analysis; None when the process did not give one."""
    with contextlib.suppress(
        EOFError, OSError, pickle.PickleError, pl.exceptions.PolarsError
    ):
        with tempfile.TemporaryDirectory(
            prefix="placement_viz-", ignore_cleanup_errors=True
        ) as folder:
            place = pathlib.Path(folder)
            run.trace.ops.write_ipc(place / _OPS)
            # Without what is remembered of a trace, to which others may add meanwhile.
            bare = _with_ops(run.trace, run.trace.ops.clear())
            found = _answer(dataclasses.replace(run, trace=bare), folder)
            gradients = pl.read_ipc(place / _GRADIENTS)
        found["colocation"] = _with_gradients(found["colocation"], gradients)
        trace = found.pop("trace")
        if trace is not None:
            run = dataclasses.replace(run, trace=trace)
        return Analysis(run=run, **found)
    return None


def _answer(run: Run, folder: str) -> dict[str, Any]:
    """Return what a new process says of a run whose ops are in ``folder``."""
    with subprocess.Popen(  # noqa: S603 - this very Python, with our own program
        [sys.executable, "-c", _PROGRAM, "\n".join(sys.path), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            pickle.dump(run, process.stdin, protocol=5)
            process.stdin.flush()
            found: dict[str, Any] = pickle.load(process.stdout)  # noqa: S301 - of our own program
            return found
        finally:
            process.kill()


def _with_ops(trace: Trace, ops: pl.DataFrame) -> Trace:
    return dataclasses.replace(trace, ops=ops)


def _with_gradients(colocation: Colocation, gradients: pl.DataFrame) -> Colocation:
    return dataclasses.replace(colocation, gradients=gradients)
