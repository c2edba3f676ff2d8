"""What a large run took while it was read goes back to the system."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["trim_memory"]


def trim_memory() -> None:
    """Give back memory that was freed, where the system's allocator keeps it.

    Source:
        ``malloc_trim(3)``: memory below what is in use stays with the process.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
