"""Capturing the training step of a script from start to end."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from placement_viz.capture.hooks import Hooks
from placement_viz.capture.program import Program, run_program
from placement_viz.capture.run_file import (
    check_folder,
    run_file_bytes,
    write_atomically,
)
from placement_viz.capture.section import run_section
from placement_viz.capture.steps import Schedule, StepSelection
from placement_viz.errors import CaptureError
from placement_viz.units import format_count

__all__ = ["FILE_NAME", "CaptureSettings", "capture_script"]

FILE_NAME = "timeline.json"


@dataclasses.dataclass(frozen=True)
class CaptureSettings:
    """What to capture and where to put it.

    Attributes:
        placement: ``as-is``, or ``colocated`` to build gradients on the devices of
            their forward ops whatever the program asks for.
        step: Which run of the training step to trace, counted from 1.
        folder: Where the file goes.
    """

    placement: str = "as-is"
    step: int = 3
    folder: Path = Path()

    @property
    def path(self) -> Path:
        """Return the file that is written."""
        return self.folder / FILE_NAME


def capture_script(
    program: Program, settings: CaptureSettings, notify: Callable[[str], None]
) -> int:
    """Run ``program``, write one traced run of its training step, return its exit code.

    Args:
        program: Runs as it would without capture.
        settings: What to capture and where to put it.
        notify: Called with each line that the person should read.

    Raises:
        CaptureError: Nothing was captured, although the program ended well; or the
            program could not be started.
    """
    program.check()
    check_folder(settings.folder)
    if importlib.util.find_spec("tensorflow") is None:
        raise CaptureError(
            f"{program.script}: expected TensorFlow to be installed, found none for "
            f"{sys.executable}; install it there (pip install tensorflow)"
        )
    capture = _Capture(program, settings, notify)
    exit_code = run_program(program)
    error = capture.finish()
    if error is None:
        return exit_code
    if exit_code == 0:
        raise error
    notify(str(error))
    return exit_code


class _Capture:
    """One capture, from before the program starts until its file is written."""

    def __init__(
        self,
        program: Program,
        settings: CaptureSettings,
        notify: Callable[[str], None],
    ) -> None:
        self._program = program
        self._settings = settings
        self._notify = notify
        # The program may change the working directory.
        self._target = settings.path.absolute()
        self._is_saved = False
        self._error: CaptureError | None = None
        self._selection = StepSelection(Schedule(settings.step), self._save)
        self._hooks = Hooks(self._selection, colocate=settings.placement == "colocated")
        self._hooks.attach_when_imported()

    def finish(self) -> CaptureError | None:
        """Write what was traced, if that has not happened; return what prevents it."""
        self._hooks.stop()
        if not self._selection.kept:
            return CaptureError(f"{self._program.script}: {self._why_nothing()}")
        if self._selection.failure is not None:
            self._notify(
                f"{self._program.script}: a run could not be traced: "
                f"{_one_line(self._selection.failure)}"
            )
        self._save()
        return self._error

    def _save(self) -> None:
        """Write the file once; an error waits until the program has ended."""
        if self._is_saved:
            return
        self._is_saved = True
        try:
            self._notify(self._write())
        except CaptureError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - the training must go on
            self._error = CaptureError(
                f"{self._settings.path}: expected to describe the traced step, found "
                f"{_one_line(error)}; please report it"
            )

    def _write(self) -> str:
        """Write the file and return what to say about it."""
        from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415

        step = self._selection.kept[-1].finished()
        metadata = config_pb2.RunMetadata.FromString(step.metadata)
        if not metadata.step_stats.dev_stats and step.function is None:
            raise CaptureError(
                f"{self._program.script}: expected the traced step to record devices, "
                "found none; this kind of session does not support FULL_TRACE"
            )
        section = msgspec.structs.replace(
            run_section(step, metadata, self._hooks.notes, self._program),
            placement=self._settings.placement,
            step_times_us=step.times_us or tuple(self._selection.times_us),
        )
        content = run_file_bytes(metadata.step_stats, section)
        write_atomically(self._target, content)
        return self._success(metadata.step_stats.dev_stats)

    def _success(self, device_stats: Sequence[Any]) -> str:
        traced, n_runs = self._selection.kept[-1], self._selection.n_runs
        rows = [d for d in device_stats if d.device.startswith("/job:")]
        n_ops = sum(len(row.node_stats) for row in rows)
        runs = format_count(n_runs, "run")
        if traced.number < self._settings.step:
            runs += f"; --step asked for {self._settings.step}"
        return (
            f"captured run {traced.number} of the training step ({runs}): "
            f"{self._settings.path}, {format_count(n_ops, 'op')} on "
            f"{format_count(len(rows), 'device')}"
        )

    def _why_nothing(self) -> str:
        n_calls = self._selection.n_calls
        if self._selection.failure is not None:
            return (
                "expected to trace the training step, found that tracing fails, and "
                f"ran it untraced: {_one_line(self._selection.failure)}"
            )
        if "tensorflow" not in sys.modules:
            return (
                "expected a TensorFlow program, found that it never imports "
                "tensorflow; name the script that trains"
            )
        if n_calls == 0:
            return (
                "expected a training step, found no Session.run call and no call of a "
                "tf.function; eager code has no graph to trace: put the step, the "
                "gradients with it, into a tf.function"
            )
        return (
            f"expected a step that computes gradients, found "
            f"{format_count(n_calls, 'call')} of sessions and functions and none that "
            "does; fetch a train op or gradients, or call tape.gradient inside the "
            "tf.function"
        )


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
