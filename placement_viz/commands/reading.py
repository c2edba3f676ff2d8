"""Runs read from files, with progress for whoever waits at a terminal."""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from placement_viz.model import Run
from placement_viz.parser import load_run

__all__ = ["add_no_cache", "read_run"]

#: Who waits no longer than this needs no bar.
_PATIENCE_S = 0.5


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-cache``, which is ``cache`` among the arguments."""
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="read all anew and store nothing; without it, what was read of a large "
        "file is kept in your cache folder, so that it opens at once the next time",
    )


def read_run(path: str, graph: str | None = None, *, cache: bool = True) -> Run:
    """Return the run at ``path``; see :func:`~placement_viz.parser.load_run`.

    While a large one is read, a bar on standard error shows how far it is, how fast
    that goes and how long it will take, if standard error is a terminal.

    Raises:
        TraceError: It is no usable run.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        return load_run(path, graph=graph, cache=cache)
    with Progress(
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("reading", visible=False, total=None)
        begin = time.monotonic()

        def tell(done: int, total: int) -> None:
            progress.update(
                task,
                completed=done,
                total=total,
                visible=time.monotonic() - begin > _PATIENCE_S,
            )

        return load_run(path, graph=graph, cache=cache, on_progress=tell)
