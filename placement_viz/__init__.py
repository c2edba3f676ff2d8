"""Find the gradient ops of a TensorFlow training step that run on the wrong device."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

#: Where each name is at home. It is loaded when it is first asked for: a process that
#: only reads a part of a file should not wait for all that judges and captures.
_HOMES = {
    "Analysis": "placement_viz.analysis",
    "CaptureError": "placement_viz.errors",
    "Graph": "placement_viz.model",
    "NoOpsError": "placement_viz.errors",
    "Notice": "placement_viz.model",
    "PlacementVizError": "placement_viz.errors",
    "RowKind": "placement_viz.model",
    "Run": "placement_viz.model",
    "Trace": "placement_viz.model",
    "TraceError": "placement_viz.errors",
    "TraceFormatError": "placement_viz.errors",
    "UnknownNameError": "placement_viz.errors",
    "__version__": "placement_viz.version",
    "analyze_run": "placement_viz.analysis",
    "capture_function": "placement_viz.capture",
    "capture_step": "placement_viz.capture",
    "capturing": "placement_viz.capture",
    "colocated_gradients": "placement_viz.capture",
    "compare_runs": "placement_viz.analysis",
    "keras_callback": "placement_viz.capture",
    "load_run": "placement_viz.parser",
    "parse_run": "placement_viz.parser",
    "session_run_hook": "placement_viz.capture",
}


def __getattr__(name: str) -> Any:
    """Return one of the public names."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__all__})
