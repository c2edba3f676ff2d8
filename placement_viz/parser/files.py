"""Bytes from a file, unpacked and bounded."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator

from placement_viz.errors import TraceFormatError
from placement_viz.model import Notice
from placement_viz.parser.packing import PIECE_BYTES, is_packed, unpacked
from placement_viz.units import format_bytes, format_count

__all__ = [
    "LIMIT_BYTES",
    "Content",
    "content_of",
    "content_of_file",
    "counted",
    "natural_order",
    "pieces_between",
]

#: The largest content that is read piece by piece. A timeline of a million ops has
#: 0.7 GB, or 2 GB with memory objects, and its table a quarter of a GB.
LIMIT_BYTES = 16 * 2**30
#: The largest content that is read at once, where its layout leaves no other way.
WHOLE_LIMIT_BYTES = 4 * 2**30
#: The most files in a zip; each may be a step.
_MOST_MEMBERS = 10_000
#: The second begins one that is empty.
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")

#: Takes how many bytes of a file, as it lies on disk, have been read.
OnRead = Callable[[int], None]


def _ignore(_: int) -> None:
    """Do nothing with what was read."""


@dataclasses.dataclass(frozen=True)
class Content:
    """What a file holds, which can be read from its beginning as often as needed.

    Attributes:
        source: What to call it in messages.
        raw: Gives its bytes as they lie there, in pieces.
        n_bytes: How many these are.
        path: Where the file is, when it is one.
        limit_bytes: The most that it may grow to when it is unpacked.
        on_read: Told how far it has been read, by each reading anew.
    """

    source: str
    raw: Callable[[], Iterator[bytes]]
    n_bytes: int
    path: pathlib.Path | None = None
    limit_bytes: int = LIMIT_BYTES
    on_read: OnRead = _ignore

    @property
    def name(self) -> str:
        """Return the last part of its source, by which a person knows it."""
        return pathlib.PurePath(self.source).name

    def head(self) -> bytes:
        """Return the first piece of what is unpacked; empty for an empty file.

        Raises:
            TraceFormatError: It cannot be read.
        """
        return next(self.pieces(notices=[]), b"")

    def is_packed(self) -> bool:
        """Return whether it lies there packed."""
        return is_packed(next(self.raw(), b""))

    def pieces(self, notices: list[Notice] | None = None) -> Iterator[bytes]:
        """Yield what it holds, unpacked.

        Args:
            notices: Where to note damage, when what is before it is of use.

        Raises:
            TraceFormatError: It cannot be read, holds more than it may, or is damaged
                and there is nowhere to note that.
        """
        n_bytes = 0
        for piece in unpacked(
            counted(self.raw(), self.on_read), source=self.source, notices=notices
        ):
            n_bytes += len(piece)
            if n_bytes > self.limit_bytes:
                raise _too_large(self.source, self.limit_bytes)
            yield piece

    def whole(self) -> bytes:
        """Return all that it holds.

        Raises:
            TraceFormatError: It cannot be read, or holds more than can be read at once.
        """
        found, n_bytes = [], 0
        for piece in self.pieces():
            n_bytes += len(piece)
            if n_bytes > WHOLE_LIMIT_BYTES:
                raise _too_large(self.source, WHOLE_LIMIT_BYTES)
            found.append(piece)
        return b"".join(found)

    def members(self) -> tuple[Content, ...] | None:
        """Return what a zip holds, in natural order of the names; None for no zip.

        Left out are folders and files that only a system put there.

        Raises:
            TraceFormatError: It cannot be read, or holds more files than it may.
        """
        if not next(self.raw(), b"").startswith(_ZIP_MAGIC):
            return None
        try:
            archive = zipfile.ZipFile(self.path or io.BytesIO(b"".join(self.raw())))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            message = (
                f"{self.source}: expected a zip, found damage: "
                f"{' '.join(str(error).split()).lower()}; copy the file again"
            )
            raise TraceFormatError(message) from error
        members = [each for each in archive.infolist() if _is_of_use(each)]
        if len(members) > _MOST_MEMBERS:
            raise TraceFormatError(
                f"{self.source}: expected at most "
                f"{format_count(_MOST_MEMBERS, 'file')} in a zip, found "
                f"{len(members):,}; pack fewer steps"
            )
        if sum(member.file_size for member in members) > self.limit_bytes:
            raise _too_large(self.source, self.limit_bytes)
        share = self.limit_bytes // max(1, len(members))
        return tuple(
            Content(
                source=f"{self.source}/{member.filename}",
                raw=_reader_of(archive, member, self.source),
                n_bytes=member.file_size,
                # More only for what is packed again.
                limit_bytes=max(member.file_size, share),
            )
            for member in sorted(members, key=lambda each: natural_order(each.filename))
        )


def content_of_file(
    path: pathlib.Path, *, source: str | None = None, limit_bytes: int = LIMIT_BYTES
) -> Content:
    """Return what the file at ``path`` holds.

    Args:
        path: Where it is.
        source: What to call it, instead of its path.
        limit_bytes: The most that it may grow to when it is unpacked.

    Raises:
        TraceFormatError: There is no such file.
    """
    try:
        n_bytes = path.stat().st_size
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return Content(
        source=source or str(path),
        raw=lambda: pieces_between(path, 0, None),
        n_bytes=n_bytes,
        path=path,
        limit_bytes=limit_bytes,
    )


def content_of(data: bytes, *, source: str, limit_bytes: int = LIMIT_BYTES) -> Content:
    """Return the content of a file that is already here."""
    return Content(
        source=source,
        raw=lambda: (
            data[start : start + PIECE_BYTES]
            for start in range(0, len(data), PIECE_BYTES)
        ),
        n_bytes=len(data),
        limit_bytes=limit_bytes,
    )


def pieces_between(path: pathlib.Path, start: int, stop: int | None) -> Iterator[bytes]:
    """Yield the bytes of the file at ``path`` from ``start`` to before ``stop``.

    Args:
        path: Where it is.
        start: Where to begin.
        stop: Where to end; None for the end of the file.

    Raises:
        TraceFormatError: It is not readable.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            while stop is None or start < stop:
                wanted = PIECE_BYTES if stop is None else min(PIECE_BYTES, stop - start)
                piece = file.read(wanted)
                if not piece:
                    return
                start += len(piece)
                yield piece
    except OSError as error:
        raise _unreadable(path, error) from error


def counted(pieces: Iterable[bytes], on_read: OnRead) -> Iterator[bytes]:
    """Yield ``pieces``, and tell after each how many bytes there were so far."""
    n_bytes = 0
    for piece in pieces:
        yield piece
        n_bytes += len(piece)
        on_read(n_bytes)


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which ``step_2`` comes before ``step_10``."""
    parts = re.findall(r"\d+|\D+", name)
    # More digits than any counter has are not worth the time that turning them takes.
    return [
        (int(part), "") if part.isdecimal() and len(part) < 20 else (0, part)
        for part in parts
    ]


def _is_of_use(member: zipfile.ZipInfo) -> bool:
    parts = pathlib.PurePosixPath(member.filename).parts
    is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    # Not is_dir(), which a member without a name breaks.
    return bool(parts) and not (member.filename.endswith("/") or is_hidden)


def _reader_of(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str
) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        try:
            with archive.open(member) as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,  # a way of packing that Python does not know
            OSError,
            RuntimeError,  # a password
            ValueError,
        ) as error:
            message = (
                f"{source}/{member.filename}: expected a file in a zip, found: "
                f"{' '.join(str(error).split()).lower()}; pack it again"
            )
            raise TraceFormatError(message) from error

    return read


def _unreadable(path: pathlib.Path, error: Exception) -> TraceFormatError:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return TraceFormatError(f"{path}: expected a readable file, found: {reason}")


def _too_large(source: str, limit_bytes: int) -> TraceFormatError:
    return TraceFormatError(
        f"{source}: expected at most {format_bytes(limit_bytes)} of content, found "
        "more; trace fewer steps"
    )
