"""Scripts and styles, sent packed to who can unpack them.

They are the same for everybody and nine tenths of what the page weighs, so each is
packed once for as long as the server runs.
"""

from __future__ import annotations

import gzip
import threading

import flask

__all__ = ["pack_scripts"]

_TYPES = frozenset({"text/javascript", "application/javascript", "text/css"})
#: A smaller one is there with its first packet.
_LEAST_BYTES = 1_400
#: The page has some thirty.
_MOST_KEPT = 256
#: More makes them hardly smaller and takes twice as long.
_LEVEL = 6


def pack_scripts(server: flask.Flask) -> None:
    """Make ``server`` send scripts and styles in gzip."""
    packed: dict[tuple[str, str], bytes] = {}
    lock = threading.Lock()

    def pack(response: flask.Response) -> flask.Response:
        if response.mimetype not in _TYPES or response.status_code != 200:
            return response
        response.vary.add("Accept-Encoding")
        if not flask.request.accept_encodings["gzip"] or response.content_encoding:
            return response
        response.direct_passthrough = False
        plain = response.get_data()
        if len(plain) < _LEAST_BYTES:
            return response
        tag = response.headers.get("ETag", "")
        # A path may have other content after a while, but not under the same tag.
        key = (flask.request.full_path, tag or str(hash(plain)))
        found = packed.get(key)
        if found is None:
            found = gzip.compress(plain, _LEVEL, mtime=0)
            with lock:
                if len(packed) >= _MOST_KEPT:
                    packed.clear()
                packed[key] = found
        response.set_data(found)
        response.content_encoding = "gzip"
        if tag:
            # The same content, in other bytes than who cannot unpack it gets.
            response.headers["ETag"] = f"W/{tag.removeprefix('W/')}"
        return response

    server.after_request(pack)
