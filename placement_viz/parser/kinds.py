"""What kind of file it is, by its content, and the runs in it."""

from __future__ import annotations

import dataclasses

from placement_viz.errors import NoOpsError
from placement_viz.model import Run
from placement_viz.parser import (
    event_file,
    files,
    placement_log,
    step_stats,
    timeline,
    xplane,
)
from placement_viz.parser.events import is_json, not_json
from placement_viz.parser.files import Content
from placement_viz.parser.steps import Step

__all__ = ["read_steps"]


def read_steps(content: Content) -> list[Step]:
    """Return the steps in a file of any known kind, at least one.

    Raises:
        TraceFormatError: It cannot be read or is of another kind.
        NoOpsError: It is a trace in which no op ran.
    """
    head = content.head()
    if event_file.is_event_file(head):
        return _steps_of_events(content)
    if xplane.is_xplane(head):
        run = xplane.read_xplane(content.whole(), source=content.source)
    elif is_json(head):
        run = timeline.read_timeline(content)
    elif placement_log.is_placement_log(head):
        run = placement_log.read_placement_log(content.whole(), source=content.source)
    elif step_stats.is_step_stats(head):
        run = _run_of_step_stats(content.whole(), content.source)
    else:
        raise not_json(head, content.source)
    return [Step(content.name, run)]


def _run_of_step_stats(data: bytes, source: str) -> Run:
    found = step_stats.timeline_of(data, source=source)
    run = timeline.read_timeline(files.content_of(found.trace, source=source))
    recorded = found.recorded(run.trace.origin_us)
    trace = dataclasses.replace(run.trace, recorded=recorded)
    return dataclasses.replace(run, format="tensorflow-step-stats", trace=trace)


def _steps_of_events(content: Content) -> list[Step]:
    """Return the steps that were logged in an event file, each with its graph."""
    events = event_file.parse_event_file(content.whole(), source=content.source)
    steps: list[Step] = []
    for tag, metadata in events.steps:
        run = _run_of_step_stats(metadata, content.source)
        trace = run.trace
        if not steps:
            # What the file is besides its steps is said once.
            trace = dataclasses.replace(
                trace,
                skipped={**trace.skipped, **events.skipped},
                notices=(*events.notices, *trace.notices),
            )
        run = dataclasses.replace(
            run, format="tensorboard-events", trace=trace, graph=events.graph
        )
        steps.append(Step(tag, run))
    if not steps:
        message = (
            f"{content.source}: no RunMetadata among these events; "
            "FileWriter.add_run_metadata logs that of a traced step"
        )
        raise NoOpsError(message)
    return steps
