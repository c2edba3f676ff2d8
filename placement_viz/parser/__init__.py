"""Files into runs: one door for every format.

``load_run`` reads a path and ``parse_run`` reads bytes that are already here, such
as an upload. Both give a :class:`~placement_viz.model.Run` or raise one
:class:`~placement_viz.errors.TraceError`, whatever the bytes.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator

from placement_viz.model import Run
from placement_viz.parser import files, graphdef, step_stats, timeline, xplane

__all__ = ["load_run", "parse_run"]


def load_run(
    path: str | pathlib.Path, *, graph: str | pathlib.Path | None = None
) -> Run:
    """Return the run that a file records.

    Args:
        path: A TensorFlow timeline, a run file, or RunMetadata or StepStats (binary
            or text) or a profiler's xplane, which need TensorFlow; plain or gzipped,
            recognised by its content, not by its name.
        graph: A GraphDef (``.pb`` or ``.pbtxt``) of the program, for a timeline
            that carries none.

    Raises:
        TraceFormatError: The file cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    path = pathlib.Path(path)
    run = _read(lambda: files.open_pieces(path), source=str(path))
    if graph is None:
        return run
    return dataclasses.replace(run, graph=graphdef.load_graph(pathlib.Path(graph)))


def parse_run(data: bytes, *, source: str, limit_bytes: int = files.LIMIT_BYTES) -> Run:
    """Return the run that ``data`` records.

    Args:
        data: The content of a file, plain or gzipped.
        source: What to call it in messages and results.
        limit_bytes: The most that the content may grow to when it is unpacked.

    Raises:
        TraceFormatError: The data cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    return _read(
        lambda: files.pieces_of(data, source=source, limit_bytes=limit_bytes),
        source=source,
    )


def _read(open_pieces: Callable[[], Iterator[bytes]], *, source: str) -> Run:
    """Return the run in a text or message of any known kind."""
    head = next(open_pieces(), b"")
    if xplane.is_xplane(head):
        return xplane.read_xplane(
            files.whole(open_pieces(), source=source), source=source
        )
    is_json = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
    if is_json or not step_stats.is_step_stats(head):
        return timeline.read_timeline(open_pieces, source=source)
    trace = step_stats.timeline_of(
        files.whole(open_pieces(), source=source), source=source
    )
    run = timeline.read_timeline(
        lambda: files.pieces_of(trace, source=source), source=source
    )
    return dataclasses.replace(run, format="tensorflow-step-stats")
