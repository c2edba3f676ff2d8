"""What the classes of ops look like, on a light page and on a dark one.

What is misplaced, exempt or unknown is told by its hatch as well as by its colour,
since colours alone can be confused. Each fill has a contrast of at least 3 to 1 with
what it lies on (WCAG 2.2, 1.4.11); a test computes it.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Mapping

__all__ = ["DARK", "LIGHT", "MARKS", "Look", "Mark", "OpClass"]


class OpClass(enum.StrEnum):
    """What an op is to a reader who looks for misplaced gradients.

    The order is the drawing order: what comes later lies on top.
    """

    TRACER = "tracer"
    FORWARD = "forward"
    COLOCATED = "colocated"
    EXEMPT = "exempt"
    UNKNOWN = "unknown"
    MISPLACED = "misplaced"


@dataclasses.dataclass(frozen=True)
class Mark:
    """How a class is named and hatched, whatever the page.

    Attributes:
        label: Its name in the legend.
        meaning: A sentence for who does not know the name.
        hatch: Plotly's pattern shape; empty for a plain fill.
    """

    label: str
    meaning: str
    hatch: str = ""


MARKS: Mapping[OpClass, Mark] = types.MappingProxyType(
    {
        OpClass.MISPLACED: Mark(
            "misplaced gradient",
            "A gradient op that ran away from the device of its forward op.",
            "/",
        ),
        OpClass.COLOCATED: Mark(
            "gradient at home",
            "A gradient op that ran on the device of its forward op.",
        ),
        OpClass.EXEMPT: Mark(
            "exempt gradient",
            "A gradient op that is elsewhere for a good reason.",
            ".",
        ),
        OpClass.UNKNOWN: Mark(
            "unknown gradient",
            "A gradient op of which nothing tells where it belongs.",
            "x",
        ),
        OpClass.FORWARD: Mark("other op", "A forward op, an update or a transfer."),
        OpClass.TRACER: Mark(
            "tracer row",
            "Kernels and copies as the GPU tracer saw them, and tensors received from "
            "another process: times, no placement.",
        ),
    }
)


@dataclasses.dataclass(frozen=True)
class Look:
    """The colours of one colour scheme.

    Attributes:
        name: ``light`` or ``dark``.
        surface: What the marks lie on.
        band: The same behind every second device.
        text: Axis text and the outline of what is chosen.
        muted: Less important text.
        grid: Lines that should hardly be seen.
        fills: Class to colour.
    """

    name: str
    surface: str
    band: str
    text: str
    muted: str
    grid: str
    fills: Mapping[OpClass, str]


LIGHT = Look(
    name="light",
    surface="#ffffff",
    band="#f4f6f8",
    text="#16202c",
    muted="#55616e",
    grid="#e3e8ed",
    fills=types.MappingProxyType(
        {
            OpClass.TRACER: "#828b95",
            OpClass.FORWARD: "#6484ad",
            OpClass.COLOCATED: "#0b8068",
            OpClass.EXEMPT: "#9a6fb5",
            OpClass.UNKNOWN: "#7a6a2c",
            OpClass.MISPLACED: "#d1480b",
        }
    ),
)
DARK = Look(
    name="dark",
    surface="#151b22",
    band="#1b232c",
    text="#e8edf2",
    muted="#a3b0bd",
    grid="#2a343f",
    fills=types.MappingProxyType(
        {
            OpClass.TRACER: "#6f7a86",
            OpClass.FORWARD: "#6f93c4",
            OpClass.COLOCATED: "#2bb394",
            OpClass.EXEMPT: "#b78fd0",
            OpClass.UNKNOWN: "#c9b458",
            OpClass.MISPLACED: "#ff7a3d",
        }
    ),
)
