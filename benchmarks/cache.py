"""How soon a large timeline is open again, and what that costs at first."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timeline import write_timeline

__all__ = ["bench_cache"]

_N_OPS = 1_000_000
_ROUNDS = 5

#: Print the seconds that opening takes, without those of starting Python.
_OPEN = """
import sys, time
from placement_viz import load_run
start = time.perf_counter()
load_run(sys.argv[1], cache=sys.argv[2] == "cached")
print(time.perf_counter() - start)
"""


def bench_cache() -> None:
    """Print the time of the first opening and of others, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        with path.open("w", encoding="utf-8") as stream:
            write_timeline(stream, _N_OPS)
        uncached = _seconds(path, "uncached", folder)
        first = _seconds(path, "cached", folder)
        again = [_seconds(path, "cached", folder) for _ in range(_ROUNDS)]
        stored = [each for each in Path(folder).rglob("*") if each.is_file()]
        n_bytes = sum(each.stat().st_size for each in stored if each != path)
    print(
        f"open {_N_OPS:,} ops again: {statistics.median(again):.2f} s, slowest "
        f"{max(again):.2f} s, of {n_bytes / 1e6:.0f} MB; at first {first:.2f} s, "
        f"{uncached:.2f} s without the cache",
        flush=True,
    )


def _seconds(path: Path, how: str, folder: str) -> float:
    command = [sys.executable, "-c", _OPEN, str(path), how]
    printed = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": folder},
    )
    return float(printed.stdout)


if __name__ == "__main__":
    bench_cache()
