"""Words in a row, as a person would say them."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["listed"]


def listed(words: Iterable[str]) -> str:
    """Return ``a, b and c``, each word once; empty for no words."""
    *head, last = dict.fromkeys(words) or ("",)
    return f"{', '.join(head)} and {last}" if head else last
