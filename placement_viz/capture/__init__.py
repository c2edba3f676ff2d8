"""Catching one training step of a program that is not edited.

The program runs as ``python SCRIPT ARGS…`` would run it. When it imports TensorFlow, a
few places are hooked: where gradients are built, to know which ops they are and what
each differentiates, and where a step is run. A ``Session.run`` is traced as it happens;
a call of a ``tf.function``, of which TensorFlow tells nothing, is copied and run again.

==================== ======================================================
``program``          running a script or module as Python would
``imports``          acting when a module is imported
``hooks``            all places that are hooked
``gradients``        which ops compute gradients, and of what
``graph_gradients``  noted for ``tf.gradients``
``tape_gradients``   noted for ``GradientTape``
``steps``            which runs of which step are traced
``sessions``         steps that are ``Session.run`` calls
``fetches``          what such a call asks for
``functions``        steps that are calls of a ``tf.function``
``function_inputs``  what such a call passes
``copies``           copies of that
``snapshots``        a call with its copies
``inlining``         a function's graph, flat
``bodies``             ops inside loops and branches
``replay``           the copies, run in a session
``tracing``          one traced run
``section``          what the timeline leaves out
``sources``          the program's lines
``machine``          the machine
``run_file``         the files that are written
``recorder``         one capture
``script``           of a whole program
``doors``            from a program's own code
``colocation``       colocated gradients, tape or not
==================== ======================================================

TensorFlow is imported by the program, never by this package on its own.
"""

from __future__ import annotations

from placement_viz.capture.colocation import colocated_gradients
from placement_viz.capture.doors import (
    capture_function,
    capture_step,
    capturing,
    keras_callback,
    session_run_hook,
)
from placement_viz.capture.program import Program
from placement_viz.capture.recorder import CaptureSettings
from placement_viz.capture.run_file import Destination
from placement_viz.capture.script import capture_script
from placement_viz.capture.steps import Schedule

__all__ = [
    "CaptureSettings",
    "Destination",
    "Program",
    "Schedule",
    "capture_function",
    "capture_script",
    "capture_step",
    "capturing",
    "colocated_gradients",
    "keras_callback",
    "session_run_hook",
]
