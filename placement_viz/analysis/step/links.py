"""What the link between host and graphics cards looks like."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.model import Run
from placement_viz.schema import GpuRecord

__all__ = ["Link", "find_link"]

#: Bytes a second over links of PCI Express, slowest first.
#:
#: Source:
#:     8, 16 and 32 GT/s a lane, coded 128 of 130 (PCI Express base specification).
_LINKS = (
    (7.9e9, "Gen3 x8"),
    (15.8e9, "Gen3 x16 or Gen4 x8"),
    (31.5e9, "Gen4 x16 or Gen5 x8"),
    (63.0e9, "Gen5 x16"),
)
#: Smaller copies take their time to begin, and not to copy.
_LEAST_BYTES = 1 << 20
#: Of fewer copies no rate is told.
_FEWEST = 3
#: Copies from memory that can be paged are this much slower than the link, or more.
_LEAST_SHARE = 0.6


@dataclasses.dataclass(frozen=True)
class Link:
    """How fast the largest copies between host and cards were.

    Attributes:
        n_copies: Number of copies that the rate is read from: the largest tenth of
            those of 1 MiB or more; 0 when none has a known size and a time.
        smallest_bytes: Size of the smallest of them; None when there is none.
        largest_bytes: Size of the largest.
        bytes_per_s: Median of their rates; None when there is none.
        looks_like: The slowest link that allows this rate, such as ``Gen3 x8``; a hint.
            None when the rate is far below that of any, above that of all, or
            read from too few copies.
        recorded: The cards whose link was recorded when the step was captured.
    """

    n_copies: int = 0
    smallest_bytes: int | None = None
    largest_bytes: int | None = None
    bytes_per_s: float | None = None
    looks_like: str | None = None
    recorded: tuple[GpuRecord, ...] = ()


def find_link(run: Run, copies: pl.DataFrame) -> Link | None:
    """Return what is known of the link; None when nothing is.

    Args:
        run: What ran.
        copies: Its copies, as in ``COPIES_SCHEMA``.
    """
    hardware = None if run.section is None else run.section.hardware
    gpus = () if hardware is None else hardware.gpus
    recorded = tuple(gpu for gpu in gpus if gpu.link_width or gpu.max_link_width)
    large = copies.filter(
        pl.col("kind").is_in(["HtoD", "DtoH"]),
        pl.col("n_bytes") >= _LEAST_BYTES,
        pl.col("duration_us") > 0,
    )
    large = large.filter(pl.col("n_bytes") >= pl.col("n_bytes").quantile(0.9, "higher"))
    if large.is_empty():
        return Link(recorded=recorded) if recorded else None
    rates = large["n_bytes"] * 1_000_000 / large["duration_us"]
    rate = float(rates.median())  # type: ignore[arg-type]
    return Link(
        n_copies=large.height,
        smallest_bytes=int(large["n_bytes"].min()),  # type: ignore[arg-type]
        largest_bytes=int(large["n_bytes"].max()),  # type: ignore[arg-type]
        bytes_per_s=rate,
        looks_like=_looks_like(rate) if large.height >= _FEWEST else None,
        recorded=recorded,
    )


def _looks_like(bytes_per_s: float) -> str | None:
    if bytes_per_s < _LEAST_SHARE * _LINKS[0][0]:
        return None
    return next((name for most, name in _LINKS if bytes_per_s <= most), None)
