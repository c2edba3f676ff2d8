"""Steps on text: embeddings and attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, dense, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _embedding(colocate: bool) -> Step:
    """A table on one device, its rows pooled on another."""
    ids = tf1.placeholder(tf.int32, [None, None], name="ids")
    with on(1):
        table = tf1.get_variable("table", [200, 16])
        rows = tf1.nn.embedding_lookup(table, ids)
    with on(2):
        pooled = tf.reduce_mean(rows, axis=1)
        y = dense(pooled, 12, "mlp", tf.nn.relu)
    with on(3):
        logits = dense(y, 5, "logits")
        labels = tf.one_hot(ids[:, 0] % 5, 5)
        loss = tf1.losses.softmax_cross_entropy(labels, logits)
    optimizer = tf1.train.AdamOptimizer()
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    return Step(train, {ids: np.arange(60).reshape(10, 6)})


def _shared_embedding(colocate: bool) -> Step:
    """Towers look up one table; the output layer uses it too."""
    table = tf1.get_variable("tied/table", [120, 16])
    tokens = tf1.placeholder(tf.int64, [3, None], name="tokens")
    losses = []
    for i in range(3):
        with on(i + 1), tf1.name_scope(f"worker{i}"):
            e = tf1.nn.embedding_lookup(table, tokens[i])
            with tf1.variable_scope("enc", reuse=tf1.AUTO_REUSE):
                h = dense(e, 16, "fc", tf.nn.tanh)
            logits = tf.matmul(h, table, transpose_b=True)
            xent = tf1.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tokens[i], logits=logits
            )
            losses.append(tf1.reduce_mean(xent))
    loss = tf1.add_n(losses, name="total")
    optimizer = tf1.train.AdagradOptimizer(0.1)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    return Step([train, loss], {tokens: np.arange(60).reshape(3, 20)})


def _sparse_towers(colocate: bool) -> Step:
    """Only lookups, by several towers, so that the table's gradient stays sparse."""
    with on(3):
        table = tf1.get_variable("table", [80, 12])
    ids = tf1.placeholder(tf.int32, [None])
    parts = []
    for i in (1, 2):
        with on(i):
            picked = tf.gather(table, ids + i)
            parts.append(tf.reduce_sum(picked * tf.tanh(picked)))
    loss = parts[0] * parts[1]
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.5)
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    return Step(train, {ids: np.arange(30)})


def _attention(x: Any, n_heads: int) -> Any:
    depth = int(x.shape[-1])
    qkv = tf1.get_variable("qkv", [depth, 3, n_heads, depth // n_heads])
    q, k, v = tf1.unstack(tf1.einsum("btd,dchk->cbthk", x, qkv))
    scores = tf1.einsum("bqhk,bthk->bhqt", q, k) * (depth // n_heads) ** -0.5
    length = tf.shape(x)[1]
    mask = tf1.linalg.band_part(tf.ones([length, length]), -1, 0)
    weights = tf1.nn.softmax(scores - 1e9 * (1.0 - mask))
    mixed = tf1.einsum("bhqt,bthk->bqhk", weights, v)
    out = tf1.get_variable("out", [n_heads, depth // n_heads, depth])
    return tf1.einsum("bqhk,hkd->bqd", mixed, out)


def _norm(x: Any, name: str) -> Any:
    with tf1.variable_scope(name):
        mean = tf1.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf1.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
        scale = tf1.get_variable("scale", [x.shape[-1]])
        return (x - mean) / tf.sqrt(variance + 1e-5) * scale


def _transformer(colocate: bool) -> Step:
    """Two blocks of attention with einsum, of unknown length, on two devices."""
    x = tf1.placeholder(tf.float32, [None, None, 16], name="input")
    h = x
    for i in (1, 2):
        with on(i), tf1.variable_scope(f"block_{i}"):
            with tf1.variable_scope("attention"):
                h = h + _attention(_norm(h, "ln_1"), 4)
            with tf1.variable_scope("mlp"):
                w1 = tf1.get_variable("w1", [16, 32])
                w2 = tf1.get_variable("w2", [32, 16])
                inner = tf.nn.gelu(tf1.tensordot(_norm(h, "ln_2"), w1, 1))
                h = h + tf1.tensordot(inner, w2, 1)
    with on(3):
        loss = tf1.reduce_mean(tf1.squared_difference(h, x))
    optimizer = tf1.train.AdamOptimizer()
    train = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    values = np.random.default_rng(0).normal(size=(3, 7, 16))
    return Step(train, {x: values})


def _attention_matmul(colocate: bool) -> Step:
    """Attention with transposes and batched products; heads over devices."""
    x = noise(4, 6, 24)
    heads = []
    for i in range(3):
        with on(i + 1), tf1.name_scope(f"head{i}"):
            w = tf1.get_variable(f"w{i}", [3, 24, 8])
            flat = tf.reshape(x, [-1, 24])
            q, k, v = (tf.reshape(tf.matmul(flat, w[j]), [4, 6, 8]) for j in range(3))
            scores = tf.matmul(q, tf.transpose(k, [0, 2, 1])) / 8.0**0.5
            heads.append(tf.matmul(tf.nn.softmax(scores), v))
    joined = tf1.concat(heads, 2, name="joined")
    with on(2):
        out = tf1.get_variable("out", [24, 24])
        y = tf.reshape(tf.matmul(tf.reshape(joined, [24, 24]), out), [4, 6, 24])
        loss = tf1.reduce_mean(tf.abs(y + x))
    variables = tf1.trainable_variables()
    return Step(tf1.gradients(loss, variables, colocate_gradients_with_ops=colocate))


MODELS = {
    "embedding": Model(_embedding),
    "shared_embedding": Model(_shared_embedding),
    "sparse_towers": Model(_sparse_towers),
    "transformer": Model(_transformer),
    "attention_matmul": Model(_attention_matmul),
}
