"""Colocated gradients for a program that asks for none, tape or not."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator
from typing import Any

from placement_viz.capture.gradients import GradientNotes
from placement_viz.capture.graph_gradients import GRADIENT_MODULE, GraphGradients
from placement_viz.capture.patches import Patches
from placement_viz.capture.tape_gradients import TAPE_MODULE, TapeGradients
from placement_viz.errors import CaptureError

__all__ = ["KNOWN_VERSIONS", "check_version", "colocated_gradients"]

#: First and last TensorFlow release in which the hooked code was read and tested.
KNOWN_VERSIONS = ((2, 15), (2, 21))


@contextlib.contextmanager
def colocated_gradients() -> Iterator[None]:
    """Build gradients on the devices of their forward ops inside the block.

    ``tf.gradients`` and v1 optimizers behave as with
    ``colocate_gradients_with_ops=True``, and ``GradientTape``, which has no such flag,
    likewise: each gradient function runs colocated with the op that it differentiates,
    and sums of gradients with the op whose gradient they are. Values do not change.

    It acts when a graph is built: a ``tf.function`` must be called for the first time
    inside the block, and keeps its placement afterwards. Not reached are gradients
    taken outside any ``tf.function``, for eager ops belong to no graph.

    Example:
        >>> with placement_viz.colocated_gradients():
        ...     for batch in dataset:
        ...         train_step(batch)

    Raises:
        CaptureError: This TensorFlow is not a known version; nothing was changed.
    """
    check_version()
    patches, notes = Patches(), GradientNotes()
    try:
        _attach(notes, patches)
        yield
    finally:
        patches.undo()


def check_version() -> None:
    """Raise :class:`CaptureError` unless colocation is known to work here."""
    # Not tensorflow itself: it may be in the middle of being imported.
    from tensorflow.python.framework import versions  # noqa: PLC0415

    first, last = KNOWN_VERSIONS
    found = re.match(r"(\d+)\.(\d+)", versions.VERSION)
    if found is None or not first <= (int(found[1]), int(found[2])) <= last:
        raise CaptureError(
            f"colocated gradients: expected TensorFlow {_shown(first)} to "
            f"{_shown(last)}, found {versions.VERSION}, whose GradientTape is not "
            "known; nothing was changed"
        )


def _attach(notes: GradientNotes, patches: Patches) -> None:
    try:
        GraphGradients(notes, colocate=True).attach(_module(GRADIENT_MODULE), patches)
        TapeGradients(notes, colocate=True).attach(_module(TAPE_MODULE), patches)
    except (AttributeError, ImportError) as error:
        raise CaptureError(
            f"colocated gradients: expected a known GradientTape, found that {error}; "
            "nothing was changed"
        ) from error


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _shown(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
