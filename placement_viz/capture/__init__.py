"""Catching one training step of a program that is not edited.

The program runs as ``python SCRIPT ARGS…`` would run it. When it imports TensorFlow,
two places are hooked: the one where gradients are built, to know which ops they are
and what each differentiates, and ``Session.run``, to trace the run that fetches them.

============== ===========================================================
``program``    running a script as Python would
``imports``    acting when a module is imported
``gradients``  which ops compute gradients, noted while they are built
``fetches``    what a ``Session.run`` call asks for
``steps``      which runs are the training step
``tracing``    one traced run
``section``    what the timeline leaves out
``run_file``   the file that is written
``script``     all of it together
============== ===========================================================

TensorFlow is imported by the program, never by this package on its own.
"""

from __future__ import annotations

from placement_viz.capture.program import Program
from placement_viz.capture.script import CaptureSettings, capture_script

__all__ = ["CaptureSettings", "Program", "capture_script"]
