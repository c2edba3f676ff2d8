"""What a timeline is drawn into: devices and their lines, without the ops.

The browser decides where a line lies (``assets/timeline_layout.js``): a device may be
folded, moved or pinned there. A line keeps its number, by which all answers name it.
"""

from __future__ import annotations

import dataclasses

from placement_viz.analysis import Analysis, Comparison
from placement_viz.figures import (
    MARKS,
    OpClass,
    RowLabel,
    Rows,
    label_rows,
    whole_window,
)

__all__ = ["Frame", "Group", "RunLines", "comparison_frame", "run_frame"]


@dataclasses.dataclass(frozen=True)
class Group:
    """The lines of one device.

    Attributes:
        device: Its full name, the same in every run.
        name: What a person calls it.
        first: Number of its first line.
        last: Number of its last line.
        labels: What is written beside the lines.
    """

    device: str
    name: str
    first: int
    last: int
    labels: tuple[RowLabel, ...]


@dataclasses.dataclass(frozen=True)
class RunLines:
    """The devices of one run, from top to bottom.

    Attributes:
        title: What is written above them; empty for a run by itself.
        groups: The devices.
    """

    title: str
    groups: tuple[Group, ...]


@dataclasses.dataclass(frozen=True)
class Frame:
    """What the page needs before it draws ops.

    Attributes:
        whole_us: First and last moment that can be looked at.
        runs: One run, or two that are compared.
        is_judged: Whether the ops have been judged.
        origin_us: When the first op began, in microseconds since 1970; 0 if unknown.
        classes: The classes of ops by number, in drawing order.
        hatches: The hatch of each class; empty for a plain fill.
    """

    whole_us: tuple[float, float]
    runs: tuple[RunLines, ...]
    is_judged: bool = True
    origin_us: int = 0
    classes: tuple[str, ...] = tuple(each.value for each in OpClass)
    hatches: tuple[str, ...] = tuple(MARKS[each].hatch for each in OpClass)


def run_frame(analysis: Analysis, rows: Rows) -> Frame:
    """Return what the ops of a run are drawn into.

    Args:
        analysis: The run.
        rows: Its lines.
    """
    trace = analysis.run.trace
    return Frame(
        whole_window(trace.span_us),
        (RunLines("", _groups(rows)),),
        is_judged=analysis.is_judged,
        origin_us=trace.origin_us,
    )


def comparison_frame(comparison: Comparison, rows: tuple[Rows, Rows]) -> Frame:
    """Return what the ops of two runs are drawn into, the baseline above.

    Args:
        comparison: The two.
        rows: The lines of each.
    """
    sides = (comparison.baseline, comparison.candidate)
    whole = whole_window(max(side.span_us for side in sides))
    runs = [
        RunLines(f"{word}: {_file_name(side.run.source)}", _groups(lines))
        for word, side, lines in zip(("Before", "After"), sides, rows, strict=True)
    ]
    return Frame(whole, tuple(runs))


def _file_name(source: str) -> str:
    return source.replace("\\", "/").rpartition("/")[2]


def _groups(rows: Rows) -> tuple[Group, ...]:
    labels = label_rows(rows)
    return tuple(
        Group(
            group.device,
            group.label,
            group.first,
            group.last,
            tuple(each for each in labels if group.first <= each.first <= group.last),
        )
        for group in rows.groups
    )
