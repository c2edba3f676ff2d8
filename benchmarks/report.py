"""How a figure is printed."""

from __future__ import annotations

import statistics


def report(what: str, seconds: list[float]) -> None:
    """Print one line: what was measured, its median and its slowest run."""
    median, slowest = statistics.median(seconds), max(seconds)
    print(f"{what:<52} {median:8.3f} s   slowest {slowest:8.3f} s", flush=True)
