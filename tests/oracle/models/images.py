"""Convolutional steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _conv(x: Any, filters: int, name: str, stride: int = 1) -> Any:
    with tf1.variable_scope(name):
        kernel = tf1.get_variable("w", [3, 3, x.shape[-1], filters])
        y = tf1.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME")
        return tf1.nn.bias_add(y, tf1.get_variable("b", [filters]))


def _conv_pool(colocate: bool) -> Step:
    """Convolutions and pooling, fed with a batch of unknown size."""
    images = tf1.placeholder(tf.float32, [None, 16, 16, 3], name="images")
    labels = tf1.placeholder(tf.int32, [None], name="labels")
    with on(1):
        y = tf1.nn.max_pool(tf.nn.relu(_conv(images, 8, "c1")), 2, 2, "SAME")
        y = tf1.nn.lrn(y)
    with on(2):
        y = tf1.nn.avg_pool(tf.nn.relu(_conv(y, 12, "c2")), 2, 2, "VALID")
    with on(3):
        y = tf.reshape(y, [-1, 4 * 4 * 12])
        y = tf1.nn.dropout(dense(y, 32, "fc", tf.nn.relu), rate=0.5)
        logits = dense(y, 10, "out")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf1.train.RMSPropOptimizer(1e-3, momentum=0.9, centered=True)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    rng = np.random.default_rng(5)
    feeds = {images: rng.normal(size=(6, 16, 16, 3)), labels: rng.integers(10, size=6)}
    return Step([train, loss], feeds)


def _residual(colocate: bool) -> Step:
    """Residual blocks with decay on every kernel and a moving average."""
    y = _conv(noise(4, 8, 8, 3), 8, "stem")
    for i in range(6):
        with on(i // 2 + 1), tf1.variable_scope(f"res{i}"):
            inner = _conv(tf.nn.relu(y), 8, "a")
            inner = _conv(tf.nn.relu6(inner), 8, "b")
            y = tf1.add(y, 0.3 * inner, name="sum")
    logits = dense(tf1.reduce_mean(y, [1, 2]), 5, "head")
    labels = tf.nn.softmax(noise(4, 5))
    xent = tf1.nn.softmax_cross_entropy_with_logits(
        labels=tf.stop_gradient(labels), logits=logits
    )
    kernels = [v for v in tf1.trainable_variables() if v.op.name.endswith("/w")]
    decay = tf1.add_n([tf1.nn.l2_loss(kernel) for kernel in kernels])
    loss = tf1.reduce_mean(xent) + 1e-4 * decay
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    average = tf1.train.ExponentialMovingAverage(0.99)
    with tf1.control_dependencies([train]):
        return Step([average.apply(tf1.trainable_variables()), loss])


def _autoencoder(colocate: bool) -> Step:
    """Strides down, transposed convolutions and resizing up."""
    x = noise(4, 16, 16, 2)
    with on(1), tf1.name_scope("encoder"):
        code = tf.nn.elu(_conv(tf.nn.elu(_conv(x, 6, "e1", 2)), 8, "e2", 2))
    with on(2), tf1.name_scope("bottleneck"):
        mean, log_scale = tf.split(_conv(code, 8, "z"), 2, axis=-1)
        z = mean + tf.exp(log_scale) * tf1.random_normal(tf.shape(mean))
    with on(3), tf1.name_scope("decoder"):
        kernel = tf1.get_variable("up", [3, 3, 6, 4])
        y = tf1.nn.conv2d_transpose(z, kernel, [4, 8, 8, 6], [1, 2, 2, 1])
        y = tf1.image.resize_bilinear(tf.nn.relu(y), [16, 16])
        depthwise = tf1.get_variable("dw", [3, 3, 6, 1])
        pointwise = tf1.get_variable("pw", [1, 1, 6, 2])
        y = tf1.nn.separable_conv2d(y, depthwise, pointwise, [1, 1, 1, 1], "SAME")
    reconstruction = tf1.reduce_sum(tf.square(y - x), axis=[1, 2, 3])
    divergence = -0.5 * tf1.reduce_sum(
        1.0 + 2.0 * log_scale - tf.square(mean) - tf.exp(2.0 * log_scale), [1, 2, 3]
    )
    loss = tf1.reduce_mean(reconstruction + divergence)
    optimizer = tf1.train.AdamOptimizer()
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _inception(colocate: bool) -> Step:
    """Parallel branches on different devices, joined and split by channel."""
    x = noise(4, 8, 8, 6)
    for block in range(3):
        with tf1.variable_scope(f"mixed_{block}"):
            branches = []
            for i in (1, 2, 3):
                with on(i), tf1.variable_scope(f"Branch_{i}"):
                    y = tf.nn.relu(_conv(x, 4, "Conv2d_0"))
                    branches.append(tf.nn.relu(_conv(y, 4, "Conv2d_1")))
            x = tf.concat(branches, 3)
    logits = tf1.reduce_max(x, [1, 2])
    loss = tf1.reduce_mean(tf1.nn.log_softmax(logits)[:, 0])
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


MODELS = {
    "conv_pool": Model(_conv_pool),
    "residual": Model(_residual),
    "autoencoder": Model(_autoencoder),
    "inception": Model(_inception),
}
