"""Where a run is: a file, a zip, a folder or a pattern of files."""

from __future__ import annotations

import dataclasses
import glob
import os
import pathlib
from collections.abc import Callable, Sequence

from placement_viz.errors import TraceFormatError
from placement_viz.parser.files import (
    LIMIT_BYTES,
    Content,
    content_of_file,
    natural_order,
)
from placement_viz.units import format_count

__all__ = ["OnProgress", "Place", "find", "place_of"]

#: Takes how many bytes have been read, and of how many.
OnProgress = Callable[[int, int], None]

#: The most files that are opened for one run; each may be a step.
_MOST_FILES = 10_000


@dataclasses.dataclass(frozen=True)
class Place:
    """Files that may be steps of one run.

    Attributes:
        source: What to call it in messages and results.
        contents: At least one, in the order of the steps.
        is_collection: Whether there may be files among them that are no trace.
    """

    source: str
    contents: tuple[Content, ...]
    is_collection: bool


def find(
    path: pathlib.Path,
    *,
    on_progress: OnProgress | None = None,
    source: str | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> Place:
    """Return what is at ``path``: a file, a zip, a folder, or all that a pattern finds.

    Args:
        path: With ``*``, ``?`` or ``[…]`` a pattern, unless there is such a file.
        on_progress: Told how far the files have been read.
        source: What to call it, instead of its path.
        limit_bytes: The most that a file may grow to when it is unpacked.

    Raises:
        TraceFormatError: There is nothing, or it cannot be read.
    """
    files = _files_at(path)
    if files is None:
        content = content_of_file(path, source=source, limit_bytes=limit_bytes)
        place = place_of(content)
    else:
        place = _collection(source or str(path), files, limit_bytes)
    return _with_progress(place, on_progress)


def place_of(content: Content) -> Place:
    """Return the one content, or all that it holds when it is a zip.

    Raises:
        TraceFormatError: It is a damaged or an empty zip.
    """
    members = content.members()
    if members is None:
        return Place(content.source, (content,), is_collection=False)
    if not members:
        message = f"{content.source}: expected traces in this zip, found no file in it"
        raise TraceFormatError(message)
    return Place(content.source, members, is_collection=True)


def _files_at(path: pathlib.Path) -> list[pathlib.Path] | None:
    """Return the files in a folder, or those that a pattern fits; None for a file."""
    if _is_folder(path):
        found = [each for each in _listed(path) if not each.name.startswith(".")]
        folders = sorted(each.name for each in found if each.is_dir())
        files = [each for each in found if each.is_file()]
        if not files:
            also = f" but the folders {', '.join(folders[:5])}" if folders else ""
            raise TraceFormatError(
                f"{path}: expected traces in this folder, found no file in it{also}; "
                "name a file, or the folder that holds the steps"
            )
        return files
    if glob.has_magic(str(path)) and not _exists(path):
        found = [pathlib.Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207 - a pattern may be absolute
        files = [each for each in found if each.is_file()]
        if not files:
            message = f"{path}: expected files that this pattern fits, found none"
            raise TraceFormatError(message)
        return files
    return None


def _collection(source: str, files: Sequence[pathlib.Path], limit_bytes: int) -> Place:
    if len(files) > _MOST_FILES:
        raise TraceFormatError(
            f"{source}: expected at most {format_count(_MOST_FILES, 'file')}, found "
            f"{len(files):,}; name fewer with a pattern"
        )
    files = sorted(files, key=lambda path: natural_order(str(path)))
    contents = tuple(content_of_file(each, limit_bytes=limit_bytes) for each in files)
    return Place(source, contents, is_collection=True)


def _with_progress(place: Place, on_progress: OnProgress | None) -> Place:
    """Return ``place`` with contents that tell how far all have been read."""
    if on_progress is None:
        return place
    total = sum(content.n_bytes for content in place.contents)
    contents, begin = [], 0
    for content in place.contents:

        def tell(done: int, begin: int = begin, most: int = content.n_bytes) -> None:
            on_progress(begin + min(done, most), total)

        contents.append(dataclasses.replace(content, on_read=tell))
        begin += content.n_bytes
    return dataclasses.replace(place, contents=tuple(contents))


def _is_folder(path: pathlib.Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _exists(path: pathlib.Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _listed(path: pathlib.Path) -> list[pathlib.Path]:
    try:
        with os.scandir(path) as entries:
            return [pathlib.Path(entry.path) for entry in entries]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{path}: expected a readable folder, found: {reason}"
        raise TraceFormatError(message) from error
