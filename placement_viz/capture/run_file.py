"""The file that a captured step is written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from placement_viz.errors import CaptureError
from placement_viz.schema import SECTION, RunSection

__all__ = ["check_folder", "run_file_bytes", "write_atomically"]


def check_folder(folder: Path) -> None:
    """Make ``folder`` and raise :class:`CaptureError` when no file can be put there."""
    probe = folder / f".placement_viz-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CaptureError(
            f"{folder}: expected a folder to write to, found: {error.strerror}; "
            "choose another with --out"
        ) from error


def run_file_bytes(step_stats: Any, section: RunSection) -> bytes:
    """Return TensorFlow's own Chrome trace of a step with ``section`` added."""
    from tensorflow.python.client import timeline  # noqa: PLC0415

    trace = timeline.Timeline(step_stats).generate_chrome_trace_format(
        show_memory=False
    )
    events = msgspec.json.decode(trace)["traceEvents"]
    return msgspec.json.encode({"traceEvents": events, SECTION: section})


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that nobody ever sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CaptureError(
            f"{path}: expected to write {len(content)} bytes, found: "
            f"{error.strerror}; choose another folder with --out"
        ) from error
