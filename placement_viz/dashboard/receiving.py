"""How the server receives slices of files: in few large pieces, and in memory.

A browser hands what it sends to the system in pieces of 16 kB. Each of them would cost
a turn of the server's loop, for which all other pages wait, and a slice would be
written to the disk twice. With this, half of the time of sending is left to others.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer

from placement_viz.dashboard.upload import SLICE_BYTES

__all__ = ["OPTIONS", "receive_in_large_pieces"]

#: As much is received at a time.
_PIECE_BYTES = 2**18
#: What waitress is to be started with. A slice as the page sends it is kept in memory.
OPTIONS = {
    "max_request_body_size": SLICE_BYTES,
    "recv_bytes": _PIECE_BYTES,
    "inbuf_overflow": SLICE_BYTES // 2 + 1,
}


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that is not looked at until a large piece of a body is there."""

    _least_bytes = 1

    def received(self, data: bytes) -> bool:
        """Take in what came, and say how much must come to be worth a turn.

        Source:
            ``SO_RCVLOWAT`` in ``socket(7)``; ``select`` heeds it since Linux 2.6.28.
        """
        was_of_use = bool(super().received(data))
        # Only a body of a known length says what is still to come.
        body = self.request.body_rcv if self.request is not None else None
        least = max(1, min(getattr(body, "remain", 1), _PIECE_BYTES))
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
