"""Small training steps, each in a way that programs are really written."""

from __future__ import annotations

from tests.oracle.models import (
    arrays,
    calls,
    functions,
    images,
    normalisation,
    options,
    parallel,
    recurrent,
    sequences,
)
from tests.oracle.models.steps import Model, Step

__all__ = ["MODELS", "Model", "Step"]

_THEMES = (
    parallel,
    normalisation,
    recurrent,
    sequences,
    arrays,
    images,
    calls,
    options,
    functions,
)

MODELS: dict[str, Model] = {
    name: model for theme in _THEMES for name, model in theme.MODELS.items()
}
