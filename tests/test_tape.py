"""GradientTape with colocated gradients, against TensorFlow itself."""

import contextlib
import json
import operator
import subprocess
import sys

import pytest

from placement_viz.capture import colocation
from placement_viz.errors import CaptureError
from tests.builders import ROOT, environment

pytestmark = pytest.mark.tensorflow

MODELS = (
    "attention",
    "batch_norm",
    "condition",
    "custom_gradient",
    "dropout",
    "embedding",
    "loop",
    "nested_function",
    "pipeline",
    "second_order",
    "shared_variable",
    "split_and_concat",
    "training_loop",
)


@pytest.fixture(scope="module")
def outcomes():
    """Return what came of each model, all run in one process of their own."""
    printed = subprocess.run(
        [sys.executable, "-m", "tests.tape_models"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return json.loads(printed)


def test_all_models_were_run(outcomes):
    """The program runs the models that are tested here."""
    assert sorted(outcomes) == sorted(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_colocation_changes_no_gradient(model, outcomes):
    """Gradients are bit for bit the same, captured or inside the block."""
    as_is, captured, inside = outcomes[model]["values"]

    assert as_is == captured == inside


@pytest.mark.parametrize("model", MODELS)
def test_colocation_leaves_nothing_misplaced(model, outcomes):
    """What a tape put on the first device is with its forward op afterwards."""
    before, after = outcomes[model]["misplaced"]

    # The gradient of a lookup is made of indices that are there already.
    assert before or model == "embedding"
    assert not after


@pytest.mark.parametrize("model", MODELS)
def test_a_tape_puts_gradients_where_the_engine_said(model, outcomes):
    """Homes named from the run as it is are where the colocated run has the ops."""
    assert outcomes[model]["predicted"] == outcomes[model]["true"]


@pytest.mark.parametrize("version", ["2.14.1", "2.22.0", "3.0.0", "none"])
def test_an_unknown_version_is_refused(version, monkeypatch):
    """Nothing is changed in a TensorFlow whose tape nobody has read."""
    from tensorflow.python.eager import backprop
    from tensorflow.python.framework import versions

    monkeypatch.setattr(versions, "VERSION", version)
    before = vars(backprop).copy()

    with (
        pytest.raises(CaptureError, match=f"found {version}, whose GradientTape"),
        colocation.colocated_gradients(),
    ):
        pytest.fail("the block was entered")
    assert vars(backprop) == before


def test_hooks_are_taken_out():
    """After the block TensorFlow is as it was, whatever ended it."""
    from tensorflow.python.eager import backprop, execute, imperative_grad, record
    from tensorflow.python.ops import gradients_util

    modules = (backprop, execute, imperative_grad, record, gradients_util)
    before = [vars(module).copy() for module in modules]

    with contextlib.suppress(KeyError), colocation.colocated_gradients():
        hooked = [vars(module).copy() for module in modules]
        raise KeyError

    # The modules of execution, of the tape and of tf.gradients each have some.
    assert sum(map(operator.ne, hooked, before)) >= 3
    assert [vars(module) for module in modules] == before
