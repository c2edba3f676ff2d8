"""Files into runs: one door for every format.

``load_run`` reads a path and ``parse_run`` reads bytes that are already here, such
as an upload. Both give a :class:`~placement_viz.model.Run` or raise one
:class:`~placement_viz.errors.TraceError`, whatever the bytes.

::

    places     a file, a zip, a folder or a pattern: the files that may be steps
    files      what one of them holds, unpacked (packing) and bounded
    kinds      which format it is, by content
      timeline   TensorFlow's timeline and our run file; rows: what its labels say
      chrome     what other programs write in Chrome's format, each in its own dialect
      xplane, step_stats, event_file, placement_log
    folding    events into columns: ahead (growing) of the end of a file that is still
               sent, in parts, by a stream, or at once
    steps      several steps joined, and files taken apart in which they were joined
    graph_files  the graph beside a trace
    cache      what was read before, stored (stored, cache_folder) to be read again
"""

from __future__ import annotations

import dataclasses
import pathlib

from placement_viz.errors import TraceError, TraceFormatError
from placement_viz.model import Notice, Run
from placement_viz.parser import files, graph_files
from placement_viz.parser.ahead import Ahead, Sent, read_ahead
from placement_viz.parser.cache import Cache, user_cache
from placement_viz.parser.kinds import read_steps
from placement_viz.parser.places import OnProgress, Place, find, place_of
from placement_viz.parser.steps import Step, join_steps
from placement_viz.units import format_count

__all__ = ["Ahead", "load_named", "load_run", "parse_run", "read_ahead"]

_PLACED_ONLY = Notice(
    "placed-only",
    "the graph beside this trace is a log of placement: it says where ops were placed "
    "that did not run, and nothing of what the program asks for, so an explicit "
    "tf.device cannot be told from none",
)


def load_run(
    path: str | pathlib.Path,
    *,
    graph: str | pathlib.Path | None = None,
    cache: bool = True,
    on_progress: OnProgress | None = None,
) -> Run:
    """Return the run that a file, or several files together, record.

    Args:
        path: A file of any kind in :mod:`~placement_viz.parser.kinds`, recognised by
            its content and not by its name, plain or packed by gzip, Zstandard or zip.
            A folder, a pattern such as ``steps/*.json`` and a zip of several files are
            a run of several steps, in natural order of the names.
        graph: The graph of the program, for a run that carries none: any file or
            folder that :func:`~placement_viz.parser.graph_files.load_graph` reads.
        cache: Whether what was read of a large file is stored in the user's cache
            folder, and read from there the next time.
        on_progress: Called now and then with how many bytes have been read, and of how
            many. What it raises ends the reading.

    Raises:
        TraceFormatError: It cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    place = find(pathlib.Path(path), on_progress=on_progress)
    run = _read(place, user_cache() if cache else None)
    if graph is None:
        return run
    found = graph_files.load_graph(pathlib.Path(graph))
    trace = run.trace
    if not found.nodes:
        trace = dataclasses.replace(trace, notices=(*trace.notices, _PLACED_ONLY))
    return dataclasses.replace(run, graph=found, trace=trace)


def load_named(
    path: pathlib.Path,
    *,
    source: str,
    limit_bytes: int = files.LIMIT_BYTES,
    on_progress: OnProgress | None = None,
    ahead: Ahead | None = None,
) -> Run:
    """Return the run in a file whose own name says nothing to a person.

    Args:
        path: As in :func:`load_run`; nothing of it is stored in a cache.
        source: What to call it in messages and results.
        limit_bytes: The most that a file may grow to when it is unpacked.
        on_progress: As in :func:`load_run`.
        ahead: Who has read the file while it was written, and was told of all of it;
            the run is the same without.

    Raises:
        TraceFormatError: It cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    place = find(path, on_progress=on_progress, source=source, limit_bytes=limit_bytes)
    if ahead is not None and not place.is_collection:
        contents = tuple(Sent.of(content, ahead) for content in place.contents)
        place = dataclasses.replace(place, contents=contents)
    return _read(place)


def parse_run(data: bytes, *, source: str, limit_bytes: int = files.LIMIT_BYTES) -> Run:
    """Return the run that ``data`` records.

    Args:
        data: The content of a file, plain or packed; a zip of several files is a run
            of several steps.
        source: What to call it in messages and results.
        limit_bytes: The most that the content may grow to when it is unpacked.

    Raises:
        TraceFormatError: The data cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    return _read(
        place_of(files.content_of(data, source=source, limit_bytes=limit_bytes))
    )


def _read(place: Place, cache: Cache | None = None) -> Run:
    steps: list[Step] = []
    left_out: list[TraceError] = []
    for content in place.contents:
        try:
            steps += (
                cache.read_steps(content, read_steps) if cache else read_steps(content)
            )
        except TraceError as error:
            if not place.is_collection:
                raise
            left_out.append(error)
    if not steps:
        raise TraceFormatError(
            f"{place.source}: expected a trace among "
            f"{format_count(len(left_out), 'file')}, found none; {left_out[0]}"
        )
    run = join_steps(steps, place.source)
    if not left_out:
        return run
    notice = Notice(
        "left-out",
        f"{format_count(len(left_out), 'file')} of {len(place.contents):,} could not "
        f"be read and left out; {left_out[0]}",
    )
    trace = dataclasses.replace(run.trace, notices=(notice, *run.trace.notices))
    return dataclasses.replace(run, trace=trace)
