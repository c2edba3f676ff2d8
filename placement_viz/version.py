"""The version, in a module that imports nothing."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
