"""The lines of the program behind its ops."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from placement_viz.capture.program import PACKAGE_FOLDER

__all__ = ["SourceLines", "current_stack"]

#: Packages whose frames are never the line a person wrote.
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "tf_slim")


def current_stack() -> Any:
    """Return the stack of the caller, as TensorFlow keeps it for an op."""
    from tensorflow.python.util import tf_stack  # noqa: PLC0415

    return tf_stack.extract_stack()


class SourceLines:
    """The lines of the program that created ops, each listed once."""

    def __init__(self, folder: Path) -> None:
        """Start with no lines.

        Args:
            folder: Files below it are named relative to it.
        """
        self.lines: dict[str, int] = {}
        self._folder = folder
        self._foreign = (
            PACKAGE_FOLDER,
            runpy.__file__,
            "<frozen ",
            *_framework_folders(),
        )
        self._shown: dict[str, str | None] = {}

    def position(self, stack: Any) -> int | None:
        """Return the position of the innermost line of the program in ``stack``.

        Args:
            stack: What TensorFlow keeps of an op's creation; may be None.
        """
        for frame in _innermost_first(stack):
            file = self._show(frame.filename)
            if file is not None:
                line = f"{file}:{frame.lineno}"
                return self.lines.setdefault(line, len(self.lines))
        return None

    def _show(self, file: str) -> str | None:
        """Return how a file of the program is shown; None for any other file."""
        if file not in self._shown:
            self._shown[file] = (
                None if file.startswith(self._foreign) else self._name(file)
            )
        return self._shown[file]

    def _name(self, file: str) -> str:
        path = Path(file).resolve()
        if path.is_relative_to(self._folder):
            return path.relative_to(self._folder).as_posix()
        return path.name


def _framework_folders() -> Iterable[str]:
    for name in _FRAMEWORKS:
        # Not tensorflow.__file__ alone: Keras is loaded lazily and may be absent.
        for folder in getattr(sys.modules.get(name), "__path__", ()):
            yield str(folder).rstrip(os.sep) + os.sep


def _innermost_first(stack: Any) -> Sequence[Any]:
    if stack is None:
        return ()
    # Leaves out TensorFlow's own frames, which are most of them, and is read at
    # native speed.
    user_frames = getattr(stack, "get_user_frames", None)
    frames = list(user_frames() if user_frames else stack)
    return frames[::-1]
