"""What the link between host and graphics cards looks like, in sentences."""

from __future__ import annotations

from placement_viz.analysis.step.links import Link
from placement_viz.schema import GpuRecord
from placement_viz.units import format_bytes, format_count

__all__ = ["link_sentences", "rate"]


def link_sentences(link: Link | None) -> list[str]:
    """Return what was recorded of the link to the cards, and how fast it was."""
    if link is None:
        return []
    said = [_recorded(gpu) for gpu in link.recorded]
    if link.bytes_per_s is None or link.smallest_bytes is None:
        return said
    sizes = " to ".join(
        dict.fromkeys(
            format_bytes(size or 0)
            for size in (link.smallest_bytes, link.largest_bytes)
        )
    )
    copies = format_count(link.n_copies, "copy", "copies")
    # Who knows the link needs no hint.
    is_recorded = any(gpu.link_width for gpu in link.recorded)
    is_hint = link.looks_like and not is_recorded
    hint = f", which looks like {link.looks_like}; a hint, no proof" if is_hint else ""
    said.append(
        f"The largest {copies} between host and card, of {sizes}, went at "
        f"{rate(link.bytes_per_s)}{hint}."
    )
    return said


def _recorded(gpu: GpuRecord) -> str:
    width, most = gpu.link_width, gpu.max_link_width
    at = f" (PCI {gpu.bus_id})" if gpu.bus_id else ""
    name = f"{gpu.name or 'A card'}{at}"
    if not width:
        return (
            f"The link of {name} allows {most} lanes; how many it used is not recorded."
        )
    generation = gpu.max_link_generation or gpu.link_generation
    kind = f" of PCI Express {generation}" if generation else ""
    of = f" of {most}" if most and most != width else ""
    return f"The link of {name} had {width}{of} lanes{kind} when the step was captured."


def rate(bytes_per_s: float) -> str:
    """Return a rate in the unit that links are sold by: ``7.9 GB/s``."""
    return f"{bytes_per_s / 1e9:.1f} GB/s"
