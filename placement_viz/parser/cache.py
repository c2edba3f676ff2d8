"""What was read of a large file, kept in a folder of the user to be read again.

Below the commands nothing writes files, with this one exception: nothing depends on
these, and the folder may be deleted at any time. Whatever is wrong with it, or with a
file in it, the trace is read as if there were none.

A file's name is a hash of the content that was read, together with the version of the
package. A second, small file remembers that hash for a path, so that a file that was
not touched since is not read at all; it is named by a hash of the path.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
import polars as pl
import xxhash

from placement_viz.errors import TraceError
from placement_viz.model import Run
from placement_viz.parser.cache_folder import CacheFolder
from placement_viz.parser.files import Content
from placement_viz.parser.steps import Step
from placement_viz.parser.stored import LAYOUT, pack_run, unpack_run
from placement_viz.version import __version__

__all__ = ["Cache", "user_cache"]

#: A smaller file is read at once.
_LEAST_BYTES = 4 << 20
#: All files in the folder together; a run of a million ops has some 16 MB.
_MOST_BYTES = 1 << 30
#: Some file systems tell times of change only to two seconds: a file that was changed
#: this shortly ago may change again, and look the same.
_SETTLED_NS = 2_000_000_000

_ReadSteps: TypeAlias = Callable[[Content], list[Step]]
#: Size, times of change, and place on the disk: what differs when a file was touched.
_State: TypeAlias = tuple[int, int, int, int, int]


class _Record(msgspec.Struct, array_like=True):
    """What the file at a path was when it was last read.

    Attributes:
        state: As the system told it.
        key: Name of the file with its run.
    """

    state: _State
    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


_RECORD = msgspec.msgpack.Decoder(_Record)


class Cache:
    """Runs that were read before, in a folder."""

    def __init__(
        self,
        folder: pathlib.Path,
        least_bytes: int = _LEAST_BYTES,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        """Use ``folder``, which is made when there is something to store.

        Args:
            folder: Where the files are; nothing else may be there.
            least_bytes: Size of the smallest trace that is stored.
            most_bytes: Size of all files together; what was used longest ago goes
                first.
        """
        self._folder = CacheFolder(folder, most_bytes)
        self._least_bytes = least_bytes

    def read_steps(self, content: Content, read: _ReadSteps) -> list[Step]:
        """Return the steps in ``content``, as ``read`` has read them now or before.

        Args:
            content: Stored is what it holds when it is a file by itself, and a run
                without a graph or with that of a run file.
            read: Reads it when it is not stored, and may raise what it will.
        """
        path = content.path
        if path is None or content.n_bytes < self._least_bytes:
            return read(content)
        state = _state_of(path)
        if state is None:
            return read(content)
        is_settled = time.time_ns() - max(state[1], state[2]) > _SETTLED_NS
        key = self._remembered(path, state) or _key_of(content)
        if key is None:
            return read(content)
        run = self._load(key, content)
        if run is None:
            steps = read(content)
            if len(steps) != 1 or not _is_storable(steps[0].run):
                return steps
            run = steps[0].run
            # If it was changed meanwhile, what was read is not what was hashed.
            if _state_of(path) != state or not self._store(key, run):
                return steps
        if is_settled and _state_of(path) == state:
            self._remember(path, _Record(state, key))
        return [Step(content.name, run)]

    def _remembered(self, path: pathlib.Path, state: _State) -> str | None:
        packed = self._folder.read(_name_of_record(path))
        if packed is None:
            return None
        with contextlib.suppress(msgspec.MsgspecError):
            record = _RECORD.decode(packed)
            if record.state == state:
                return record.key
        return None

    def _remember(self, path: pathlib.Path, record: _Record) -> None:
        name, packed = _name_of_record(path), msgspec.msgpack.encode(record)
        if self._folder.read(name) != packed:
            self._folder.write(name, packed)

    def _load(self, key: str, content: Content) -> Run | None:
        packed = self._folder.read(key)
        if packed is None:
            return None
        try:
            run = unpack_run(packed, source=content.source)
        except (msgspec.MsgspecError, pl.exceptions.PolarsError, ValueError, KeyError):
            self._folder.remove(key)
            return None
        self._folder.touch(key)
        content.on_read(content.n_bytes)
        return run

    def _store(self, key: str, run: Run) -> bool:
        """Store ``run``; return whether it could be."""
        try:
            packed = pack_run(run)
        except (msgspec.MsgspecError, pl.exceptions.PolarsError, ValueError):
            return False
        except OverflowError:  # a number that no other program would write
            return False
        return self._folder.write(key, packed)


def _is_storable(run: Run) -> bool:
    """Return whether all of ``run`` can be stored: of graphs, those of run files."""
    return run.graph is None or run.section is not None


def user_cache() -> Cache | None:
    """Return the cache in the folder that the system has for such; None without one."""
    # Only who reads a file needs to know where that is.
    import platformdirs  # noqa: PLC0415

    folder = platformdirs.user_cache_path("placement_viz", appauthor=False)
    # A user without a home has theirs in a folder called "~", wherever that is.
    return Cache(folder) if folder.is_absolute() else None


def _key_of(content: Content) -> str | None:
    digest = xxhash.xxh3_128(f"{__version__} {LAYOUT} ".encode())
    try:
        for piece in content.raw():
            digest.update(piece)
    except TraceError:
        # Said by who reads it.
        return None
    return digest.hexdigest()


def _name_of_record(path: pathlib.Path) -> str:
    place = os.fsencode(os.path.realpath(path))
    digest = xxhash.xxh3_128(f"{__version__} {LAYOUT} path ".encode())
    digest.update(place)
    return digest.hexdigest()


def _state_of(path: pathlib.Path) -> _State | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_ino,
        found.st_dev,
    )
