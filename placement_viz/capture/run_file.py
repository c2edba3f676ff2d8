"""The files that a captured step is written to."""

from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path
from typing import Any

import msgspec

from placement_viz.errors import CaptureError
from placement_viz.schema import SECTION, RunSection

__all__ = ["Destination", "run_file_bytes", "write_atomically"]

_SUFFIXES = (".json.gz", ".json")


@dataclasses.dataclass(frozen=True)
class Destination:
    """Where the run files of a capture go.

    Attributes:
        folder: The folder.
        stem: Their name, without what tells steps apart and without suffix.
        suffix: ``.json``, or ``.json.gz`` for compressed files.
    """

    folder: Path = Path()
    stem: str = "timeline"
    suffix: str = ".json"

    @classmethod
    def named(cls, out: Path) -> Destination:
        """Return the destination that a person means by ``out``.

        Args:
            out: A folder, or a file that ends in ``.json`` or ``.json.gz``.
        """
        for suffix in _SUFFIXES:
            if out.name.endswith(suffix) and not out.is_dir():
                return cls(out.parent, out.name.removesuffix(suffix), suffix)
        return cls(out)

    def path(self, position: int = 0, count: int = 1) -> Path:
        """Return the file for one of ``count`` steps."""
        number = f"-{position:03}" if count > 1 else ""
        return self.folder / f"{self.stem}{number}{self.suffix}"

    def raw_path(self, kind: str, position: int = 0, count: int = 1) -> Path:
        """Return the file for what TensorFlow itself gave, such as ``graph``."""
        number = f"-{position:03}" if count > 1 else ""
        return self.folder / f"{kind}{number}.pb"

    def absolute(self) -> Destination:
        """Return the same place, whatever becomes of the working directory."""
        return dataclasses.replace(self, folder=self.folder.absolute())

    def check(self) -> None:
        """Make the folder; raise CaptureError when no file can be put there."""
        probe = self.folder / f".placement_viz-{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CaptureError(
                f"{self.folder}: expected a folder to write to, found: "
                f"{error.strerror}; choose another with --out"
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
    """Write ``content`` to ``path`` so that nobody ever sees half of it.

    Args:
        path: The file; content is compressed for a name that ends in ``.gz``.
        content: What to write.
    """
    if path.name.endswith(".gz"):
        # Without a time, so that equal runs are equal files.
        content = gzip.compress(content, mtime=0)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise CaptureError(
            f"{path}: expected to write {len(content)} bytes, found: "
            f"{error.strerror}; choose another folder with --out"
        ) from error
    finally:
        part.unlink(missing_ok=True)
