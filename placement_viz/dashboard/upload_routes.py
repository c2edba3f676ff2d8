"""What ``assets/uploads.js`` asks of the server, and who may ask.

::

    POST   _uploads               {"name": …, "size": …}: begin; its state
    PUT    _uploads/ID?offset=N   add a slice, the next or the one after it; the state
    GET    _uploads/ID            the state
    DELETE _uploads/ID            cancel
    GET    _reading               what the server reads because this session opened it

An upload of another session is not found. What is refused says why, as ``error``.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Annotated, Any

import flask
import msgspec

from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.server_files import Reading
from placement_viz.dashboard.sessions import has_session, session_id
from placement_viz.dashboard.upload import RefusedError, state_of
from placement_viz.dashboard.uploads import Uploads

__all__ = ["add_upload_routes"]

_PIECE_BYTES = 2**20


class _Begin(msgspec.Struct):
    name: str
    size: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


_BEGIN = msgspec.json.Decoder(_Begin)


def add_upload_routes(
    server: flask.Flask, uploads: Uploads, catalog: Catalog, prefix: str
) -> None:
    """Answer the page's requests about files.

    Args:
        server: The server of the app.
        uploads: What is on its way.
        catalog: What the server reads itself.
        prefix: Where the app is on the server, with a slash at both ends.
    """
    routes = flask.Blueprint("uploads", __name__, url_prefix=prefix.rstrip("/") or None)
    routes.before_request(_check_asker)
    routes.after_request(_forbid_storing)
    routes.register_error_handler(RefusedError, _refusal)

    @routes.post("/_uploads")
    def begin() -> Any:
        asked = _asked()
        upload = uploads.create(asked.name, asked.size, session_id())
        return state_of(upload), 201

    @routes.put("/_uploads/<key>")
    def add_slice(key: str) -> Any:
        upload = uploads.find(key, session_id())
        _check_type("application/octet-stream")
        n_bytes = flask.request.content_length
        if n_bytes is None:
            message = "expected a slice that says its length, found none"
            raise RefusedError(message, 411)
        offset = flask.request.args.get("offset", -1, type=int)
        uploads.write(upload, offset, n_bytes, _pieces())
        return state_of(upload)

    @routes.get("/_uploads/<key>")
    def tell(key: str) -> Any:
        return state_of(uploads.find(key, session_id()))

    @routes.delete("/_uploads/<key>")
    def cancel(key: str) -> Any:
        uploads.cancel(uploads.find(key, session_id()))
        return "", 204

    @routes.get("/_reading")
    def tell_readings() -> Any:
        return [_state_of_reading(each) for each in catalog.readings(session_id())]

    server.register_blueprint(routes)


def _check_asker() -> None:
    """Refuse what does not come from our own page, in a browser that we know."""
    if not _is_from_here(flask.request):
        message = "expected a request of the page itself, found one from elsewhere"
        raise RefusedError(message, 403)
    if not has_session():
        message = (
            "expected the cookie of this page, found none; allow cookies for it and "
            "load it again"
        )
        raise RefusedError(message, 403)


def _is_from_here(request: flask.Request) -> bool:
    # Browsers say the one over https and on this machine, the other with whatever
    # changes something; scripts of other pages can forge neither.
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("Origin")
    if origin is None:
        return request.method == "GET"
    try:
        return urllib.parse.urlsplit(origin).netloc.lower() == request.host.lower()
    except ValueError:
        return False


def _check_type(wanted: str) -> None:
    # A form of another page cannot send these.
    if flask.request.mimetype != wanted:
        found = flask.request.mimetype
        raise RefusedError(f"expected {wanted}, found {found or 'nothing'}", 415)


def _asked() -> _Begin:
    _check_type("application/json")
    try:
        return _BEGIN.decode(flask.request.get_data())
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        message = "expected the name and the size of a file, found something else"
        raise RefusedError(message, 400) from error


def _pieces() -> Iterator[bytes]:
    while piece := flask.request.stream.read(_PIECE_BYTES):
        yield piece


def _refusal(error: Exception) -> Any:
    status = error.status if isinstance(error, RefusedError) else 500
    return {"error": str(error)}, status


def _forbid_storing(response: flask.Response) -> flask.Response:
    response.headers["Cache-Control"] = "no-store"
    return response


def _state_of_reading(reading: Reading) -> dict[str, Any]:
    meter = reading.meter
    return {
        "name": reading.label,
        "phase": "judging" if reading.is_judging else "reading",
        "shown": reading.is_shown,
        "read": meter.done,
        "total": meter.total,
        "rate": meter.rate,
        "seconds_left": meter.seconds_left,
    }
