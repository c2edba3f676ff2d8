"""How the steps of two runs differ, in words."""

from __future__ import annotations

from placement_viz.analysis import Comparison
from placement_viz.analysis.compare import Side
from placement_viz.names import short_device
from placement_viz.reports.step_scaling import scaling_sentences
from placement_viz.units import format_bytes, format_count, format_us

__all__ = ["step_changes"]


_PATH_PARTS = {
    "computing": "compute_us",
    "waiting": "wait_us",
    "of that for another device": "afar_us",
}


def step_changes(comparison: Comparison) -> dict[str, str]:
    """Return what is to be said about both steps, each with its title."""
    said = {
        "Transfers": _transfers(comparison),
        "Critical path": _paths(comparison),
        "Memory": _memory(comparison),
    }
    if comparison.scaling is not None:
        said["Scaling"] = " ".join(scaling_sentences(comparison.scaling))
    return {title: text for title, text in said.items() if text}


def _transfers(comparison: Comparison) -> str:
    if not comparison.is_placed:
        return ""
    before, after = comparison.baseline, comparison.candidate
    tensors = [side.step.transfers.tensors.height for side in (before, after)]
    crossed = f"{tensors[0]:,} → {format_count(tensors[1], 'tensor')} crossed"
    sizes = [_crossed_bytes(side) for side in (before, after)]
    if None in sizes:
        return f"{crossed}; how many bytes is not recorded in both runs."
    return f"{crossed}, {_change(*sizes)}."


def _crossed_bytes(side: Side) -> int | None:
    """Return how much crossed; None when that is not known of each tensor."""
    tensors = side.step.transfers.tensors
    if tensors["bytes_from"].null_count():
        return None
    return int(tensors["n_bytes"].sum())


def _paths(comparison: Comparison) -> str:
    before, after = (
        side.step.critical_path.steps
        for side in (comparison.baseline, comparison.candidate)
    )
    if before.is_empty() or after.is_empty():
        return ""
    told = (
        f"{what} {format_us(int(before[part].sum()))} → "
        f"{format_us(int(after[part].sum()))}"
        for what, part in _PATH_PARTS.items()
    )
    return f"{', '.join(told)}."


def _memory(comparison: Comparison) -> str:
    peaks = [
        {peak.device: peak.n_bytes for peak in side.step.memory.peaks}
        for side in (comparison.baseline, comparison.candidate)
        if side.step.memory is not None
    ]
    if len(peaks) < 2:
        return ""
    before, after = peaks
    told = [
        f"{short_device(device, comparison.devices)} "
        f"{format_bytes(before.get(device, 0))} → {format_bytes(after.get(device, 0))}"
        for device in comparison.devices
        if device in before or device in after
    ]
    return f"at the peak {', '.join(told)}."


def _change(before: int | None, after: int | None) -> str:
    was, now = before or 0, after or 0
    sign = "+" if now > was else ""
    difference = f"{sign}{format_bytes(now - was)}"
    return f"{format_bytes(was)} → {format_bytes(now)} ({difference})"
