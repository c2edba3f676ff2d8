"""What a large run took while it was read goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

__all__ = ["limit_leftovers", "trim_memory"]

#: Of ``mallopt(3)``: at what size memory comes right from the system and goes back as
#: soon as it is freed, and how many pools threads have for what is smaller.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
#: More than a window of a timeline needs, which is asked for often, and less than the
#: columns of a large run.
_LARGE_BYTES = 1 << 18


def limit_leftovers() -> None:
    """Let the process keep less of what was freed; call it before threads start.

    Otherwise the allocator learns from large arrays that were freed to keep such
    memory, and each thread that read or drew a run keeps some of its own.

    Source:
        ``M_MMAP_THRESHOLD`` and ``M_ARENA_MAX`` in ``mallopt(3)``: the threshold grows
        up to 32 MB unless it is set.
    """
    mallopt = _from_allocator("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def trim_memory() -> None:
    """Give back memory that was freed, where the system's allocator keeps it.

    Source:
        ``malloc_trim(3)``: memory below what is in use stays with the process.
    """
    trim = _from_allocator("malloc_trim")
    if trim is not None:
        trim(0)


def _from_allocator(name: str) -> Any:
    """Return a function of glibc; None where the allocator is another one."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), name, None)
