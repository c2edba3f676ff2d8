"""How fast a timeline is read, beside what anybody could write in ten lines.

From the file to the table, without the time that imports take; the memory is that of
the whole process, and of the largest of those that it started.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timeline import write_timeline

__all__ = ["bench_reading"]

_ROUNDS = 3

#: Print seconds and peak memory in MB, as each process knows them best itself.
_REPORT = """
import os, resource, sys, time
{before}
start = time.perf_counter()
{read}
seconds = time.perf_counter() - start
kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
print(seconds, sum(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1000)
"""
_ONE_CORE = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
_IMPORT = "\nfrom placement_viz import load_run\n"
_READ = "table = load_run(sys.argv[1], cache=False).trace.ops"
_WAYS = {
    "one core": _REPORT.format(before=_ONE_CORE + _IMPORT, read=_READ),
    "all cores": _REPORT.format(before=_IMPORT, read=_READ),
    "json.load and a loop": _REPORT.format(
        before=_ONE_CORE,
        read="""
import json
with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
table = [
    (e["args"]["name"], e["args"]["op"], e["pid"], e["tid"], e["ts"], e["dur"],
     [v for k, v in e["args"].items() if k.startswith("input")])
    for e in events if e["ph"] == "X"
]
""",
    ),
}


def bench_reading() -> None:
    """Print time, memory and the ratio to the plain way, in interleaved runs."""
    with tempfile.TemporaryDirectory() as folder:
        path, shown = Path(folder) / "timeline.json", Path(folder) / "memory.json"
        for n_ops in (10_000, 100_000, 1_000_000):
            _write(path, n_ops)
            found = {way: [] for way in _WAYS}
            for _ in range(_ROUNDS):
                for way, program in _WAYS.items():
                    found[way].append(_run(program, path))
            _print(n_ops, path, found)
        _write(shown, n_ops, has_memory=True)
        _bench_memory(path, shown)


def bench_large(n_ops: int) -> None:
    """Print time and memory of one large file, read by all cores and by one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        _write(path, n_ops)
        for way in ("all cores", "one core"):
            seconds, megabytes = _run(_WAYS[way], path)
            size = path.stat().st_size / 1e9
            print(
                f"read {n_ops:,} ops, {size:.1f} GB, {way}: {seconds:.1f} s and "
                f"{megabytes / 1000:.2f} GB",
                flush=True,
            )


def _print(n_ops: int, path: Path, found: dict[str, list[tuple[float, float]]]) -> None:
    plain = found.pop("json.load and a loop")
    told = []
    for way, runs in found.items():
        ratios = [b[0] / a[0] for a, b in zip(runs, plain, strict=True)]
        told.append(
            f"{way} {statistics.median(s for s, _ in runs):.2f} s, "
            f"{max(mb for _, mb in runs):.0f} MB, "
            f"{statistics.median(ratios):.1f} times as fast"
        )
    print(
        f"read {n_ops:,} ops, {path.stat().st_size / 1e6:.0f} MB: {'; '.join(told)}; "
        f"json.load and a loop {statistics.median(s for s, _ in plain):.2f} s, "
        f"{max(mb for _, mb in plain):.0f} MB",
        flush=True,
    )


def _bench_memory(path: Path, shown: Path) -> None:
    """Print what tensor objects and counters cost, in interleaved runs."""
    for way in ("one core", "all cores"):
        runs = [
            (_run(_WAYS[way], path), _run(_WAYS[way], shown)) for _ in range(_ROUNDS)
        ]
        ratio = statistics.median(b[0] / a[0] for a, b in runs)
        print(
            f"  with memory shown, {shown.stat().st_size / 1e6:.0f} MB, {way}: "
            f"{statistics.median(b[0] for _, b in runs):.2f} s, "
            f"{max(b[1] for _, b in runs):.0f} MB, {ratio:.2f} times the time without",
            flush=True,
        )


def _write(path: Path, n_ops: int, *, has_memory: bool = False) -> None:
    with path.open("w", encoding="utf-8") as stream:
        write_timeline(stream, n_ops, has_memory=has_memory)


def _run(program: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", program, str(path)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = printed.stdout.split()
    return float(seconds), float(megabytes)


def main() -> None:
    """Run the benchmark, or read one file of so many ops."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_ops", nargs="?", type=int)
    arguments = parser.parse_args()
    if arguments.n_ops:
        bench_large(arguments.n_ops)
    else:
        bench_reading()


if __name__ == "__main__":
    main()
