"""Steps that use the options of ``tf.gradients``."""

from __future__ import annotations

import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on, three_layers

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _gated(colocate: bool, gate: int) -> Step:
    y = three_layers(noise(8, 12))
    z = tf.multiply(y, three_layers(y[:, :12]), name="both")
    loss = tf1.losses.huber_loss(tf.zeros_like(z), z)
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(
        loss, gate_gradients=gate, colocate_gradients_with_ops=colocate
    )
    return Step(optimizer.apply_gradients(pairs))


def _gate_op(colocate: bool) -> Step:
    """All gradients of an op before any of them is used."""
    return _gated(colocate, tf1.train.Optimizer.GATE_OP)


def _gate_graph(colocate: bool) -> Step:
    """All gradients before any variable is updated."""
    return _gated(colocate, tf1.train.Optimizer.GATE_GRAPH)


def _stopped(colocate: bool) -> Step:
    """Gradients that end at a stopped tensor or at one that is named."""
    with on(1):
        a = dense(noise(8, 12), 16, "student", tf.nn.relu)
        target = tf.stop_gradient(dense(noise(8, 12), 16, "teacher"))
    with on(2):
        distance = tf.square(a - target) * tf.stop_gradient(tf.sigmoid(a))
    with on(3):
        b = dense(distance, 4, "head")
        loss = tf1.reduce_sum(b / (1.0 + tf.stop_gradient(tf.abs(b))))
    variables = tf1.trainable_variables()
    grads = tf1.gradients(
        loss,
        [a, *variables],
        stop_gradients=[a],
        colocate_gradients_with_ops=colocate,
        unconnected_gradients="zero",
    )
    return Step(grads)


def _aggregated(colocate: bool, method: int) -> Step:
    with on(1):
        trunk = dense(noise(8, 12), 16, "trunk", tf.nn.relu)
    total = 0.0
    for i in range(5):
        with on(i % 3 + 1), tf1.variable_scope("branch", reuse=tf1.AUTO_REUSE):
            total += tf1.reduce_sum(tf.sin(dense(trunk, 16, "fc")) * trunk)
    variables = tf1.trainable_variables()
    grads = tf1.gradients(
        total,
        variables,
        aggregation_method=method,
        colocate_gradients_with_ops=colocate,
    )
    return Step(grads)


def _aggregate_tree(colocate: bool) -> Step:
    """Sums of gradients as a tree."""
    return _aggregated(colocate, tf1.AggregationMethod.EXPERIMENTAL_TREE)


def _aggregate_n(colocate: bool) -> Step:
    """Sums of gradients as they arrive."""
    return _aggregated(colocate, tf1.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N)


def _given_grad_ys(colocate: bool) -> Step:
    """Gradients of several outputs with weights of the user's, in two calls."""
    x = noise(8, 12)
    y = three_layers(x)
    with on(2):
        z = tf.matmul(y, tf1.get_variable("z", [20, 6]))
    upstream = [noise(8, 20), noise(8, 6)]
    variables = tf1.trainable_variables()
    first = tf1.gradients(
        [y, z], [x, *variables], upstream, colocate_gradients_with_ops=colocate
    )
    weighted = [tf1.reduce_sum(t * u) for t, u in zip((y, z), upstream, strict=True)]
    second = tf1.gradients(weighted, variables, colocate_gradients_with_ops=colocate)
    return Step([first, second])


MODELS = {
    "gate_op": Model(_gate_op),
    "gate_graph": Model(_gate_graph),
    "stopped": Model(_stopped),
    "aggregate_tree": Model(_aggregate_tree),
    "aggregate_n": Model(_aggregate_n),
    "given_grad_ys": Model(_given_grad_ys),
}
