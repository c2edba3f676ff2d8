"""Steps that no rule was written for: other ways to split work over devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _stacked_cells(colocate: bool) -> Step:
    """A loop over time, each of its three cells on a device of its own."""
    n_steps, units = 5, 10
    x = noise(n_steps, 6, units)
    kernels = []
    for i in (1, 2, 3):
        with on(i), tf1.variable_scope(f"cell_{i}"):
            kernels.append(tf1.get_variable("w", [2 * units, units]))

    def body(t: Any, *states: Any) -> tuple[Any, ...]:
        y, after = x[t], []
        for i, (kernel, state) in enumerate(zip(kernels, states, strict=True)):
            with on(i + 1), tf1.name_scope(f"cell_{i}"):
                y = tf.tanh(tf1.matmul(tf1.concat([y, state], 1), kernel))
                after.append(y)
        return (t + 1, *after)

    with tf1.name_scope("unroll"):
        zero = tf.zeros([6, units])
        start = [tf.constant(0), zero, zero, zero]
        *_, last = tf1.while_loop(lambda t, *_: t < n_steps, body, start)
    with on(3):
        y = dense(last, 4, "readout")
        loss = tf1.reduce_mean(tf.square(y))
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _two_directions(colocate: bool) -> Step:
    """A loop forwards on one device, one backwards on another, joined on a third."""
    x = noise(4, 7, 8)

    def run(number: int, name: str, inputs: Any) -> Any:
        with on(number), tf1.variable_scope(name):
            w = tf1.get_variable("w", [8, 8])
            u = tf1.get_variable("u", [8, 8])

            def body(t: Any, h: Any) -> tuple[Any, Any]:
                return t + 1, tf.tanh(tf1.matmul(inputs[t], w) + tf1.matmul(h, u))

            return tf1.while_loop(lambda t, _: t < 4, body, [0, tf.zeros([7, 8])])[1]

    forwards, backwards = run(1, "fw", x), run(2, "bw", tf1.reverse(x, [0]))
    with on(3):
        y = dense(tf1.concat([forwards, backwards], 1), 5, "join", tf.nn.relu)
    loss = tf1.reduce_sum(tf.square(y))
    optimizer = tf1.train.AdamOptimizer(0.01)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _unrolled_over_devices(colocate: bool) -> Step:
    """Time steps, not layers, are spread over the devices; one shared cell."""
    h = tf.zeros([8, 12])
    losses = []
    for t in range(6):
        with (
            on(t % 3 + 1),
            tf1.variable_scope("cell", reuse=tf1.AUTO_REUSE),
            tf1.name_scope(f"step{t}"),
        ):
            x = noise(8, 12)
            h = tf.tanh(dense(tf1.concat([x, h], 1), 12, "core"))
            losses.append(tf1.reduce_mean(tf1.squared_difference(h, x)))
    with on(0):
        loss = tf1.add_n(losses, name="sequence_loss")
    optimizer = tf1.train.FtrlOptimizer(0.05)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _alternating(colocate: bool) -> Step:
    """Layers go back and forth between two devices, without scopes of their own."""
    y = noise(10, 16)
    for i in range(6):
        with on(1 + 2 * (i % 2)):
            w = tf1.get_variable(f"w{i}", [16, 16])
            y = tf1.matmul(y, w)
            y = tf1.nn.leaky_relu(y) if i % 3 else tf.nn.sigmoid(y) * y
    loss = tf1.reduce_mean(tf1.math.softplus(-y))
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


def _columns(colocate: bool) -> Step:
    """Parallel columns exchange halves of their units after each layer."""
    left, right = noise(8, 16), noise(8, 16)
    for layer in range(2):
        with on(1), tf1.variable_scope(f"left/l{layer}"):
            a = dense(left, 16, "fc", tf.nn.relu)
            a1, a2 = tf1.split(a, 2, axis=1)
        with on(2), tf1.variable_scope(f"right/l{layer}"):
            b = dense(right, 16, "fc", tf.nn.relu)
            b1, b2 = tf1.split(b, 2, axis=1)
        with on(1):
            left = tf1.concat([a1, b1], 1)
        with on(2):
            right = tf1.concat([b2, a2], 1)
    with on(3):
        loss = tf1.reduce_mean(tf.square(left - right)) + 0.1 * tf1.reduce_max(left)
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _conv_towers(colocate: bool) -> Step:
    """Images of unknown number in towers, gradients averaged as tutorials do."""
    images = tf1.placeholder(tf.float32, [None, 8, 8, 3], name="batch")
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    grads = []
    for i, part in enumerate(tf.split(images, 2)):
        with (
            on(i + 1),
            tf1.name_scope(f"gpu{i}"),
            tf1.variable_scope("cnn", reuse=tf1.AUTO_REUSE),
        ):
            filters = tf1.get_variable("filters", [3, 3, 3, 6])
            bias = tf1.get_variable("bias", [6])
            y = tf1.nn.conv2d(part, filters, [1, 1, 1, 1], "SAME")
            y = tf1.nn.max_pool2d(tf1.nn.relu(y + bias), 2, 2, "VALID")
            y = tf1.reshape(y, [-1, 96])
            logits = dense(y, 4, "fc")
            labels = tf1.argmax(logits, axis=1)
            each = tf1.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=logits
            )
            loss = tf1.reduce_mean(each) + 1e-3 * tf1.nn.l2_loss(filters)
            grads.append(
                optimizer.compute_gradients(loss, colocate_gradients_with_ops=colocate)
            )
    averaged = []
    for same in zip(*grads, strict=True):
        expanded = [tf1.expand_dims(grad, 0) for grad, _ in same]
        averaged.append((tf1.reduce_mean(tf1.concat(expanded, 0), 0), same[0][1]))
    values = np.random.default_rng(2).normal(size=(6, 8, 8, 3))
    return Step(optimizer.apply_gradients(averaged), {images: values})


def _shards_of_softmax(colocate: bool) -> Step:
    """A wide output layer in shards; the sum of all shards normalises each."""
    classes = tf1.placeholder(tf.int32, [None], name="labels")
    with on(0):
        h = dense(noise(10, 16), 16, "features", tf.nn.tanh)
    logits, tops = [], []
    for i in (1, 2, 3):
        with on(i), tf1.variable_scope(f"shard_{i}"):
            logits.append(tf1.matmul(h, tf1.get_variable("kernel", [16, 8])))
            tops.append(tf1.reduce_max(logits[-1], axis=1, keepdims=True))
    with on(0):
        top = tf1.stop_gradient(tf1.maximum(tf1.maximum(tops[0], tops[1]), tops[2]))
    sums, picked = [], []
    for i in (1, 2, 3):
        with on(i), tf1.name_scope(f"shard_{i}"):
            shifted = logits[i - 1] - top
            sums.append(tf1.reduce_sum(tf.exp(shifted), axis=1))
            chosen = tf1.one_hot(classes - 8 * (i - 1), 8)
            picked.append(tf1.reduce_sum(shifted * chosen, axis=1))
    with on(0):
        loss = tf1.reduce_mean(tf1.log(tf1.add_n(sums)) - tf1.add_n(picked))
    optimizer = tf1.train.AdagradOptimizer(0.1)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    return Step([train, loss], {classes: np.arange(10) * 2})


def _summary_of_parts(colocate: bool) -> Step:
    """No device but the default one for the loss; parts join by product and maximum."""
    a = noise(12, 10)
    with on(1):
        u = dense(a, 10, "left_arm", tf.nn.relu)
    with on(3):
        v = dense(a, 10, "right_arm", tf.nn.sigmoid)
    both = tf1.maximum(u, v) * tf1.minimum(u, 1.0)
    norm = tf1.norm(both, axis=1)
    loss = tf1.reduce_mean(tf1.math.log1p(norm)) + tf1.reduce_sum(u * v) / 100.0
    optimizer = tf1.train.ProximalAdagradOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _loop_with_loss(colocate: bool) -> Step:
    """A loop adds up its loss as it goes; weights on one device, loss on another."""
    inputs = noise(6, 4, 8)
    with on(1):
        w = tf1.get_variable("transition", [8, 8])

    def body(t: Any, state: Any, total: Any) -> tuple[Any, Any, Any]:
        with on(1):
            state = tf.nn.relu(tf1.matmul(state, w) + inputs[t])
        with on(2):
            total += tf1.reduce_mean(tf1.squared_difference(state, inputs[t]))
        return t + 1, state, total

    start = [tf.constant(0), tf.zeros([4, 8]), tf.constant(0.0)]
    *_, total = tf1.while_loop(lambda t, *_: t < 6, body, start, name="filter")
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    loss = total / 6.0
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


MODELS = {
    "stacked_cells": Model(_stacked_cells),
    "stacked_cells_v2": Model(_stacked_cells, control_flow_v2=True),
    "two_directions": Model(_two_directions),
    "unrolled_over_devices": Model(_unrolled_over_devices),
    "alternating": Model(_alternating),
    "columns": Model(_columns),
    "conv_towers": Model(_conv_towers),
    "shards_of_softmax": Model(_shards_of_softmax),
    "summary_of_parts": Model(_summary_of_parts),
    "loop_with_loss": Model(_loop_with_loss),
}
