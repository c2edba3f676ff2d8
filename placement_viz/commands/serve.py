"""``placement-viz serve``: the app, with runs already open."""

from __future__ import annotations

import argparse
import pathlib
import socket
import threading
import webbrowser

from placement_viz.commands.reading import add_no_cache

__all__ = ["configure", "run", "show"]

_HOST, _PORT = "127.0.0.1", 8050


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``serve``."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="timelines to open")
    parser.add_argument(
        "--host",
        default=_HOST,
        help="address to listen on; the default is this machine only",
    )
    parser.add_argument("--port", type=int, default=_PORT, help="default %(default)s")
    add_no_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; return the exit code."""
    from placement_viz import dashboard  # noqa: PLC0415 - heavy

    app = dashboard.create_app(
        runs=[pathlib.Path(each) for each in arguments.runs], cache=arguments.cache
    )
    dashboard.serve(app, host=arguments.host, port=arguments.port)
    return 0


def show(runs: list[str]) -> None:
    """Open ``runs`` in the browser, two of them compared; return when interrupted."""
    from placement_viz import dashboard  # noqa: PLC0415 - heavy

    paths = [pathlib.Path(each) for each in runs]
    query = dashboard.comparison_address(paths)

    def open_browser(address: str) -> None:
        # Some browsers keep who starts them waiting, and the server must run by then.
        threading.Thread(
            target=webbrowser.open, args=(address + query,), daemon=True
        ).start()

    dashboard.serve(
        dashboard.create_app(runs=paths),
        _HOST,
        _usable_port(),
        on_listening=open_browser,
    )


def _usable_port() -> int:
    """Return the usual port, or any other when somebody listens there already."""
    for port in (_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return _PORT
