"""This very Python as another process, which runs a function of this package.

It is started as a program, not forked: a server has threads that would not survive
that, and a program that imports this package must not run twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import IO

__all__ = ["command", "start"]


def command(function: str, *arguments: str) -> list[str]:
    """Return the command line of a process that :func:`start` starts."""
    module, _, name = function.partition(":")
    program = (
        "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
        f"from {module} import {name}; {name}(*sys.argv[2:])"
    )
    return [sys.executable, "-c", program, "\n".join(sys.path), *arguments]


def start(
    function: str,
    *arguments: str,
    stdin: int = subprocess.PIPE,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a process that calls a function with texts.

    It finds modules where this one does, and polars keeps to one core there.

    Args:
        function: Its module and its name, ``package.module:function``.
        *arguments: What it is called with.
        stdin: As for ``subprocess.Popen``.
        stdout: Likewise.

    Raises:
        OSError: It cannot be started.
    """
    return subprocess.Popen(  # noqa: S603 - this very Python, with our own program
        command(function, *arguments),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
    )
