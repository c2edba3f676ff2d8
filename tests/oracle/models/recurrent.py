"""Steps with loops and conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _lstm(colocate: bool) -> Step:
    """An LSTM cell in a loop on one device, a projection on the next."""
    units, n_steps = 24, 6
    x = noise(n_steps, 8, 16)
    with on(2), tf1.variable_scope("lstm"):
        kernel = tf1.get_variable("kernel", [16 + units, 4 * units])
        bias = tf1.get_variable("bias", [4 * units])

        def body(t: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
            gates = tf1.nn.bias_add(tf1.concat([x[t], h], 1) @ kernel, bias)
            i, j, f, o = tf1.split(gates, 4, axis=1)
            c = tf1.sigmoid(f + 1.0) * c + tf1.sigmoid(i) * tf1.tanh(j)
            return t + 1, tf1.sigmoid(o) * tf1.tanh(c), c

        zero = tf.zeros([8, units])
        _, h, _ = tf1.while_loop(lambda t, *_: t < n_steps, body, [0, zero, zero])
    with on(3):
        y = dense(h, 10, "projection")
    loss = tf1.reduce_mean(tf.square(y))
    optimizer = tf1.train.AdamOptimizer()
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _rnn_over_devices(colocate: bool) -> Step:
    """A loop with tensor arrays whose body runs on two devices."""
    x = noise(5, 8, 12)
    reader = tf.TensorArray(tf.float32, 5).unstack(x)
    with on(1):
        inner = tf1.get_variable("inner", [12, 12])
    with on(2):
        outer = tf1.get_variable("outer", [12, 12])

    def body(t: Any, state: Any, writer: Any) -> tuple[Any, Any, Any]:
        with on(1):
            a = tf.tanh(tf.matmul(reader.read(t) + state, inner))
        with on(2):
            b = tf.nn.relu(tf.matmul(a, outer))
        return t + 1, b, writer.write(t, b)

    with tf1.name_scope("rnn"):
        start = (0, tf.zeros([8, 12]), tf.TensorArray(tf.float32, 5))
        _, _, writer = tf1.while_loop(lambda t, *_: t < 5, body, start)
        states = writer.stack()
    with on(3):
        loss = tf1.reduce_sum(tf1.reduce_max(states, axis=0))
    grads = tf1.gradients(loss, [inner, outer], colocate_gradients_with_ops=colocate)
    return Step([loss, grads])


def _static_rnn(colocate: bool) -> Step:
    """A GRU unrolled by hand: each time step and layer on a device of its own."""
    units = 16
    states = [tf.zeros([8, units])] * 3
    outputs = []
    for t in range(4):
        y = noise(8, units)
        for layer in range(3):
            with (
                tf1.device(f"/cpu:{layer + 1}"),
                tf1.variable_scope(f"gru{layer}", reuse=tf1.AUTO_REUSE),
                tf1.name_scope(f"t{t}"),
            ):
                both = tf.concat([y, states[layer]], 1)
                z, r = tf.split(dense(both, 2 * units, "zr", tf.sigmoid), 2, 1)
                reset = tf.concat([y, r * states[layer]], 1)
                candidate = dense(reset, units, "h", tf.tanh)
                y = states[layer] = z * states[layer] + (1.0 - z) * candidate
        outputs.append(y)
    loss = tf1.reduce_mean(tf.square(tf.stack(outputs)))
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _cond(colocate: bool) -> Step:
    """Branches on different devices, and a tensor that only one of them uses."""
    flag = tf1.placeholder(tf.bool, [], name="flag")
    x = noise(8, 16)
    with on(1):
        a = dense(x, 16, "before", tf.nn.relu)
        extra = dense(x, 16, "extra")

    def left() -> Any:
        with on(2):
            return tf.tanh(dense(a, 16, "left")) * extra

    def right() -> Any:
        with on(3):
            return tf.exp(-tf.square(dense(a, 16, "right")))

    y = tf1.cond(flag, left, right, name="choice")
    loss = tf1.reduce_mean(tf.square(y - x))
    variables = tf1.trainable_variables()
    grads = tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate)
    return Step([loss, grads], {flag: np.array(1, np.bool_)})


def _loop_in_towers(colocate: bool) -> Step:
    """Each tower has its own loop with a condition in it."""
    shared = tf1.get_variable("shared", [10, 10])
    losses = []
    for i in (1, 2):
        with on(i), tf1.name_scope(f"tower{i}"):

            def body(t: Any, y: Any) -> tuple[Any, Any]:
                y = tf1.cond(
                    tf.equal(t % 2, 0),
                    lambda: tf.tanh(tf.matmul(y, shared)),
                    lambda: tf.sigmoid(tf.matmul(y, shared, transpose_b=True)),
                )
                return t + 1, y

            _, y = tf1.while_loop(lambda t, _: t < 4, body, [0, noise(6, 10)])
            losses.append(tf1.reduce_mean(y))
    loss = tf1.add_n(losses)
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _scan_map(colocate: bool) -> Step:
    """Loops that TensorFlow writes: a scan and a map."""
    with on(1):
        w = tf1.get_variable("w", [8, 8])
        rows = noise(6, 4, 8)
        mapped = tf.map_fn(lambda row: tf.nn.relu(tf.matmul(row, w)), rows)
    with on(2):
        v = tf1.get_variable("v", [8])
        sums = tf1.scan(lambda total, row: 0.5 * total + row * v, mapped)
    loss = tf1.nn.l2_loss(sums)
    return Step(tf1.gradients(loss, [w, v], colocate_gradients_with_ops=colocate))


def _gradients_in_loop(colocate: bool) -> Step:
    """Descent inside a loop, and the gradient of what it reaches."""
    with on(1):
        w = tf1.get_variable("w", [6, 6])
        target = noise(5, 6)

    def body(t: Any, z: Any) -> tuple[Any, Any]:
        with on(2):
            energy = tf1.reduce_sum(tf.square(tf.tanh(tf.matmul(z, w)) - target))
        (slope,) = tf1.gradients(
            energy, [z], name="inner", colocate_gradients_with_ops=colocate
        )
        return t + 1, z - 0.1 * slope

    _, z = tf1.while_loop(lambda t, _: t < 3, body, [0, noise(5, 6)])
    with on(3):
        loss = tf1.reduce_mean(tf.exp(z))
    return Step([loss, z])


def _nested_loops(colocate: bool) -> Step:
    """A loop in a loop, each with weights of its own."""
    with on(1):
        a = tf1.get_variable("a", [8, 8])
    with on(3):
        b = tf1.get_variable("b", [8, 8])

    def outer(i: Any, y: Any) -> tuple[Any, Any]:
        def inner(j: Any, z: Any) -> tuple[Any, Any]:
            with on(3):
                return j + 1, tf.tanh(tf.matmul(z, b))

        _, y = tf1.while_loop(lambda j, _: j < 2, inner, [0, y], name="inner")
        with on(1):
            return i + 1, tf.nn.relu(tf.matmul(y, a)) + y

    _, y = tf1.while_loop(lambda i, _: i < 3, outer, [0, noise(4, 8)], name="outer")
    loss = tf1.nn.l2_loss(y)
    return Step(tf1.gradients(loss, [a, b], colocate_gradients_with_ops=colocate))


MODELS = {
    "lstm_while_v1": Model(_lstm),
    "lstm_while_v2": Model(_lstm, control_flow_v2=True),
    "rnn_over_devices_v1": Model(_rnn_over_devices),
    "rnn_over_devices_v2": Model(_rnn_over_devices, control_flow_v2=True),
    "static_rnn": Model(_static_rnn),
    "cond_v1": Model(_cond),
    "cond_v2": Model(_cond, control_flow_v2=True),
    "loop_in_towers_v1": Model(_loop_in_towers),
    "loop_in_towers_v2": Model(_loop_in_towers, control_flow_v2=True),
    "scan_map_v1": Model(_scan_map),
    "gradients_in_loop": Model(_gradients_in_loop),
    "nested_loops_v1": Model(_nested_loops),
}
