"""Bytes from a file, unpacked and bounded."""

from __future__ import annotations

import itertools
import pathlib
import zlib
from collections.abc import Iterable, Iterator

from placement_viz.errors import TraceFormatError
from placement_viz.units import format_bytes

__all__ = ["LIMIT_BYTES", "open_pieces", "pieces_of", "whole"]

#: The largest content that is read piece by piece. A timeline of a million ops has
#: 0.7 GB, or 2 GB with memory objects, and its table a quarter of a GB.
LIMIT_BYTES = 16 * 2**30
#: The largest content that is read at once, where its layout leaves no other way.
WHOLE_LIMIT_BYTES = 4 * 2**30

_GZIP_MAGIC = b"\x1f\x8b"
#: How much is read and unpacked at a time.
_PIECE_BYTES = 1 << 22


def open_pieces(
    path: pathlib.Path, *, limit_bytes: int = LIMIT_BYTES
) -> Iterator[bytes]:
    """Yield the content of the file at ``path``, unpacked, piece by piece.

    Raises:
        TraceFormatError: There is no such file, it is not readable or damaged, or its
            content is larger than ``limit_bytes``.
    """
    return _unpacked(_read(path), source=str(path), limit_bytes=limit_bytes)


def whole(pieces: Iterable[bytes], *, source: str) -> bytes:
    """Return all ``pieces`` in one.

    Raises:
        TraceFormatError: They are larger than :data:`WHOLE_LIMIT_BYTES` together.
    """
    found, n_bytes = [], 0
    for piece in pieces:
        n_bytes += len(piece)
        if n_bytes > WHOLE_LIMIT_BYTES:
            raise _too_large(source, WHOLE_LIMIT_BYTES)
        found.append(piece)
    return b"".join(found)


def pieces_of(
    data: bytes, *, source: str, limit_bytes: int = LIMIT_BYTES
) -> Iterator[bytes]:
    """Yield ``data``, unpacked, piece by piece.

    Raises:
        TraceFormatError: It is damaged, or larger than ``limit_bytes``.
    """
    pieces = (
        data[start : start + _PIECE_BYTES]
        for start in range(0, len(data), _PIECE_BYTES)
    )
    return _unpacked(pieces, source=source, limit_bytes=limit_bytes)


def _read(path: pathlib.Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{path}: expected a readable file, found: {reason}"
        raise TraceFormatError(message) from error


def _unpacked(
    pieces: Iterator[bytes], *, source: str, limit_bytes: int
) -> Iterator[bytes]:
    first = next(pieces, b"")
    pieces = itertools.chain([first], pieces)
    if first.startswith(_GZIP_MAGIC):
        pieces = _gunzipped(pieces, source)
    n_bytes = 0
    for piece in pieces:
        n_bytes += len(piece)
        if n_bytes > limit_bytes:
            raise _too_large(source, limit_bytes)
        yield piece


def _gunzipped(pieces: Iterator[bytes], source: str) -> Iterator[bytes]:
    """Yield what is packed; a gzip file may hold several members, one after another."""
    n_bytes = 0
    member = zlib.decompressobj(wbits=31)
    for piece in pieces:
        rest = piece
        while rest:
            if member.eof:
                member = zlib.decompressobj(wbits=31)
            try:
                content = member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                # What follows the last member is padding.
                if n_bytes and not member.unconsumed_tail and _is_padding(rest):
                    return
                message = (
                    f"{source}: expected gzip data, found damage after "
                    f"{format_bytes(n_bytes)} of content; copy the file again"
                )
                raise TraceFormatError(message) from error
            n_bytes += len(content)
            yield content
            rest = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        message = (
            f"{source}: expected the end of the gzip data, found the end of "
            f"the file after {format_bytes(n_bytes)} of content; "
            "copy the file again"
        )
        raise TraceFormatError(message)


def _is_padding(rest: bytes) -> bool:
    return not rest.startswith(_GZIP_MAGIC)


def _too_large(source: str, limit_bytes: int) -> TraceFormatError:
    return TraceFormatError(
        f"{source}: expected at most {format_bytes(limit_bytes)} of content, found "
        "more; trace fewer steps"
    )
