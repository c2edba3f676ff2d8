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
    unseen_losses,
    unseen_splits,
)
from tests.oracle.models.steps import Model, Step

__all__ = ["MODELS", "UNSEEN", "Model", "Step"]

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

#: Models that no rule was made after: they show whether the rules hold elsewhere too.
UNSEEN: dict[str, Model] = unseen_losses.MODELS | unseen_splits.MODELS
