"""Steps that split a batch or a network over devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _tower_split(colocate: bool) -> Step:
    """Towers share variables; their losses are summed outside."""
    x = tf1.placeholder(tf.float32, [None, 32], name="features")
    labels = tf1.placeholder(tf.int64, [None], name="labels")
    losses = []
    for i, (part, answers) in enumerate(
        zip(tf.split(x, 3), tf.split(labels, 3), strict=True)
    ):
        with (
            on(i + 1),
            tf1.name_scope(f"tower_{i}"),
            tf1.variable_scope("net", reuse=tf1.AUTO_REUSE),
        ):
            h = dense(part, 64, "hidden", tf.nn.relu)
            logits = dense(h, 10, "logits")
            each = tf1.nn.sparse_softmax_cross_entropy_with_logits(
                labels=answers, logits=logits
            )
            losses.append(tf1.reduce_mean(each))
    loss = tf1.add_n(losses) / 3.0
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(
        loss, colocate_gradients_with_ops=colocate
    )
    feeds = {x: np.ones((48, 32), np.float32), labels: np.arange(48) % 10}
    return Step([loss, train], feeds)


def _pipeline(colocate: bool) -> Step:
    """Layers on consecutive devices, with a skip connection between two of them."""
    x = noise(32, 48)
    with tf.device("/cpu:1"):
        a = dense(x, 64, "stage_a", tf.nn.tanh)
        a = dense(a, 64, "stage_a2", tf.nn.elu)
    with tf.device("/cpu:2"):
        b = dense(a, 64, "stage_b", tf.nn.relu)
        b = b + a
        b = dense(b, 64, "stage_b2", tf.nn.softplus)
    with tf.device("/cpu:3"):
        c = dense(b, 48, "stage_c", tf.nn.sigmoid)
    loss = tf1.losses.mean_squared_error(x, c)
    optimizer = tf1.train.AdamOptimizer(1e-3)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _controller(op: Any) -> str:
    is_variable = op.type in {"VariableV2", "Variable", "VarHandleOp"}
    return "/job:localhost/replica:0/task:0/device:CPU:0" if is_variable else ""


def _shared_on_controller(colocate: bool) -> Step:
    """A device function keeps variables on one device and ops on another."""
    total = []
    for i in (1, 2, 3):
        target = f"/job:localhost/replica:0/task:0/device:CPU:{i}"
        with (
            tf1.device(lambda op, target=target: _controller(op) or target),
            tf1.variable_scope("model", reuse=tf1.AUTO_REUSE),
        ):
            y = dense(noise(16, 24), 40, "fc1", tf.nn.relu)
            y = dense(y, 40, "fc2", tf.nn.relu)
            total.append(tf1.nn.l2_loss(dense(y, 8, "out")))
    loss = tf1.reduce_mean(tf1.stack(total))
    optimizer = tf1.train.RMSPropOptimizer(1e-3)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _ref_variables(colocate: bool) -> Step:
    """Variables of TensorFlow 1, whose readers must be where they are."""
    with tf1.variable_scope("refs", use_resource=False):
        with on(1):
            w1 = tf1.get_variable("w1", [20, 30])
            h = tf.matmul(noise(12, 20), w1)
        with on(2):
            w2 = tf1.get_variable("w2", [30, 30])
            h = tf.nn.relu(tf.matmul(h, w2) + tf.matmul(h, w2, transpose_b=True))
        with on(3):
            scale = tf1.get_variable("scale", [30])
            h = h * scale
    cost = tf1.reduce_sum(tf.square(h) + tf.abs(h))
    trainer = tf1.train.MomentumOptimizer(0.01, 0.9)
    return Step([cost, trainer.minimize(cost, colocate_gradients_with_ops=colocate)])


def _averaged_towers(colocate: bool) -> Step:
    """Each tower takes its own gradients on its device; the controller averages."""
    optimizer = tf1.train.GradientDescentOptimizer(0.05)
    per_tower = []
    for i in range(3):
        with on(i + 1), tf1.name_scope(f"clone_{i}"):
            with tf1.variable_scope("shared", reuse=tf1.AUTO_REUSE):
                h = dense(noise(16, 20), 32, "a", tf.nn.relu)
                loss = tf1.reduce_mean(tf.square(dense(h, 4, "b")))
            per_tower.append(
                optimizer.compute_gradients(loss, colocate_gradients_with_ops=colocate)
            )
    averaged = [
        (tf1.reduce_mean(tf.stack([g for g, _ in same]), 0), same[0][1])
        for same in zip(*per_tower, strict=True)
    ]
    return Step(optimizer.apply_gradients(averaged))


def _towers_outside(colocate: bool) -> Step:
    """One gradient call for each tower, all of them off the towers' devices."""
    weights = [tf1.get_variable(f"w{k}", [24, 24]) for k in range(3)]
    grads = []
    for i in range(3):
        with tf1.device(f"/cpu:{i + 1}"), tf1.name_scope("replica"):
            y = noise(16, 24)
            for w in weights:
                y = tf.nn.relu(tf.matmul(y, w))
            loss = tf1.reduce_mean(y, name="loss")
        grads.append(tf1.gradients(loss, weights, colocate_gradients_with_ops=colocate))
    return Step([tf1.add_n(list(same)) for same in zip(*grads, strict=True)])


def _addn_towers(colocate: bool) -> Step:
    """Many towers read one tensor, so that its gradient is a long sum."""
    with on(1):
        base = tf.nn.relu(tf.matmul(noise(16, 24), tf1.get_variable("base", [24, 24])))
    outputs = []
    for i in range(6):
        with on(i % 3 + 1):
            w = tf1.get_variable(f"head_{i}", [24, 24])
            outputs.append(tf.tanh(tf.matmul(base, w)) * base)
    with on(2):
        merged = tf1.add_n(outputs)
    loss = tf1.reduce_sum(merged)
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


def _sharded_matmul(colocate: bool) -> Step:
    """One wide layer in column shards, joined again, twice."""
    y = noise(16, 32)
    for layer in ("up", "down"):
        shards = []
        for i in (1, 2, 3):
            with on(i), tf1.variable_scope(f"{layer}/shard{i}"):
                kernel = tf1.get_variable("k", [y.shape[-1], 16])
                shards.append(tf1.nn.relu(y @ kernel))
        y = tf1.concat(shards, axis=-1)
    loss = tf1.nn.l2_loss(y)
    optimizer = tf1.train.AdagradOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _two_optimizers(colocate: bool) -> Step:
    """A generator and a critic, each with its own loss and optimizer."""
    with on(1), tf1.variable_scope("generator"):
        fake = dense(dense(noise(16, 8), 32, "g1", tf.nn.relu), 20, "g2", tf.nn.tanh)

    def critic(x: Any) -> Any:
        with on(2), tf1.variable_scope("critic", reuse=tf1.AUTO_REUSE):
            return dense(dense(x, 32, "d1", tf.nn.leaky_relu), 1, "d2")

    real_logit, fake_logit = critic(noise(16, 20)), critic(fake)
    bce = tf1.nn.sigmoid_cross_entropy_with_logits
    d_loss = tf1.reduce_mean(
        bce(labels=tf.ones_like(real_logit), logits=real_logit)
        + bce(labels=tf.zeros_like(fake_logit), logits=fake_logit)
    )
    g_loss = tf1.reduce_mean(bce(labels=tf.ones_like(fake_logit), logits=fake_logit))
    steps = [
        tf1.train.AdamOptimizer(1e-4, name=f"{scope}_adam").minimize(
            loss,
            var_list=tf1.trainable_variables(scope),
            colocate_gradients_with_ops=colocate,
        )
        for scope, loss in (("generator", g_loss), ("critic", d_loss))
    ]
    return Step(steps)


def _l2_on_controller(colocate: bool) -> Step:
    """Weight decay is computed where the variables are, the network elsewhere."""
    with tf.device("/cpu:0"):
        kernels = [tf1.get_variable(f"layer{i}/W", [28, 28]) for i in range(3)]
    y = noise(16, 28)
    for i, kernel in enumerate(kernels):
        with on(i + 1):
            y = tf.nn.selu(tf.matmul(y, kernel))
    with tf.device("/cpu:0"), tf1.name_scope("regularisation"):
        decay = 1e-3 * tf1.add_n([tf1.nn.l2_loss(kernel) for kernel in kernels])
    with on(3):
        loss = tf1.reduce_mean(tf1.squared_difference(y, 1.0)) + decay
    optimizer = tf1.train.FtrlOptimizer(0.01)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _experts(colocate: bool) -> Step:
    """A gate mixes experts, each of which is on a device of its own."""
    x = tf1.placeholder(tf.float32, [None, 20])
    gate = tf.nn.softmax(dense(x, 3, "gating/gate"))
    opinions = []
    for i in range(3):
        with tf1.device(f"/device:CPU:{3 - i}"), tf1.variable_scope(f"expert{i}"):
            opinion = dense(dense(x, 24, "in", tf.nn.relu), 6, "out")
            opinions.append(gate[:, i, tf.newaxis] * opinion)
    y = sum(opinions)
    balance = tf1.math.reduce_variance(tf1.reduce_sum(gate, 0))
    loss = tf1.reduce_mean(tf1.losses.log_loss(tf.sigmoid(-y), tf.sigmoid(y)))
    trainer = tf1.train.AdamOptimizer(name="Trainer")
    train = trainer.minimize(loss + 0.1 * balance, colocate_gradients_with_ops=colocate)
    return Step([loss, train], {x: np.random.default_rng(7).normal(size=(12, 20))})


def _siamese(colocate: bool) -> Step:
    """One encoder for two inputs on two devices, a margin between the results."""
    codes = []
    for side in ("left", "right"):
        with (
            tf1.device("/cpu:1" if side == "left" else "/cpu:3"),
            tf1.variable_scope("Encoder", reuse=tf1.AUTO_REUSE),
            tf1.name_scope(side),
        ):
            h = dense(noise(10, 18), 24, "FC", tf1.nn.relu6)
            codes.append(tf1.nn.l2_normalize(dense(h, 12, "Code"), axis=1))
    with tf1.device("/cpu:2"), tf1.name_scope("Margin"):
        similarity = tf1.matmul(codes[0], codes[1], adjoint_b=True)
        own = tf1.matrix_diag_part(similarity)
        worst = tf1.reduce_max(similarity - 2.0 * tf.eye(10), axis=1)
        loss = tf1.reduce_mean(tf1.nn.relu(0.5 + worst - own))
    optimizer = tf1.train.ProximalAdagradOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


MODELS = {
    "tower_split": Model(_tower_split),
    "pipeline": Model(_pipeline),
    "shared_on_controller": Model(_shared_on_controller),
    "ref_variables": Model(_ref_variables),
    "averaged_towers": Model(_averaged_towers),
    "towers_outside": Model(_towers_outside),
    "addn_towers": Model(_addn_towers),
    "sharded_matmul": Model(_sharded_matmul),
    "two_optimizers": Model(_two_optimizers),
    "l2_on_controller": Model(_l2_on_controller),
    "experts": Model(_experts),
    "siamese": Model(_siamese),
}
