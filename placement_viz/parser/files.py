"""Bytes from a file, unpacked and bounded."""

from __future__ import annotations

import pathlib
import zlib

from placement_viz.errors import TraceFormatError
from placement_viz.units import format_bytes

__all__ = ["LIMIT_BYTES", "load_bytes", "parse_compressed"]

#: The largest content that is read. A timeline of a million ops has 0.7 GB, or 2 GB
#: with memory objects; more than this does not fit beside its own table.
LIMIT_BYTES = 4 * 2**30

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20


def load_bytes(path: pathlib.Path, *, limit_bytes: int = LIMIT_BYTES) -> bytes:
    """Return the content of the file at ``path``, as it is.

    Raises:
        TraceFormatError: There is no such file, it is not readable, or it is
            larger than ``limit_bytes``.
    """
    try:
        n_bytes = path.stat().st_size
        if n_bytes > limit_bytes:
            raise _too_large(str(path), limit_bytes)
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{path}: expected a readable file, found: {reason}"
        raise TraceFormatError(message) from error


def parse_compressed(data: bytes, *, source: str, limit_bytes: int) -> bytes:
    """Return ``data`` unpacked; unchanged when it is not gzipped.

    A gzip file may hold several members, which are joined, as gzip itself does.

    Raises:
        TraceFormatError: The data is damaged, or grows beyond ``limit_bytes``.
    """
    if not data.startswith(_GZIP_MAGIC):
        return data
    pieces: list[bytes] = []
    n_bytes = 0
    rest = data
    while rest.startswith(_GZIP_MAGIC):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            try:
                piece = member.decompress(rest, _CHUNK_BYTES)
            except zlib.error as error:
                message = (
                    f"{source}: expected gzip data, found damage after "
                    f"{format_bytes(n_bytes)} of content; copy the file again"
                )
                raise TraceFormatError(message) from error
            rest = member.unconsumed_tail
            if not piece and not rest and not member.eof:
                message = (
                    f"{source}: expected the end of the gzip data, found the end of "
                    f"the file after {format_bytes(n_bytes)} of content; "
                    "copy the file again"
                )
                raise TraceFormatError(message)
            n_bytes += len(piece)
            if n_bytes > limit_bytes:
                raise _too_large(source, limit_bytes)
            pieces.append(piece)
        rest = member.unused_data
    return b"".join(pieces)


def _too_large(source: str, limit_bytes: int) -> TraceFormatError:
    return TraceFormatError(
        f"{source}: expected at most {format_bytes(limit_bytes)} of content, found "
        "more; trace fewer steps"
    )
