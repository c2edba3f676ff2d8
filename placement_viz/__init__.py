"""Find the gradient ops of a TensorFlow training step that run on the wrong device."""

from __future__ import annotations

from placement_viz.analysis import Analysis, analyze_run, compare_runs
from placement_viz.capture import (
    capture_function,
    capture_step,
    capturing,
    colocated_gradients,
    keras_callback,
    session_run_hook,
)
from placement_viz.errors import (
    CaptureError,
    NoOpsError,
    PlacementVizError,
    TraceError,
    TraceFormatError,
    UnknownNameError,
)
from placement_viz.model import Graph, Notice, RowKind, Run, Trace
from placement_viz.parser import load_run, parse_run
from placement_viz.version import __version__

__all__ = [
    "Analysis",
    "CaptureError",
    "Graph",
    "NoOpsError",
    "Notice",
    "PlacementVizError",
    "RowKind",
    "Run",
    "Trace",
    "TraceError",
    "TraceFormatError",
    "UnknownNameError",
    "__version__",
    "analyze_run",
    "capture_function",
    "capture_step",
    "capturing",
    "colocated_gradients",
    "compare_runs",
    "keras_callback",
    "load_run",
    "parse_run",
    "session_run_hook",
]
