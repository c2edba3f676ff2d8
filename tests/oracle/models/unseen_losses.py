"""Steps that no rule was written for: other losses, and other ways to add them up."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _loss_on_host(colocate: bool) -> Step:
    """Two replicas make logits; the host alone computes the loss."""
    images = tf1.placeholder(tf.float32, [None, 24], name="images")
    classes = tf1.placeholder(tf.int32, [None], name="classes")
    logits = []
    for i, part in enumerate(tf.split(images, 2)):
        with (
            on(2 * i + 1),
            tf1.name_scope(f"replica_{i}"),
            tf1.variable_scope("classifier", reuse=tf1.AUTO_REUSE),
        ):
            h = dense(part, 40, "fc", tf.nn.elu)
            logits.append(dense(h, 7, "scores"))
    with on(0), tf1.name_scope("objective"):
        targets = tf1.one_hot(classes, 7)
        everything = tf1.concat(logits, 0)
        xent = tf1.losses.softmax_cross_entropy(
            targets, everything, label_smoothing=0.1
        )
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    train = optimizer.minimize(xent, colocate_gradients_with_ops=colocate)
    rng = np.random.default_rng(3)
    return Step(
        [train, xent], {images: rng.normal(size=(20, 24)), classes: np.arange(20) % 7}
    )


def _three_heads(colocate: bool) -> Step:
    """A trunk and heads with losses of their own, added up with weights."""
    x = tf1.placeholder(tf.float32, [None, 18], name="observations")
    with on(1):
        trunk = dense(dense(x, 32, "trunk/one", tf.nn.relu), 32, "trunk/two", tf.tanh)
    with on(2):
        policy = dense(trunk, 5, "policy")
        actions = tf1.argmax(x[:, :5], axis=1)
        log_probabilities = tf1.nn.log_softmax(policy)
        chosen = tf1.reduce_sum(log_probabilities * tf1.one_hot(actions, 5), axis=1)
        policy_loss = -tf1.reduce_mean(chosen)
        entropy = -tf1.reduce_mean(
            tf1.reduce_sum(tf1.exp(log_probabilities) * log_probabilities, axis=1)
        )
    with on(3):
        value = tf1.squeeze(dense(trunk, 1, "value"), axis=1)
        value_loss = tf1.losses.huber_loss(tf1.reduce_sum(x, axis=1), value)
    total = policy_loss + 0.5 * value_loss - 0.01 * entropy
    optimizer = tf1.train.RMSPropOptimizer(7e-4, epsilon=1e-5)
    grads, variables = zip(
        *optimizer.compute_gradients(total, colocate_gradients_with_ops=colocate),
        strict=True,
    )
    clipped, _ = tf1.clip_by_global_norm(grads, 0.5)
    train = optimizer.apply_gradients(zip(clipped, variables, strict=True))
    values = np.random.default_rng(1).normal(size=(14, 18))
    return Step([train, total], {x: values})


def _weight_decay(colocate: bool) -> Step:
    """Every layer adds the decay of its own weights to a collection of losses."""
    y = noise(12, 20)
    for i in (1, 2, 3):
        with on(i), tf1.variable_scope(f"block{i}"):
            w = tf1.get_variable("weights", [20, 20])
            b = tf1.get_variable("biases", [20], initializer=tf1.zeros_initializer())
            y = tf1.nn.relu(tf1.nn.xw_plus_b(y, w, b))
            tf1.losses.add_loss(tf1.multiply(tf1.nn.l2_loss(w), 0.004, name="decay"))
    tf1.losses.mean_squared_error(tf1.zeros_like(y), y, weights=2.0)
    total = tf1.losses.get_total_loss(add_regularization_losses=False)
    optimizer = tf1.train.AdadeltaOptimizer(0.1)
    return Step(
        [optimizer.minimize(total, colocate_gradients_with_ops=colocate), total]
    )


def _average_of_losses(colocate: bool) -> Step:
    """The losses of the replicas are stacked and averaged on the default device."""
    losses = []
    for i in range(4):
        with (
            on(i),
            tf1.name_scope(f"worker{i}"),
            tf1.variable_scope("vars", reuse=tf1.AUTO_REUSE),
        ):
            x = noise(8, 16)
            h = dense(x, 24, "enc", tf.nn.softplus)
            y = dense(h, 16, "dec")
            losses.append(tf1.reduce_mean(tf1.reduce_sum(tf.abs(x - y), axis=-1)))
    with tf1.name_scope("average"):
        loss = tf1.reduce_mean(tf1.stack(losses))
    optimizer = tf1.train.AdamOptimizer(0.01)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _sampled_scores(colocate: bool) -> Step:
    """Words against a few drawn ones: lookups on one device, scores on another."""
    centre = tf1.placeholder(tf.int32, [None], name="centre")
    context = tf1.placeholder(tf.int32, [None], name="context")
    with on(1):
        vectors = tf1.get_variable("vectors", [120, 16])
        embedded = tf1.nn.embedding_lookup(vectors, centre)
    with on(3):
        out = tf1.get_variable("out", [120, 16])
        bias = tf1.get_variable("bias", [120])
        drawn = tf1.random_uniform([10], 0, 120, tf.int32)
        positive = tf1.reduce_sum(embedded * tf1.gather(out, context), axis=1)
        positive += tf1.gather(bias, context)
        negative = tf1.matmul(embedded, tf1.gather(out, drawn), transpose_b=True)
        negative += tf1.gather(bias, drawn)
    with on(2), tf1.name_scope("nce"):
        xent = tf1.nn.sigmoid_cross_entropy_with_logits
        yes = xent(labels=tf1.ones_like(positive), logits=positive)
        no = xent(labels=tf1.zeros_like(negative), logits=negative)
        loss = (tf1.reduce_sum(yes) + tf1.reduce_sum(no)) / 32.0
    optimizer = tf1.train.GradientDescentOptimizer(0.5)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    return Step(
        [loss, train], {centre: np.arange(32), context: (np.arange(32) * 7) % 120}
    )


def _masked_sequence(colocate: bool) -> Step:
    """Padding does not count: a mask of unknown shape weighs the loss of each word."""
    words = tf1.placeholder(tf.int32, [None, None], name="words")
    lengths = tf1.placeholder(tf.int32, [None], name="lengths")
    with on(2):
        table = tf1.get_variable("word_table", [40, 12])
        h = tf1.nn.embedding_lookup(table, words)
    with on(1), tf1.variable_scope("tagger"):
        w = tf1.get_variable("w", [12, 9])
        logits = tf1.tensordot(tf.tanh(h), w, 1)
    mask = tf1.sequence_mask(lengths, tf1.shape(words)[1], dtype=tf.float32)
    tags = tf1.floormod(words, 9)
    each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
    loss = tf1.reduce_sum(each * mask) / tf1.reduce_sum(mask)
    optimizer = tf1.train.AdagradOptimizer(0.2)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    feeds = {words: np.arange(40).reshape(5, 8), lengths: np.array([8, 6, 3, 5, 1])}
    return Step([train, loss], feeds)


def _variational(colocate: bool) -> Step:
    """An encoder, drawn codes and a decoder; two terms of the loss lie apart."""
    x = noise(16, 30)
    with on(1), tf1.variable_scope("inference_net"):
        h = dense(x, 32, "h", tf.nn.relu)
        mean, log_variance = dense(h, 6, "mean"), dense(h, 6, "log_variance")
        z = mean + tf1.exp(0.5 * log_variance) * noise(16, 6)
    with on(3), tf1.variable_scope("generative_net"):
        logits = dense(dense(z, 32, "h", tf.nn.relu), 30, "pixels")
    with tf1.name_scope("elbo"):
        likelihood = -tf1.reduce_sum(
            tf1.nn.sigmoid_cross_entropy_with_logits(
                labels=tf.sigmoid(x), logits=logits
            ),
            axis=1,
        )
        divergence = -0.5 * tf1.reduce_sum(
            1.0 + log_variance - tf.square(mean) - tf1.exp(log_variance), axis=1
        )
        loss = -tf1.reduce_mean(likelihood - divergence)
    optimizer = tf1.train.AdamOptimizer(1e-3)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _contrastive(colocate: bool) -> Step:
    """Two views, a temperature and a symmetric loss on the second view's device."""
    shared = noise(12, 20)
    views = []
    for i, view in enumerate(("first", "second")):
        with (
            on(i + 1),
            tf1.name_scope(view),
            tf1.variable_scope("projector", reuse=tf1.AUTO_REUSE),
        ):
            y = dense(shared + 0.1 * noise(12, 20), 16, "p", tf.nn.swish)
            views.append(y * tf1.rsqrt(tf1.reduce_sum(y * y, 1, keepdims=True) + 1e-6))
        with on(2):
            temperature = tf1.get_variable(
                f"t{i}", [], initializer=tf1.ones_initializer()
            )
    with on(2), tf1.name_scope("nt_xent"):
        similarity = tf1.matmul(*views, transpose_b=True) / (temperature + 0.1)
        rows = tf1.nn.log_softmax(similarity, axis=1)
        columns = tf1.nn.log_softmax(similarity, axis=0)
        loss = -tf1.reduce_mean(tf1.linalg.diag_part(rows + columns)) / 2.0
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return Step(optimizer.minimize(loss, colocate_gradients_with_ops=colocate))


def _max_margin(colocate: bool) -> Step:
    """Scores of each tower are compared with those of the next, then summed."""
    scores = []
    for i in (3, 1, 2):
        with on(i), tf1.variable_scope(f"ranker_{i}"):
            scores.append(dense(dense(noise(9, 14), 20, "a", tf.nn.relu), 1, "b"))
    losses = []
    for i, (this, other) in enumerate(
        zip(scores, scores[1:] + scores[:1], strict=True)
    ):
        with on(i + 1):
            margin = tf1.maximum(0.0, 1.0 - (this - other), name=f"margin_{i}")
            losses.append(tf1.reduce_sum(margin, name=f"hinge_{i}"))
    loss = losses[0] + 0.3 * losses[1] + 0.2 * losses[2]
    variables = tf1.trainable_variables()
    grads = tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate)
    return Step([loss, grads])


MODELS = {
    "loss_on_host": Model(_loss_on_host),
    "three_heads": Model(_three_heads),
    "weight_decay": Model(_weight_decay),
    "average_of_losses": Model(_average_of_losses),
    "sampled_scores": Model(_sampled_scores),
    "masked_sequence": Model(_masked_sequence),
    "variational": Model(_variational),
    "contrastive": Model(_contrastive),
    "max_margin": Model(_max_margin),
}
