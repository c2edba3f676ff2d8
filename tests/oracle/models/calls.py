"""Steps that call for gradients in uncommon places and under uncommon names."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on, three_layers

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _gradient_penalty(colocate: bool) -> Step:
    """A loss that holds the gradient of another output."""
    x = noise(8, 12)
    y = tf1.reduce_sum(tf.square(three_layers(x)), axis=1)
    (slope,) = tf1.gradients(y, [x], colocate_gradients_with_ops=colocate)
    penalty = tf1.reduce_mean(tf.square(tf1.norm(slope, axis=1) - 1.0))
    loss = tf1.reduce_mean(y) + 10.0 * penalty
    optimizer = tf1.train.AdamOptimizer()
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _named_scope(colocate: bool) -> Step:
    """Gradients under a name of the user's, inside scopes of the user's."""
    with tf1.name_scope("experiment"), tf1.name_scope("run"):
        y = three_layers(noise(8, 12))
        with tf1.name_scope("objective"):
            loss = tf1.reduce_mean(tf.square(y)) + tf1.reduce_max(y)
        with tf1.name_scope("backward"):
            variables = tf1.trainable_variables()
            grads = tf1.gradients(
                loss,
                variables,
                name="my_derivatives",
                colocate_gradients_with_ops=colocate,
            )
        again = tf1.gradients(
            y, variables, name="jacobian", colocate_gradients_with_ops=colocate
        )
    return Step([grads, again])


@tf.custom_gradient
def _clipped_exp(x: Any) -> Any:
    y = tf.exp(x)

    def grad(upstream: Any) -> Any:
        with tf1.name_scope("bounded"):
            return tf.clip_by_value(upstream * y, -1.0, 1.0)

    return y, grad


def _custom_gradient(colocate: bool) -> Step:
    """A gradient function of the user's, once in each layer."""
    y = noise(8, 12)
    for i in (1, 2, 3):
        with on(i):
            y = _clipped_exp(-tf.abs(dense(y, 12, f"part{i}")))
    loss = tf1.reduce_mean(y)
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


def _clipping(colocate: bool) -> Step:
    """Clipping by the norm of all gradients, and noise added to them."""
    loss = tf1.reduce_mean(tf1.log_sigmoid(three_layers(noise(8, 12))))
    optimizer = tf1.train.AdamOptimizer()
    pairs = optimizer.compute_gradients(loss, colocate_gradients_with_ops=colocate)
    clipped, norm = tf1.clip_by_global_norm([g for g, _ in pairs], 1.0)
    noisy = [g + 1e-3 * tf1.random_normal(tf.shape(g)) for g in clipped]
    variables = [v for _, v in pairs]
    train = optimizer.apply_gradients(list(zip(noisy, variables, strict=True)))
    return Step([train, norm])


def _user_grad_names(colocate: bool) -> Step:
    """Layers and scopes whose own names look like those of gradients."""
    x = noise(8, 12)
    with on(1), tf1.name_scope("image_grad"):
        a = dense(x, 16, "my_grad", tf.nn.relu)
        edges = tf.subtract(a[:, 1:], a[:, :-1], name="dx_grad")
    with on(2), tf1.name_scope("gradients"):
        b = dense(edges, 16, "user", tf.nn.tanh)
    with on(3), tf1.name_scope("policy_grad"):
        c = tf1.reduce_mean(tf.square(b, name="square_grad"), name="grad")
        d = tf1.reduce_sum(tf.abs(edges), name="total_variation_grad_1")
    loss = c + d
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _only_gradients(colocate: bool) -> Step:
    """Forward ops that nothing needs once the gradients are known."""
    with on(1):
        w1 = tf1.get_variable("w1", [12, 16])
        a = noise(8, 12) @ w1
    with on(2):
        b = tf1.reduce_sum(3.0 * a + 1.0, axis=0)
        c = tf1.transpose(tf1.reshape(b, [4, 4]))
    with on(3):
        w2 = tf1.get_variable("w2", [4, 4])
        d = tf1.reduce_mean(c + w2) + tf1.reduce_sum(tf1.pad(c - w2, [[1, 1], [0, 0]]))
    return Step(tf1.gradients(d, [w1, w2], colocate_gradients_with_ops=colocate))


def _explicit_device(colocate: bool) -> Step:
    """Gradients that the program itself asks to have on one device."""
    y = three_layers(noise(8, 12))
    loss = tf1.reduce_mean(tf.square(y))
    variables = tf1.trainable_variables()
    with tf1.device("/cpu:0"):
        grads = tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate)
    return Step(grads)


def _elsewhere(colocate: bool) -> Step:
    """Gradients asked for on a device that holds a part of the network."""
    with tf1.device("/cpu:2"), tf1.name_scope("trainer"):
        y = three_layers(noise(8, 12))
        z = tf1.nn.l2_loss(dense(y, 20, "top") * y)
        optimizer = tf1.train.AdadeltaOptimizer(0.1)
        train = optimizer.minimize(z, colocate_gradients_with_ops=colocate)
    return Step(train)


def _unnamed(colocate: bool) -> Step:
    """No names at all, the same ops again and again."""
    y = noise(8, 12)
    for i in range(9):
        with on(i % 3 + 1):
            w = tf1.Variable(tf1.random_normal([12, 12], stddev=0.1))
            y = tf.nn.relu(y @ w + tf1.Variable(tf.zeros([12]))) + y * 0.5
    loss = tf1.reduce_mean(y * y)
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _hessian_vector(colocate: bool) -> Step:
    """A product with the Hessian, in a named scope of a named scope."""
    with tf1.name_scope("hvp"):
        y = tf1.reduce_sum(three_layers(noise(8, 12), "f"))
        variables = tf1.trainable_variables()
        first = tf1.gradients(
            y, variables, name="first", colocate_gradients_with_ops=colocate
        )
        dots = [
            tf1.reduce_sum(g * noise(*v.shape))
            for g, v in zip(first, variables, strict=True)
        ]
        second = tf1.gradients(
            tf1.add_n(dots),
            variables,
            name="second",
            colocate_gradients_with_ops=colocate,
        )
    return Step([g for g in second if g is not None])


MODELS = {
    "gradient_penalty": Model(_gradient_penalty),
    "named_scope": Model(_named_scope),
    "custom_gradient": Model(_custom_gradient),
    "clipping": Model(_clipping),
    "user_grad_names": Model(_user_grad_names),
    "only_gradients": Model(_only_gradients),
    "explicit_device": Model(_explicit_device),
    "elsewhere": Model(_elsewhere),
    "unnamed": Model(_unnamed),
    "hessian_vector": Model(_hessian_vector),
}
