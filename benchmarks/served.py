"""The app as a process of its own, and what processes hold in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

__all__ = ["Server", "descendants", "private_mb", "served"]

_ROOT = pathlib.Path(__file__).parent.parent
_SERVE = (sys.executable, "-m", "placement_viz", "serve")


@dataclasses.dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        address: Where it is.
        pid: Its process.
        seconds: From its start until the page was served.
    """

    address: str
    pid: int
    seconds: float


@contextlib.contextmanager
def served(*runs: pathlib.Path, program: tuple[str, ...] = _SERVE) -> Iterator[Server]:
    """Serve ``runs`` on a free port, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    options = ("--port", str(port)) if program is _SERVE else ()
    start = time.perf_counter()
    server = subprocess.Popen(
        [*program, *map(str, runs), *options],
        cwd=_ROOT,
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
    )
    try:
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}_dash-layout").read()  # noqa: S310 - our own address
                break
            time.sleep(0.01)
        yield Server(address, server.pid, time.perf_counter() - start)
    finally:
        server.terminate()
        server.wait()


def private_mb(pid: int) -> float:
    """Return what a process holds, shared pages by their share; 0 when it is gone."""
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        sizes = dict(re.findall(r"(\w+): +(\d+) kB", text))
        # Pages that were freed stay until somebody else needs memory.
        return (int(sizes["Pss"]) - int(sizes["LazyFree"])) / 1000
    return 0.0


def descendants(pid: int) -> dict[int, str]:
    """Return the processes that come from a process, and their command lines."""
    children: dict[int, list[int]] = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # A command may have brackets and spaces in its name.
            parent = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, open_ = {}, [pid]
    while open_:
        for child in children.get(open_.pop(), ()):
            with contextlib.suppress(OSError):
                command = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                found[child] = command.replace(b"\0", b" ").decode()
                open_.append(child)
    return found
