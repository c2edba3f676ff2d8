"""Packed bytes unpacked piece by piece, however large they grow.

What a packed file holds is counted by whoever reads it; nothing here keeps more than a
piece, so that a few kB that unpack to terabytes do no harm.
"""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Iterator

import zstandard

from placement_viz.errors import TraceFormatError
from placement_viz.model import Notice
from placement_viz.units import format_bytes

__all__ = ["PIECE_BYTES", "is_packed", "unpacked"]

#: How much is read and unpacked at a time.
PIECE_BYTES = 1 << 22

_SLICE_BYTES = 1 << 14

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: How far unpacking may need to look back; the format allows a thousand times as much.
_ZSTD_WINDOW_BYTES = 1 << 27


class _CutOffError(Exception):
    """Packed data without its end."""


def is_packed(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is packed."""
    return head.startswith((_GZIP_MAGIC, _ZSTD_MAGIC))


def unpacked(
    pieces: Iterator[bytes], *, source: str, notices: list[Notice] | None = None
) -> Iterator[bytes]:
    """Yield the content of ``pieces``: packed by gzip or Zstandard, or as it is.

    Args:
        pieces: All of a file.
        source: What to call it in messages.
        notices: Where to note damage, when what was packed before it is of use.

    Raises:
        TraceFormatError: It is damaged and ``notices`` is None.
    """
    first = next(pieces, b"")
    pieces = itertools.chain([first], pieces)
    if not is_packed(first):
        yield from pieces
        return
    is_gzip = first.startswith(_GZIP_MAGIC)
    n_bytes = 0
    try:
        unpack = _gunzipped if is_gzip else _unzstandarded
        for piece in filter(None, unpack(pieces)):
            n_bytes += len(piece)
            yield piece
    except (zlib.error, zstandard.ZstdError, _CutOffError) as error:
        name = "gzip" if is_gzip else "Zstandard"
        is_cut = isinstance(error, _CutOffError)
        after = f"after {format_bytes(n_bytes)} of content"
        if notices is None or not n_bytes:
            found = "the end of the file" if is_cut else "damage"
            message = (
                f"{source}: expected {name} data, found {found} {after}; "
                "copy the file again"
            )
            raise TraceFormatError(message) from error
        was = "ends" if is_cut else "is damaged"
        message = f"the {name} data {was} {after}: what was packed before that was read"
        notices.append(Notice("packed-data-damaged", message))


def _gunzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what is packed; a gzip file may hold several members, one after another."""
    member = zlib.decompressobj(wbits=31)
    is_first = True
    for piece in _sliced(pieces):
        rest = piece
        while rest:
            if member.eof:
                # What follows the last member is padding.
                if not rest.startswith(_GZIP_MAGIC[:1]):
                    return
                member, is_first = zlib.decompressobj(wbits=31), False
            try:
                yield member.decompress(rest, PIECE_BYTES)
            except zlib.error:
                if not is_first and not rest.startswith(_GZIP_MAGIC):
                    return
                raise
            rest = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise _CutOffError


def _sliced(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield small pieces: where one is damaged, nothing of it is unpacked."""
    for piece in pieces:
        for start in range(0, len(piece), _SLICE_BYTES):
            yield piece[start : start + _SLICE_BYTES]


def _unzstandarded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what is packed, of one frame or several.

    A file without its end is read to where it breaks off, without a word from the
    library; what was packed will show it.
    """
    packed = io.BufferedReader(_Pieces(pieces), PIECE_BYTES)
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    with unpacker.stream_reader(packed, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


class _Pieces(io.RawIOBase):
    """Pieces as a file that can be read once."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        n_bytes = min(len(buffer), len(self._rest))
        buffer[:n_bytes] = self._rest[:n_bytes]
        self._rest = self._rest[n_bytes:]
        return n_bytes
