"""Who is asking, and what a browser may do with the answer."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

import flask

__all__ = ["COOKIE", "has_session", "protect_server", "session_id"]

COOKIE = "placement_viz_session"

_TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def session_id() -> str:
    """Return the id of the browser session that sent the current request.

    A new one is made for a browser that has none, and is sent with the answer. It is
    256 random bits, so that nobody finds another's by trying.
    """
    if not flask.has_request_context():
        # Dash asks for the page once at start, for nobody.
        return ""
    if "session_id" not in flask.g:
        sent = flask.request.cookies.get(COOKIE, "")
        is_known = bool(_TOKEN.fullmatch(sent))
        flask.g.session_id = sent if is_known else secrets.token_urlsafe(_TOKEN_BYTES)
        flask.g.is_new_session = not is_known
    return str(flask.g.session_id)


def has_session() -> bool:
    """Return whether the browser that sent the current request had an id before."""
    session_id()
    return not flask.g.is_new_session


def protect_server(server: flask.Flask, script_hashes: Sequence[str]) -> None:
    """Make ``server`` set the session cookie and refuse everything from elsewhere.

    Args:
        server: The server of the app.
        script_hashes: Sources in quotes, for the scripts in Dash's own page.
    """
    policy = "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self'", *script_hashes)),
            # Mantine and the grid make their style sheets in the browser.
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )

    def finish(response: flask.Response) -> flask.Response:
        session = session_id()
        if flask.g.is_new_session and response.mimetype == "text/html":
            response.set_cookie(
                COOKIE,
                session,
                httponly=True,
                samesite="Lax",
                secure=flask.request.is_secure,
            )
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    server.after_request(finish)
