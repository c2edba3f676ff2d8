"""The option of all commands that open runs: to leave the user's cache alone."""

from __future__ import annotations

import argparse

__all__ = ["add_no_cache"]


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-cache``, which is ``cache`` among the arguments."""
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="read all anew and store nothing; without it, what was read of a large "
        "file is kept in your cache folder, so that it opens at once the next time",
    )
