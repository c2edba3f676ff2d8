"""What is to be said about the memory of a step."""

from __future__ import annotations

from placement_viz.analysis.step.memory import DevicePeak, Memory, MemoryFrom
from placement_viz.names import short_device
from placement_viz.units import format_bytes, format_count, format_us

__all__ = ["memory_sentences"]

_HOW = {
    MemoryFrom.ALLOCATIONS: "",
    MemoryFrom.SIZES: (
        "Allocations are not recorded: a tensor is taken to be held until the last op "
        "that takes it has ended, and what an op needs beside its outputs is not known."
    ),
}


def memory_sentences(memory: Memory | None, devices: tuple[str, ...]) -> list[str]:
    """Return what each device held at most, and what of it is there by misplacement.

    Args:
        memory: What was held; None when nothing tells.
        devices: The devices of the run, for names as short as they can be.
    """
    if memory is None:
        return ["Memory is not recorded; a run file of `placement-viz capture` has it."]
    sentences = [
        sentence for peak in memory.peaks for sentence in _peak_sentences(peak, devices)
    ]
    how = _HOW[memory.known_from]
    return [*sentences, how] if how else sentences


def _peak_sentences(peak: DevicePeak, devices: tuple[str, ...]) -> list[str]:
    device = short_device(peak.device, devices)
    pieces = format_count(peak.alive.height, "piece")
    largest = peak.alive.row(0, named=True)
    held = (
        f"{device} held most at {format_us(peak.at_us)}: {format_bytes(peak.n_bytes)} "
        f"in {pieces}, the largest {format_bytes(largest['n_bytes'])} of "
        f"{largest['name']}."
    )
    if not peak.misplaced_bytes:
        return [held]
    saved = peak.n_bytes - peak.without_misplaced_bytes
    would_leave = (
        f"{format_bytes(peak.misplaced_bytes)} of that belong to misplaced gradient "
        f"ops: at home these would lower the peak of {device} by "
        f"{format_bytes(saved)}, to {format_bytes(peak.without_misplaced_bytes)}."
    )
    return [held, would_leave]
