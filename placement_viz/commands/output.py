"""Where a result goes: a file, or standard output for ``-``."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from placement_viz.errors import PlacementVizError

__all__ = ["write_text"]

_STANDARD_OUTPUT = "-"


def write_text(destination: str, text: str) -> None:
    """Write ``text`` to the file ``destination``, or to standard output for ``-``.

    A file appears whole or not at all. What is no file, such as ``/dev/null`` or a
    pipe, is written into and never replaced; a link stays a link.

    Raises:
        PlacementVizError: The file cannot be written.
    """
    if destination == _STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = pathlib.Path(destination)
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8") as file:
                file.write(text)
            return
        path = path.resolve()
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            # mkstemp makes private files; a result is as readable as any other file.
            pathlib.Path(draft).chmod(0o644)
            pathlib.Path(draft).replace(path)
        except BaseException:
            pathlib.Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{path}: expected a place to write to, found: {reason}"
        raise PlacementVizError(message) from error
