"""The folder of a cache: files with a checksum, together within a bound.

Each appears whole or not at all, whatever several processes do at once, and nothing
here is an error: what cannot be read is not there, and what cannot be written is not.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import xxhash

__all__ = ["CacheFolder"]

_DIGEST_BYTES = 16


class CacheFolder:
    """Files by name, of which those used longest ago go first."""

    def __init__(self, path: pathlib.Path, most_bytes: int) -> None:
        """Use the folder at ``path``, which is made when something is written.

        Args:
            path: Where it is; nothing else may be there.
            most_bytes: Size of all files together.
        """
        self._path = path
        self._most_bytes = most_bytes

    def read(self, name: str) -> bytes | memoryview | None:
        """Return what the file ``name`` holds; None if that is not what was written."""
        if not self._is_ours():
            return None
        try:
            data = (self._path / name).read_bytes()
        except OSError:
            return None
        packed = memoryview(data)[_DIGEST_BYTES:]
        if xxhash.xxh3_128_digest(packed) == data[:_DIGEST_BYTES]:
            return packed
        self.remove(name)
        return None

    def write(self, name: str, packed: bytes) -> bool:
        """Write a file that appears whole or not at all; return whether it did."""
        if len(packed) > self._most_bytes:
            return False
        draft = None
        try:
            # What is in a trace may be confidential.
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return False
            handle, draft = tempfile.mkstemp(dir=self._path)
            with os.fdopen(handle, "wb") as file:
                file.write(xxhash.xxh3_128_digest(packed))
                file.write(packed)
            pathlib.Path(draft).replace(self._path / name)
        except OSError:
            if draft is not None:
                self.remove(pathlib.Path(draft).name)
            return False
        self._evict()
        return True

    def _evict(self) -> None:
        """Remove what was used longest ago until all is within the bound."""
        files = sorted(self._files(), reverse=True)
        n_bytes = 0
        for _, size, name in files:
            n_bytes += size
            if n_bytes > self._most_bytes:
                self.remove(name)

    def _files(self) -> Iterator[tuple[int, int, str]]:
        """Yield when each file was last used, its size and its name."""
        with contextlib.suppress(OSError), os.scandir(self._path) as entries:
            for entry in entries:
                # Another process may just have removed it.
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    yield found.st_mtime_ns, found.st_size, entry.name

    def remove(self, name: str) -> None:
        """Remove the file ``name``, if it is there and that is allowed."""
        with contextlib.suppress(OSError):
            (self._path / name).unlink()

    def touch(self, name: str) -> None:
        """Note that the file ``name`` was used just now."""
        with contextlib.suppress(OSError):
            os.utime(self._path / name)

    def _is_ours(self) -> bool:
        """Return whether nobody else may have written into the folder."""
        if not hasattr(os, "getuid"):
            return True
        try:
            found = self._path.stat()
        except OSError:
            return False
        return found.st_uid == os.getuid() and not found.st_mode & 0o022
