"""Capturing the training step of a script from start to end."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

from placement_viz.capture.program import Program, run_program
from placement_viz.capture.recorder import CaptureSettings, Recorder
from placement_viz.errors import CaptureError

__all__ = ["capture_script"]


def capture_script(
    program: Program, settings: CaptureSettings, notify: Callable[[str], None]
) -> int:
    """Run ``program``, write traced runs of its training step, return its exit code.

    Args:
        program: Runs as it would without capture.
        settings: What to capture and where to put it.
        notify: Called with each line that the person should read.

    Returns:
        The exit code; negative, the number of a signal, when one ended the program.

    Raises:
        CaptureError: Nothing was captured, although the program ended well; or the
            program could not be started.
    """
    program.check()
    settings.destination.check()
    if importlib.util.find_spec("tensorflow") is None:
        raise CaptureError(
            f"{program.name}: expected TensorFlow to be installed, found none for "
            f"{sys.executable}; install it there (pip install tensorflow)"
        )
    recorder = Recorder(program, settings, notify)
    recorder.start()
    exit_code = run_program(program)
    error = recorder.finish()
    if error is None:
        return exit_code
    if exit_code == 0:
        raise error
    notify(str(error))
    return exit_code
