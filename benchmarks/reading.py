"""How fast a timeline is read, beside what anybody could write in ten lines."""

from __future__ import annotations

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
import resource, sys, time
start = time.perf_counter()
{read}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(time.perf_counter() - start, peak)
"""

_OURS = _REPORT.format(
    read="""
from placement_viz import load_run
table = load_run(sys.argv[1]).trace.ops
"""
)

_PLAIN = _REPORT.format(
    read="""
import json
with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
table = [
    (e["args"]["name"], e["args"]["op"], e["pid"], e["tid"], e["ts"], e["dur"],
     [v for k, v in e["args"].items() if k.startswith("input")])
    for e in events if e["ph"] == "X"
]
"""
)


def bench_reading() -> None:
    """Print time, memory and the ratio to the plain way, in interleaved runs."""
    for n_ops in (10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "timeline.json"
            with path.open("w", encoding="utf-8") as stream:
                write_timeline(stream, n_ops)
            runs = [(_run(_OURS, path), _run(_PLAIN, path)) for _ in range(_ROUNDS)]
            n_bytes = path.stat().st_size
        ours, plain = (statistics.median(r[i][0] for r in runs) for i in (0, 1))
        ratio = statistics.median(b[0] / a[0] for a, b in runs)
        peaks = [max(run[i][1] for run in runs) for i in (0, 1)]
        print(
            f"read {n_ops:,} ops, {n_bytes / 1e6:.0f} MB: {ours:.2f} s and "
            f"{peaks[0]:.0f} MB; json.load and a loop {plain:.2f} s and "
            f"{peaks[1]:.0f} MB; {ratio:.1f} times as fast",
            flush=True,
        )


def _run(program: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", program, str(path)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = printed.stdout.split()
    return float(seconds), float(megabytes)


if __name__ == "__main__":
    bench_reading()
