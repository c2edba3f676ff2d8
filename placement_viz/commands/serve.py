"""``placement-viz serve``: the app, with runs already open."""

from __future__ import annotations

import argparse
import pathlib

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``serve``."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="timelines to open")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; the default is this machine only",
    )
    parser.add_argument("--port", type=int, default=8050, help="default 8050")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; return the exit code."""
    from placement_viz import dashboard  # noqa: PLC0415 - heavy

    app = dashboard.create_app(runs=[pathlib.Path(each) for each in arguments.runs])
    dashboard.serve(app, host=arguments.host, port=arguments.port)
    return 0
