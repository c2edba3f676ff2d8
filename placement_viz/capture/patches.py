"""Attributes that are replaced for a while and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Patches"]


class Patches:
    """Replaced attributes of modules and classes, newest last."""

    def __init__(self) -> None:
        """Start with nothing replaced."""
        self._undo: list[Callable[[], None]] = []

    def replace(
        self, owner: Any, name: str, wrap: Callable[[Any], Any], *, needed: bool = False
    ) -> bool:
        """Put ``wrap(attribute)`` in the place of an attribute of ``owner``.

        Args:
            owner: A module or class; None counts as one without attributes.
            name: The attribute.
            wrap: Given the attribute as it was, returns what takes its place.
            needed: Whether a missing attribute is an error.

        Returns:
            Whether there was such an attribute.

        Raises:
            AttributeError: It is ``needed`` and missing.
        """
        if not needed and not hasattr(owner, name):
            return False
        original = getattr(owner, name)
        setattr(owner, name, wrap(original))
        self._undo.append(lambda: setattr(owner, name, original))
        return True

    def call(
        self, do: Callable[[Any], Any], undo: Callable[[Any], Any], value: Any
    ) -> None:
        """Do something with ``value`` now, and undo it with the patches."""
        do(value)
        self._undo.append(lambda: undo(value))

    def undo(self) -> None:
        """Put everything back, newest first."""
        while self._undo:
            self._undo.pop()()
