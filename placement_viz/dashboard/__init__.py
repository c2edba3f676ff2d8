"""The app: a page in the browser for one run or two.

``catalog`` holds the runs a person can open and ``sessions`` tells the persons apart;
``document``, ``layout``, ``parts``, ``panels`` and ``tables`` make the page;
``callbacks`` connects it, with one module for each view. Files come in by
``upload_routes``, as ``receiving`` takes them from the network, and become runs in
``uploads``.
"""

from __future__ import annotations

import logging
import pathlib
import signal
import sys
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

import dash
import flask
import waitress

from placement_viz.dashboard import layout
from placement_viz.dashboard.callbacks import add_callbacks
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.document import Document
from placement_viz.dashboard.memory import limit_leftovers
from placement_viz.dashboard.packing import pack_scripts
from placement_viz.dashboard.parts import say
from placement_viz.dashboard.receiving import OPTIONS, receive_in_large_pieces
from placement_viz.dashboard.sessions import protect_server, session_id
from placement_viz.dashboard.timeline_routes import add_timeline_routes
from placement_viz.dashboard.upload import SLICE_BYTES
from placement_viz.dashboard.upload_routes import add_upload_routes
from placement_viz.dashboard.uploads import Uploads
from placement_viz.errors import PlacementVizError

__all__ = ["comparison_address", "create_app", "serve"]

_LOG = logging.getLogger(__name__)
_THREADS = 16


def create_app(
    samples: Sequence[pathlib.Path] = (),
    runs: Sequence[pathlib.Path] = (),
    *,
    cache: bool = True,
) -> dash.Dash:
    """Return the app; its ``server`` is what a WSGI server runs.

    Args:
        samples: Run files that the start page offers. They are read when somebody
            opens them, so a damaged one harms nobody else.
        runs: Run files that every visitor can open; the first is shown at start.
        cache: Whether what is read of large files may be stored in the cache folder of
            who runs the server, as :func:`~placement_viz.load_run` does.
    """
    limit_leftovers()
    catalog = Catalog(samples, runs, cache=cache)
    server = flask.Flask("placement_viz")
    # Nothing larger than a slice of a file is sent.
    server.config["MAX_CONTENT_LENGTH"] = SLICE_BYTES
    server.extensions[__name__] = catalog
    app = Document(
        catalog,
        name=__name__,
        server=server,
        title="placement_viz",
        update_title="",
        serve_locally=True,
        add_log_handler=False,
        on_error=_report,
        # What a view shows is put into the page when somebody first looks at it.
        suppress_callback_exceptions=True,
    )
    app.layout = lambda: layout.page(
        catalog.listing(session_id()),
        app.config.requests_pathname_prefix,
        catalog.limits.file_bytes,
    )
    add_callbacks(app, catalog)
    prefix = app.config.routes_pathname_prefix
    add_timeline_routes(server, catalog, prefix)
    add_upload_routes(server, Uploads(catalog), catalog, prefix)
    protect_server(server, app.csp_hashes())
    pack_scripts(server)
    return app


def _report(error: Exception) -> None:
    """Tell the person what failed, and the log when it is our own fault."""
    if isinstance(error, PlacementVizError):
        say(error)
        return
    _LOG.error("a callback failed", exc_info=error)
    say(PlacementVizError("this could not be shown: a fault in placement_viz itself"))


def comparison_address(runs: Sequence[pathlib.Path]) -> str:
    """Return the address, within the app, that compares the first two of ``runs``.

    Args:
        runs: As given to :func:`create_app`; with one alone the address shows it.
    """
    labels = Catalog(runs=runs).listing("").opened
    if len(labels) < 2:
        return ""
    baseline, candidate, *_ = labels
    query = {"view": "compare", "baseline": baseline, "candidate": candidate}
    return f"?{urllib.parse.urlencode(query)}"


def serve(
    app: dash.Dash,
    host: str,
    port: int,
    on_listening: Callable[[str], object] | None = None,
) -> None:
    """Serve ``app`` until it is interrupted, and print where.

    Args:
        app: What :func:`create_app` returned.
        host: Address to listen on.
        port: Port to listen on.
        on_listening: Called with the app's address once it can be opened.

    Raises:
        PlacementVizError: The address cannot be listened on.
    """
    shown = f"[{host}]" if ":" in host else host
    sockets: dict[int, Any] = {}
    try:
        listening = waitress.create_server(
            app.server,
            host=host,
            port=port,
            threads=_THREADS,
            ident=None,
            map=sockets,
            **OPTIONS,
        )
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        message = f"{shown}:{port}: expected an address to listen on, found: {reason}"
        raise PlacementVizError(message) from error
    receive_in_large_pieces(sockets)
    address = f"http://{shown}:{port}/"
    print(f"placement_viz is at {address}", flush=True)  # noqa: T201 - who starts a server wants to know where it is
    catalog = app.server.extensions[__name__]
    threading.Thread(target=catalog.preload, daemon=True).start()
    if on_listening is not None:
        on_listening(address)
    if threading.current_thread() is threading.main_thread():
        # Ended politely, so that what lies on the disk for us is removed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    listening.run()
