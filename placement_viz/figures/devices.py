"""Colours that tell devices apart."""

from __future__ import annotations

from collections.abc import Iterable

from placement_viz.figures.looks import Look

__all__ = ["device_fills"]

#: In the order of the devices; further ones begin anew.
_FILLS = {
    "light": ("#31679e", "#8a4b9c", "#2f7d4f", "#94662a", "#56606b", "#a33a63"),
    "dark": ("#6aa5e0", "#c58fd6", "#63bd88", "#d0a05c", "#a5b1bd", "#e07ca3"),
}


def device_fills(devices: Iterable[str], look: Look) -> dict[str, str]:
    """Return a colour for each device, with a contrast of 3 to 1 with the page.

    Args:
        devices: In the order of the run; repeated ones count once.
        look: The colours of the page.
    """
    fills = _FILLS[look.name]
    order = dict.fromkeys(devices)
    return {device: fills[i % len(fills)] for i, device in enumerate(order)}
