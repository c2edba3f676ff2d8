"""What lies in what: the nesting of ops on a thread, and ends that belong to begins."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["depths", "matching_ends"]


def depths(starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return for each op of a thread how many others of the thread it lies in.

    Ops of the same depth never overlap, whether or not the others are properly nested.

    Args:
        starts: When each op starts, in any unit.
        ends: When it ends, not before.
    """
    found = [0] * len(starts)
    open_ends: list[int] = []
    for i in sorted(range(len(starts)), key=lambda i: (starts[i], -ends[i])):
        while open_ends and open_ends[-1] <= starts[i]:
            open_ends.pop()
        found[i] = len(open_ends)
        open_ends.append(ends[i])
    return found


def matching_ends(times: Sequence[int], is_end: Sequence[bool]) -> list[int | None]:
    """Return for each event of a thread the position of its end, if it begins an op.

    An end belongs to the begin before it that is still open, the last of several; what
    it is called does not matter, for many programs leave that out.

    Args:
        times: When each event happens; of those at the same time the first one counts
            as earlier.
        is_end: Whether it ends an op; otherwise it begins one.

    Returns:
        None for an end, and for a begin that nothing ends.
    """
    found: list[int | None] = [None] * len(times)
    open_begins: list[int] = []
    for i in sorted(range(len(times)), key=times.__getitem__):
        if not is_end[i]:
            open_begins.append(i)
        elif open_begins:
            found[open_begins.pop()] = i
    return found
