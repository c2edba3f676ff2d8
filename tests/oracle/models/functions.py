"""Steps that are functions called in a session's graph, and tapes."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _weights(n_layers: int) -> list[Any]:
    weights = []
    for i in range(n_layers):
        with on(i % 3 + 1):
            weights.append(tf1.get_variable(f"w{i}", [16, 16]))
    return weights


def _forward(x: Any, weights: list[Any]) -> Any:
    for i, w in enumerate(weights):
        with on(i % 3 + 1), tf.name_scope(f"layer{i}"):
            x = tf.nn.relu(tf.matmul(x, w, name="mm"), name="act") + 0.5 * x
            x = tf.tanh(tf.nn.bias_add(x, tf.reduce_mean(w, axis=0)))
    return x


def _tape_in_function(_: bool) -> Step:
    """A tape in a tf.function, which the session's graph calls."""
    weights = _weights(4)

    @tf.function
    def train_step(x: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(_forward(x, weights)))
        grads = tape.gradient(loss, weights)
        for w, g in zip(weights, grads, strict=True):
            w.assign_sub(0.1 * g)
        return grads

    return Step(train_step(noise(8, 16)))


def _tape_in_graph(_: bool) -> Step:
    """A tape right in the session's graph."""
    weights = _weights(4)
    x = noise(8, 16)
    with tf.GradientTape() as tape:
        y = _forward(x, weights)
        loss = tf.reduce_sum(y * tf.stop_gradient(y)) + tf.reduce_max(y)
    return Step(tape.gradient(loss, weights))


class _Dense(tf.Module):
    """A layer in the manner of Keras: builds its weights on first use."""

    def __init__(self, units: int, name: str) -> None:
        super().__init__(name=name)
        self.units = units
        self.kernel = self.bias = None

    def build(self, width: int) -> None:
        """Make the weights."""
        with tf1.variable_scope(self.name):
            self.kernel = tf1.get_variable("kernel", [width, self.units])
            self.bias = tf1.get_variable("bias", [self.units])

    @tf.Module.with_name_scope
    def __call__(self, x: Any) -> Any:
        """Return the layer's output."""
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, self.kernel), self.bias))


def _layers_in_function(_: bool) -> Step:
    """Layer objects in a tf.function, with dropout and a softmax loss."""
    layers = [_Dense(16, f"dense_{i}") for i in range(3)]
    for i, layer in enumerate(layers):
        with on(i + 1):
            layer.build(16)
    weights = [w for layer in layers for w in (layer.kernel, layer.bias)]

    @tf.function
    def step(x: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            y = x
            for i, layer in enumerate(layers):
                with on(i + 1):
                    y = tf.nn.dropout(layer(y), 0.1)
            labels = tf.nn.softmax(x)
            loss = tf.nn.softmax_cross_entropy_with_logits(labels, y)
        return tape.gradient(loss, weights)

    return Step(step(noise(8, 16)))


def _gradients_of_function(colocate: bool) -> Step:
    """tf.gradients through a call of a tf.function."""
    weights = _weights(3)

    @tf.function
    def network(x: Any) -> Any:
        return _forward(x, weights)

    with on(2):
        y = network(noise(8, 16)) * 2.0
    loss = tf1.reduce_mean(tf.square(y))
    grads = tf1.gradients(loss, weights, colocate_gradients_with_ops=colocate)
    return Step([loss, grads])


def _gradients_in_function(colocate: bool) -> Step:
    """tf.gradients inside a tf.function."""
    weights = _weights(3)

    @tf.function
    def step(x: Any) -> list[Any]:
        y = _forward(x, [w.read_value() for w in weights])
        return tf1.gradients(
            tf.reduce_sum(y * y), [x], colocate_gradients_with_ops=colocate
        )

    return Step(step(noise(8, 16)))


def _keras_ops(colocate: bool) -> Step:
    """Keras' own operations. Its layers cannot make variables in a session's graph."""
    y = noise(8, 16)
    for i, w in enumerate(_weights(4)):
        with on(i % 3 + 1):
            y = keras.ops.gelu(keras.ops.matmul(y, w))
            mean, variance = keras.ops.moments(y, axes=[-1], keepdims=True)
            y = (y - mean) * keras.ops.rsqrt(variance + 1e-5)
    target = keras.ops.one_hot(keras.ops.argmax(y, axis=-1), 16)
    loss = tf1.reduce_mean(
        keras.ops.categorical_crossentropy(target, y, from_logits=True)
    )
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


MODELS = {
    "tape_in_function": Model(_tape_in_function, control_flow_v2=True),
    "tape_in_graph": Model(_tape_in_graph, control_flow_v2=True),
    "layers_in_function": Model(_layers_in_function, control_flow_v2=True),
    "keras_ops": Model(_keras_ops),
    "gradients_of_function": Model(_gradients_of_function, control_flow_v2=True),
    "gradients_in_function": Model(_gradients_in_function, control_flow_v2=True),
}
