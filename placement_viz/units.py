"""Numbers into words, at the edge of the program and nowhere else."""

from __future__ import annotations

__all__ = ["format_bytes", "format_count", "format_share", "format_us"]

_TIME_UNITS = ((1_000_000, "s"), (1_000, "ms"))
_BYTE_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def format_us(duration_us: float) -> str:
    """Return a duration in the unit a person would choose: ``8.1 ms``, ``540 µs``.

    Args:
        duration_us: Microseconds; may be negative, as a difference is.
    """
    for size, unit in _TIME_UNITS:
        # 999.5 ms would be printed as 1000 ms.
        if abs(duration_us) >= size * 0.9995:
            return f"{_three_digits(duration_us / size)} {unit}"
    return f"{duration_us:.0f} µs"


def format_bytes(n_bytes: float) -> str:
    """Return a size in binary units: ``4.1 MiB``, ``512 B``."""
    for size, unit in _BYTE_UNITS:
        if abs(n_bytes) >= size:
            return f"{_three_digits(n_bytes / size)} {unit}"
    return f"{n_bytes:.0f} B"


def format_count(n: int, singular: str, plural: str | None = None) -> str:
    """Return ``n`` with its noun: ``1 op``, ``1,204 ops``."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def format_share(part: float, whole: float) -> str:
    """Return ``part`` of ``whole`` in per cent; ``–`` when there is no whole."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"
