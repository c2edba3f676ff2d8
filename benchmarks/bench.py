"""Measure what a person waits for, and print it: ``make bench``.

Every figure is the median of several runs on the machine at hand; what other work
the machine has shows in the spread, so the slowest is printed beside it.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.cache import bench_cache
from benchmarks.capture import bench_capture
from benchmarks.generate import generate_run
from benchmarks.page import bench_page
from benchmarks.reading import bench_reading
from benchmarks.report import report
from placement_viz import Run, analyze_run, parse_run
from placement_viz.analysis import Analysis
from placement_viz.reports.document import analysis_document, format_json
from placement_viz.reports.step_document import step_document

_REPEATS = 5


def measure(action: Callable[[], object], repeats: int = _REPEATS) -> list[float]:
    """Return the seconds that ``action`` takes, each time it is run."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return seconds


def bench_analyze() -> None:
    """Time reading, judging and writing a run in a process that is warm."""
    for n_ops in (10_000, 100_000, 1_000_000):
        data = json.dumps(generate_run(n_ops), indent=4).encode()
        run = parse_run(data, source="generated")

        def analyze(data: bytes = data) -> None:
            format_json(analysis_document(analyze_run(parse_run(data, source="x"))))

        def judge(run: Run = run) -> None:
            analyze_run(run)

        judged = analyze_run(run)

        def find_step(judged: Analysis = judged) -> None:
            # A copy of it has found nothing yet.
            step_document(dataclasses.replace(judged))

        repeats = _REPEATS if n_ops < 1_000_000 else 2
        label = f"{n_ops:,} ops, {len(data) / 1e6:.0f} MB"
        report(f"analyze --json: {label}", measure(analyze, repeats))
        report(f"  of which judging: {label}", measure(judge, repeats))
        report(f"  of which the step: {label}", measure(find_step, repeats))


def bench_start() -> None:
    """Time a fresh Python that imports the package, and one that imports the app."""
    for statement in ("import placement_viz", "import app"):
        command = [sys.executable, "-c", statement]
        report(
            f"python -c '{statement}'",
            measure(lambda command=command: subprocess.run(command, check=True)),
        )


def main() -> None:
    """Run every benchmark."""
    bench_start()
    bench_reading()
    bench_cache()
    bench_analyze()
    bench_page()
    bench_capture()


if __name__ == "__main__":
    main()
