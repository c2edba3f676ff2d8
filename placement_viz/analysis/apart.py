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
import pickle
import subprocess
import sys
import threading
from typing import Any

from placement_viz.analysis import Analysis, analyze_run
from placement_viz.model import Run

__all__ = ["LARGE_OPS", "judge_here", "judge_run"]

#: Fewer are judged before another process has started.
LARGE_OPS = 50_000
#: Who looks at a window goes first.
_NICE = 10

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
    "from placement_viz.analysis.apart import judge_here; judge_here()"
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


def judge_here() -> None:
    """Judge the run on standard input; the program of a process.

    The process ends when its input does, as then nobody waits for the verdicts.
    """
    if hasattr(os, "nice"):
        os.nice(_NICE)
    run = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one

    def end_with_input() -> None:
        sys.stdin.buffer.read(1)
        os._exit(1)

    threading.Thread(target=end_with_input, daemon=True).start()
    analysis = analyze_run(run)
    trace = analysis.run.trace
    # Who asks has the run, and of the trace nearly always all of it.
    answer = _facts(analysis) | {"trace": None if trace is run.trace else trace}
    pickle.dump(answer, sys.stdout.buffer, protocol=5)
    sys.stdout.flush()
    os._exit(0)


def _facts(analysis: Analysis) -> dict[str, Any]:
    """Return an analysis without its run, and without what was only looked up."""
    found = {
        each.name: getattr(analysis, each.name)
        for each in dataclasses.fields(analysis)
        if each.name != "run"
    }
    return found | {"colocation": dataclasses.replace(analysis.colocation)}


def _judged_apart(run: Run) -> Analysis | None:
    """Return the analysis; None when the process did not give one."""
    # Without what is remembered of a trace, to which others may add meanwhile.
    bare = dataclasses.replace(run, trace=dataclasses.replace(run.trace))
    with subprocess.Popen(  # noqa: S603 - this very Python, with our own program
        [sys.executable, "-c", _PROGRAM, "\n".join(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                pickle.dump(bare, process.stdin, protocol=5)
                process.stdin.flush()
            found = pickle.load(process.stdout)  # noqa: S301 - of our own program
        except (EOFError, OSError, pickle.PickleError, TypeError, AttributeError):
            return None
        finally:
            process.kill()
    trace = found.pop("trace")
    if trace is not None:
        run = dataclasses.replace(run, trace=trace)
    return Analysis(run=run, **found)
