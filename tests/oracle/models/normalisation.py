"""Steps that normalise, drop and regularise."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _batch_norm_fused(colocate: bool) -> Step:
    """Convolutions with fused batch normalisation, a block on each device."""
    x = noise(4, 12, 12, 3)
    for i in (1, 2, 3):
        with on(i), tf1.variable_scope(f"block{i}"):
            kernel = tf1.get_variable("kernel", [3, 3, x.shape[-1], 8])
            x = tf1.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME")
            gamma = tf1.get_variable("gamma", [8])
            beta = tf1.get_variable("beta", [8])
            x, _, _ = tf1.nn.fused_batch_norm(x, gamma, beta, is_training=True)
            x = tf.nn.relu(x)
    loss = tf1.reduce_mean(tf.reduce_mean(x, [1, 2]))
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _global_moments(colocate: bool) -> Step:
    """Moments over all towers, then fed back to each: the program of #16328."""
    inputs = [tf1.placeholder(tf.float32, [None, 40], name=f"x_{i}") for i in range(3)]
    scaled, means, squares = [], [], []
    for i, x in enumerate(inputs):
        with on(i + 1):
            weight = tf1.get_variable(f"weight_{i}", [40])
            y = tf.multiply(x, weight, name=f"local_multiply_{i}")
            scaled.append(y)
            means.append(tf.reduce_mean(y, axis=0, name=f"local_mean_{i}"))
            square = tf.square(y, name=f"local_square_{i}")
            squares.append(tf.reduce_mean(square, axis=0, name=f"local_x2_{i}"))
    with on(1):
        mean = tf.divide(tf.add_n(means), 3.0, name="global_mean")
        mean_square = tf.divide(tf.add_n(squares), 3.0, name="global_mean_square")
        variance = tf.subtract(mean_square, tf.square(mean), name="global_var")
        deviation = tf.sqrt(variance + 1e-5, name="global_stddev")
    outputs = []
    for i, y in enumerate(scaled):
        with on(i + 1):
            normed = tf.divide(y - mean, deviation, name=f"local_norm_{i}")
            outputs.append(tf.reduce_sum(tf.tanh(normed), name=f"local_out_{i}"))
    loss = tf.add_n(outputs, name="loss")
    weights = tf1.trainable_variables()
    grads = tf1.gradients(loss, weights, colocate_gradients_with_ops=colocate)
    values = np.random.default_rng(1).normal(size=(3, 16, 40))
    return Step(grads, dict(zip(inputs, values, strict=True)))


def _layer_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    gain = tf1.get_variable("gain", [x.shape[-1]])
    offset = tf1.get_variable("offset", [x.shape[-1]])
    return (x - mean) * tf1.rsqrt(variance + 1e-6) * gain + offset


def _layer_norm_dropout(colocate: bool) -> Step:
    """Residual layers with layer normalisation and dropout."""
    y = noise(16, 32)
    for i in range(5):
        with on(i % 3 + 1), tf1.variable_scope(f"layer_{i}"):
            inner = dense(_layer_norm(y), 32, "ff", tf.nn.gelu)
            y = y + tf1.nn.dropout(inner, rate=0.2)
    loss = tf1.reduce_mean(tf1.reduce_logsumexp(y, axis=1))
    optimizer = tf1.train.AdamOptimizer()
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _group_norm_weights(colocate: bool) -> Step:
    """Groups by reshape, weight normalisation, spectral-like division by a norm."""
    x = noise(4, 8, 8, 12)
    for i in (1, 2, 3):
        with on(i), tf1.variable_scope(None, "gn"):
            v = tf1.get_variable("v", [1, 1, 12, 12])
            g = tf1.get_variable("g", [12])
            x = tf1.nn.conv2d(x, tf1.nn.l2_normalize(v, [0, 1, 2]) * g, padding="SAME")
            grouped = tf.reshape(x, [4, 8, 8, 3, 4])
            mean, var = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
            grouped = tf1.nn.batch_normalization(grouped, mean, var, None, None, 1e-5)
            x = tf.nn.swish(tf.reshape(grouped, [4, 8, 8, 12]))
    loss = tf1.norm(x)
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


MODELS = {
    "batch_norm_fused": Model(_batch_norm_fused),
    "global_moments": Model(_global_moments),
    "layer_norm_dropout": Model(_layer_norm_dropout),
    "group_norm_weights": Model(_group_norm_weights),
}
