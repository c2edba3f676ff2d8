"""One capture: hooks in TensorFlow, the steps they caught, and the files of those."""

from __future__ import annotations

import dataclasses
import re
import statistics
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from placement_viz.capture.functions import CONCRETE_MODULE
from placement_viz.capture.hooks import Hooks
from placement_viz.capture.program import Program
from placement_viz.capture.run_file import (
    Destination,
    run_file_bytes,
    write_atomically,
)
from placement_viz.capture.section import run_section
from placement_viz.capture.steps import Schedule, StepSelection
from placement_viz.capture.tape_gradients import TAPE_MODULE
from placement_viz.capture.tracing import TracedStep, one_line
from placement_viz.errors import CaptureError
from placement_viz.schema import RunSection
from placement_viz.units import format_count, format_us

__all__ = ["CaptureSettings", "Recorder"]


@dataclasses.dataclass(frozen=True)
class CaptureSettings:
    """What to capture and where to put it.

    Attributes:
        placement: ``as-is``, or ``colocated`` to build gradients on the devices of
            their forward ops whatever the program asks for.
        schedule: Which runs of the training step to trace.
        pattern: What to find in a fetch or in a function's name for it to be the
            training step; None for what computes gradients.
        destination: Where the files go.
        keep_raw: Whether to write TensorFlow's own protos too.
    """

    placement: str = "as-is"
    schedule: Schedule = dataclasses.field(default_factory=Schedule)
    pattern: re.Pattern[str] | None = None
    destination: Destination = dataclasses.field(default_factory=Destination)
    keep_raw: bool = False


class Recorder:
    """Catches the training step of the program around it and writes it."""

    def __init__(
        self,
        program: Program,
        settings: CaptureSettings,
        notify: Callable[[str], None],
        *,
        is_dry: bool = False,
    ) -> None:
        """Prepare to catch steps; nothing is hooked yet.

        Args:
            program: What runs, for the record.
            settings: What to capture and where to put it.
            notify: Called with each line that the person should read.
            is_dry: Whether calls of functions are copied and not made.
        """
        self._program = program
        self._settings = settings
        self._notify = notify
        # The program may change the working directory.
        self._target = settings.destination.absolute()
        self._is_saved = False
        self._error: CaptureError | None = None
        self._selection = StepSelection(settings.schedule, self._save)
        self._hooks = Hooks(
            self._selection,
            settings.pattern,
            colocate=settings.placement == "colocated",
            is_dry=is_dry,
        )

    def start(self) -> None:
        """Hook TensorFlow, now or when the program imports it."""
        self._hooks.attach_when_imported()

    def finish(self) -> CaptureError | None:
        """Write what was traced, if that has not happened; return what prevents it."""
        self._hooks.stop()
        if not self._selection.kept:
            return CaptureError(f"{self._program.name}: {self._why_nothing()}")
        if self._selection.failure is not None:
            self._notify(
                f"{self._program.name}: a run could not be traced: "
                f"{one_line(self._selection.failure)}"
            )
        self._save()
        return self._error

    def _save(self) -> None:
        """Write the files once; an error waits until the program has ended."""
        if self._is_saved:
            return
        self._is_saved = True
        # From here on the training is as fast as without capture.
        self._hooks.stop()
        try:
            with self._selection.aside():
                self._write_all()
        except CaptureError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - the training must go on
            self._error = CaptureError(
                f"{self._target.path()}: expected to describe the traced step, found "
                f"{one_line(error)}; please report it"
            )

    def _write_all(self) -> None:
        kept = self._selection.kept
        for position, item in enumerate(kept):
            self._write(item.finished(), position, len(kept))

    def _write(self, step: TracedStep, position: int, count: int) -> None:
        """Write the file of one step, and say so."""
        from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415

        metadata = config_pb2.RunMetadata.FromString(step.metadata)
        if not metadata.step_stats.dev_stats and step.function is None:
            raise CaptureError(
                f"{self._program.name}: expected the traced step to record devices, "
                "found none; this kind of session does not support FULL_TRACE"
            )
        section = run_section(step, metadata, self._hooks.notes, self._program)
        section = msgspec.structs.replace(
            section,
            placement=self._settings.placement,
            step_times_us=step.times_us or tuple(self._selection.times_us),
        )
        path = self._target.path(position, count)
        write_atomically(path, run_file_bytes(metadata.step_stats, section))
        if self._settings.keep_raw:
            self._write_raw(step, position, count)
        shown = self._settings.destination.path(position, count)
        self._notify(f"{self._what(section)}: {shown}, {_extent(metadata, section)}")
        for remark in section.remarks:
            self._notify(f"note: {remark}")

    def _write_raw(self, step: TracedStep, position: int, count: int) -> None:
        graph = step.graph.as_graph_def().SerializeToString()
        write_atomically(self._target.raw_path("graph", position, count), graph)
        write_atomically(
            self._target.raw_path("run_metadata", position, count), step.metadata
        )

    def _what(self, section: RunSection) -> str:
        """Return which run it is that was captured, in words."""
        runs = format_count(self._selection.n_runs, "run")
        first = self._settings.schedule.first
        if section.step < first:
            runs += f"; --step asked for {first}"
        step = "the training step"
        if section.function:
            step = f"the tf.function {section.function}"
            step += ", replayed" if section.is_replayed else ", its placement alone"
        return f"captured run {section.step} of {step} ({runs})"

    def _why_nothing(self) -> str:
        """Return why nothing was traced, and what to do."""
        selection, pattern = self._selection, self._settings.pattern
        unknown = self._hooks.failures.get(TAPE_MODULE)
        is_colocating = self._settings.placement == "colocated"
        calls = f"{format_count(selection.n_calls, 'call')} of sessions and functions"
        if selection.failure is not None:
            return (
                "expected to trace the training step, found that tracing fails, and "
                f"ran it untraced: {one_line(selection.failure)}"
            )
        if "tensorflow" not in sys.modules:
            return (
                "expected a TensorFlow program, found that it never imports "
                "tensorflow; name the script that trains"
            )
        if is_colocating and unknown is not None:
            return (
                f"expected a Session.run call, found none, and {one_line(unknown)}; "
                "capture it with --placement as-is"
            )
        if selection.n_calls == 0:
            return self._why_no_call()
        if pattern is not None:
            return (
                f"expected a step that {pattern.pattern!r} finds, found {calls} and "
                "none by such a name"
            )
        return (
            f"expected a step that computes gradients, found {calls} and none that "
            "does; fetch a train op or gradients, or call tape.gradient inside the "
            "tf.function"
        )

    def _why_no_call(self) -> str:
        if CONCRETE_MODULE not in self._hooks.attached:
            return (
                "expected a Session.run call, found none; calls of a tf.function can "
                "be captured with TensorFlow 2.15 and later"
            )
        return (
            "expected a training step, found no Session.run call and no call of a "
            "tf.function; eager code has no graph to trace: put the step, the "
            "gradients with it, into a tf.function"
        )


def _extent(metadata: Any, section: RunSection) -> str:
    """Return how much was captured, and what tracing cost."""
    devices = [
        row for row in metadata.step_stats.dev_stats if row.device.startswith("/job:")
    ]
    n_ops = sum(len(device.node_stats) for device in devices)
    names = {device.device for device in devices}
    if section.function and not section.is_replayed:
        n_ops = sum(map(len, section.placed.values()))
        names = set(section.placed)
    extent = f"{format_count(n_ops, 'op')} on {format_count(len(names), 'device')}"
    if section.step_times_us:
        untraced = format_us(statistics.median(section.step_times_us))
        extent += f"; {format_us(section.traced_step_us)} traced, {untraced} untraced"
    return extent
