"""Training steps under a GradientTape, run as they are and with colocated gradients.

``python -m tests.tape_models`` prints one JSON object: model to what came of it. It is
a program of its own, for logical devices can only be made before the first op.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

import placement_viz

FIRST, SECOND = "/CPU:0", "/CPU:1"

Step = Callable[[tf.Tensor], Any]
MODELS: dict[str, Callable[[], Step]] = {}


def model(build: Callable[[], Step]) -> Callable[[], Step]:
    """Add a model under its function's name."""
    MODELS[build.__name__] = build
    return build


def variable(*shape: int, device: str = SECOND) -> tf.Variable:
    """Return a variable with values that no other has."""
    values = np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)
    with tf.device(device):
        return tf.Variable(values.astype(np.float32))


@model
def pipeline() -> Step:
    """Two layers on two devices."""
    first, second = variable(4, 5, device=FIRST), variable(5, 3)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            with tf.device(FIRST):
                hidden = tf.nn.relu(x @ first)
            with tf.device(SECOND):
                loss = tf.reduce_mean(tf.square(hidden @ second))
        return tape.gradient(loss, [first, second])

    return step


@model
def shared_variable() -> Step:
    """One variable used on both devices, whose gradients are summed."""
    weights = variable(4, 4, device=FIRST)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            losses = []
            for device in (FIRST, SECOND):
                with tf.device(device):
                    losses.append(tf.reduce_sum(tf.tanh(x @ weights)))
            loss = tf.add_n(losses)
        return tape.gradient(loss, [weights])

    return step


@model
def batch_norm() -> Step:
    """A fused batch norm after a convolution."""
    kernel, scale, shift = variable(3, 3, 1, 2), variable(2), variable(2)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            images = tf.reshape(x, [2, 4, 4, 1])
            maps = tf.nn.conv2d(images, kernel, 1, "SAME")
            normed, *_ = tf.compat.v1.nn.fused_batch_norm(maps, scale, shift)
            loss = tf.reduce_sum(tf.sigmoid(normed))
        return tape.gradient(loss, [kernel, scale, shift])

    return step


@model
def embedding() -> Step:
    """Rows of a table, whose gradient is sparse."""
    table = variable(6, 3)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            rows = tf.gather(table, [0, 2, 2])
            loss = tf.reduce_sum(tf.exp(rows)) + 0.0 * tf.reduce_sum(x)
        return tf.convert_to_tensor(tape.gradient(loss, table))

    return step


@model
def loop() -> Step:
    """A recurrence in a while loop."""
    weights = variable(4, 4)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            _, state = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, state: (i + 1, tf.tanh(state @ weights)),
                [tf.constant(0), x],
            )
            loss = tf.reduce_sum(state)
        return tape.gradient(loss, [weights])

    return step


@model
def condition() -> Step:
    """A branch that is taken by value."""
    weights = variable(4, 4)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            y = x @ weights
            y = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.tanh(y), lambda: y * y)
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, [weights])

    return step


@model
def attention() -> Step:
    """Attention with einsum and softmax."""
    query, key = variable(4, 3), variable(4, 2, 3)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            scores = tf.einsum("bi,ij,ihj->bh", x, query, key)
            loss = tf.reduce_sum(tf.nn.softmax(scores) ** 2)
        return tape.gradient(loss, [query, key])

    return step


@model
def split_and_concat() -> Step:
    """Parts of a tensor taken apart on one device and joined on another."""
    weights = variable(4, 6)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            with tf.device(SECOND):
                parts = tf.split(x @ weights, 3, axis=1)
            with tf.device(FIRST):
                joined = tf.concat([parts[0] * parts[1], tf.sin(parts[2])], axis=1)
                loss = tf.reduce_sum(joined[:, 1:])
        return tape.gradient(loss, [weights])

    return step


@model
def custom_gradient() -> Step:
    """A function that says itself what its gradient is."""
    weights = variable(4, 4)

    @tf.custom_gradient
    def clipped(y: tf.Tensor) -> Any:
        return tf.exp(y), lambda dy: tf.clip_by_value(dy * tf.exp(y), -1.0, 1.0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            loss = tf.reduce_sum(clipped(x @ weights))
        return tape.gradient(loss, [weights])

    return step


@model
def second_order() -> Step:
    """The gradient of a gradient's size."""
    weights = variable(4, 4)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as outer, tf.device(SECOND):
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(tf.tanh(x @ weights))
            penalty = tf.reduce_sum(tf.square(inner.gradient(loss, weights)))
        return outer.gradient(penalty, [weights])

    return step


@model
def nested_function() -> Step:
    """A layer that is a function of its own."""
    weights = variable(4, 4)

    def layer(x: tf.Tensor) -> tf.Tensor:
        with tf.device(SECOND):
            return tf.tanh(x @ weights)

    def step(x: tf.Tensor) -> Any:
        # A new one each time: a function keeps the gradients it was built with.
        function = tf.function(layer)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(function(x)))
        return tape.gradient(loss, [weights])

    return step


@model
def training_loop() -> Step:
    """A whole training inside a function: tapes in a loop, and in a branch of it."""
    weights = variable(4, 4)

    def gradient_of(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape, tf.device(SECOND):
            loss = tf.reduce_sum(tf.tanh(tf.square(x @ weights)))
        return tape.gradient(loss, weights)

    def body(i: tf.Tensor, total: tf.Tensor, x: tf.Tensor) -> Any:
        gradient = tf.cond(
            i > 1, lambda: gradient_of(x), lambda: gradient_of(tf.sin(x))
        )
        return i + 1, total + gradient + gradient_of(x), x

    def step(x: tf.Tensor) -> Any:
        start = [tf.constant(0), tf.zeros([4, 4]), x]
        return tf.while_loop(lambda i, *_: i < 3, body, start)[1]

    return step


@model
def dropout() -> Step:
    """Seeded dropout."""
    weights = variable(4, 4)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, tf.device(SECOND):
            kept = tf.nn.experimental.stateless_dropout(x @ weights, 0.4, [1, 2])
            loss = tf.reduce_sum(kept * kept)
        return tape.gradient(loss, [weights])

    return step


def outcome(build: Callable[[], Step], folder: Path) -> dict[str, Any]:
    """Return the gradients of a model both ways, and how they were placed."""
    generator = np.random.default_rng(0)
    x = tf.constant(generator.normal(size=(8, 4)).astype(np.float32))
    step = build()
    found: dict[str, Any] = {"values": [], "misplaced": []}
    tables = []
    for placement in ("as-is", "colocated"):
        path = folder / f"{build.__name__}-{placement}.json"
        with placement_viz.capturing(path, step=1, placement=placement):
            values = tf.nest.flatten(tf.function(step)(x))
        found["values"].append([value.numpy().tolist() for value in values])
        table = placement_viz.analyze_run(placement_viz.load_run(path)).colocation
        found["misplaced"].append(table.misplaced["name"].to_list())
        tables.append(table.gradients)
    with placement_viz.colocated_gradients():
        values = tf.nest.flatten(tf.function(step)(x))
    found["values"].append([value.numpy().tolist() for value in values])
    found["predicted"], found["true"] = predictions(*tables)
    return found


def predictions(as_is: Any, colocated: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return where gradient ops were said to belong, and where they went."""
    expected = dict(as_is.select("name", "expected_device").iter_rows())
    went = dict(colocated.select("name", "device").iter_rows())
    both = [name for name, device in expected.items() if device and name in went]
    return {name: expected[name] for name in both}, {name: went[name] for name in both}


def main() -> None:
    """Print what came of each model."""
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    with tempfile.TemporaryDirectory() as folder:
        found = {name: outcome(build, Path(folder)) for name, build in MODELS.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
