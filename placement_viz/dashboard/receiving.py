"""How the server receives slices of files: in few large pieces, and in memory.

A browser hands what it sends to the system in pieces of 16 kB. Each of them would cost
a turn of the server's loop, for which all other pages wait, and a slice would be
written to the disk twice. With this, half of the time of sending is left to others.
"""

from __future__ import annotations

import contextlib
import io
import socket
from typing import Any

from waitress.buffers import BytesIOBasedBuffer
from waitress.channel import HTTPChannel
from waitress.receiver import FixedStreamReceiver
from waitress.server import BaseWSGIServer

from placement_viz.dashboard.upload import SLICE_BYTES

__all__ = ["OPTIONS", "receive_in_large_pieces"]

#: As much is received at a time.
_PIECE_BYTES = 2**18
#: A slice as the page sends it is kept in memory; more is written to the disk.
_KEPT_BYTES = SLICE_BYTES // 2
#: What waitress is to be started with.
OPTIONS = {"max_request_body_size": SLICE_BYTES, "recv_bytes": _PIECE_BYTES}


class _Body(BytesIOBasedBuffer):  # type: ignore[misc]
    """A body in memory.

    By itself it would grow by an eighth at a time; two that grow side by side are then
    copied again and again.
    """

    file: io.BytesIO
    remain = 0
    _room_bytes = 0

    @classmethod
    def of(cls, begun: Any) -> _Body:
        """Return a body that has begun in a buffer of another kind, or of this."""
        if isinstance(begun, _Body):
            return begun
        body = cls()
        body.append(begun.get())
        begun.close()
        return body

    def append(self, piece: bytes) -> None:
        """Add what came, and have room for as much as is there already."""
        needed = self.remain + len(piece)
        if needed > self._room_bytes:
            self._room_bytes = max(2 * self._room_bytes, needed)
            self.file.seek(self._room_bytes - 1)
            self.file.write(b"\0")
        self.file.seek(self.remain)
        self.file.write(piece)
        self.file.seek(0)
        self.remain = needed

    def getfile(self) -> io.BytesIO:
        """Return the body, without the room that nothing came for."""
        self.file.truncate(self.remain)
        return self.file


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that is not looked at until a large piece of a body is there."""

    _least_bytes = 1

    def received(self, data: bytes) -> bool:
        """Take in what came, and say how much must come to be worth a turn.

        Source:
            ``SO_RCVLOWAT`` in ``socket(7)``; ``select`` heeds it since Linux 2.6.28.
        """
        was_of_use = bool(super().received(data))
        body = self.request.body_rcv if self.request is not None else None
        least = 1
        # Only a body of a known length says what is still to come.
        if isinstance(body, FixedStreamReceiver):
            least = max(1, min(body.remain, _PIECE_BYTES))
            if len(body.buf) + body.remain <= _KEPT_BYTES:
                body.buf = _Body.of(body.buf)
        if least != self._least_bytes:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
                self._least_bytes = least
        return was_of_use


def receive_in_large_pieces(sockets: dict[int, Any]) -> None:
    """Let servers receive bodies in large pieces.

    Args:
        sockets: The map of sockets that waitress was given when it was started.
    """
    for each in sockets.values():
        if isinstance(each, BaseWSGIServer):
            each.channel_class = _Channel
