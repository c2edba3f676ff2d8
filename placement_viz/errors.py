"""What can go wrong, as one tree.

::

    PlacementVizError
    ├── TraceError              a file is not a usable run
    │   ├── TraceFormatError    it cannot be read
    │   └── NoOpsError          it can be read and holds no op
    ├── UnknownNameError        a device, op or run that is not there
    └── CaptureError            a training step could not be captured

Every message is one line: where, what was expected, what was found, and what to do.
``commands.main`` alone turns these into standard error and exit codes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "CaptureError",
    "NoOpsError",
    "PlacementVizError",
    "TraceError",
    "TraceFormatError",
    "UnknownNameError",
]


class PlacementVizError(Exception):
    """Anything this package reports to the person who called it."""


class TraceError(PlacementVizError):
    """A file that is no usable run."""


class TraceFormatError(TraceError):
    """A file that cannot be read: damaged, or of a kind that is not known."""


class NoOpsError(TraceError):
    """A readable trace in which no op ran."""


class UnknownNameError(PlacementVizError):
    """A name that nothing in the run answers to."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Return the error for ``name``, with the closest of the ``known`` names."""
        names = sorted(set(known))
        message = f"no {kind} named {name!r} among {len(names)}"
        if close := difflib.get_close_matches(name, names, n=2):
            message += f". Did you mean {close}?"
        return cls(message)


class CaptureError(PlacementVizError):
    """A training step that could not be captured."""
