"""Files into runs: one door for every format.

``load_run`` reads a path and ``parse_run`` reads bytes that are already here, such
as an upload. Both give a :class:`~placement_viz.model.Run` or raise one
:class:`~placement_viz.errors.TraceError`, whatever the bytes.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator

from placement_viz.errors import NoOpsError
from placement_viz.model import Notice, Run
from placement_viz.parser import (
    event_file,
    files,
    graph_files,
    placement_log,
    step_stats,
    timeline,
)

__all__ = ["load_run", "parse_run"]

_PLACED_ONLY = Notice(
    "placed-only",
    "the graph beside this trace is a log of placement: it says where ops were placed "
    "that did not run, and nothing of what the program asks for, so an explicit "
    "tf.device cannot be told from none",
)


def load_run(
    path: str | pathlib.Path, *, graph: str | pathlib.Path | None = None
) -> Run:
    """Return the run that a file records.

    Args:
        path: A TensorFlow timeline, a run file, a log of ``log_device_placement``, or
            RunMetadata or StepStats (binary or text) or an event file of TensorBoard,
            which need TensorFlow; plain or gzipped; recognised by its content, not by
            its name.
        graph: The graph of the program, for a run that carries none: any file or
            folder that :func:`~placement_viz.parser.graph_files.load_graph` reads.

    Raises:
        TraceFormatError: The file cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    path = pathlib.Path(path)
    run = _read(lambda: files.open_pieces(path), source=str(path))
    if graph is None:
        return run
    found = graph_files.load_graph(pathlib.Path(graph))
    trace = run.trace
    if not found.nodes:
        trace = dataclasses.replace(trace, notices=(*trace.notices, _PLACED_ONLY))
    return dataclasses.replace(run, graph=found, trace=trace)


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
    if event_file.is_event_file(head):
        return _read_events(files.whole(open_pieces(), source=source), source=source)
    if not timeline.is_json(head):
        if placement_log.is_placement_log(head):
            data = files.whole(open_pieces(), source=source)
            return placement_log.read_placement_log(data, source=source)
        if step_stats.is_step_stats(head):
            data = files.whole(open_pieces(), source=source)
            return _read_step_stats(data, source=source)
    return timeline.read_timeline(open_pieces, source=source)


def _read_step_stats(data: bytes, *, source: str) -> Run:
    trace = step_stats.timeline_of(data, source=source)
    run = timeline.read_timeline(
        lambda: files.pieces_of(trace, source=source), source=source
    )
    return dataclasses.replace(run, format="tensorflow-step-stats")


def _read_events(data: bytes, *, source: str) -> Run:
    """Return the last step in an event file, with the graph that was logged."""
    events = event_file.parse_event_file(data, source=source)
    if not events.steps:
        raise NoOpsError(
            f"{source}: no RunMetadata among these events; "
            "FileWriter.add_run_metadata logs that of a traced step"
        )
    tag, metadata = events.steps[-1]
    run = _read_step_stats(metadata, source=source)
    notices = [*events.notices, *run.trace.notices]
    if (n_steps := len(events.steps)) > 1:
        text = (
            f"the file holds {n_steps} traced steps; this is the last, tagged {tag!r}"
        )
        notices.append(Notice("last-step", text))
    trace = dataclasses.replace(
        run.trace,
        skipped={**run.trace.skipped, **events.skipped},
        notices=tuple(notices),
    )
    return dataclasses.replace(
        run, format="tensorboard-events", trace=trace, graph=events.graph
    )
