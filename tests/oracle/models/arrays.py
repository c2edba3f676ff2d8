"""Steps that move, reduce and broadcast arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.oracle.models.steps import Model, Step, noise, on

__all__ = ["MODELS"]

tf1 = tf.compat.v1


def _rearranged(x: Any, n_columns: int) -> Any:
    """Return ``x`` after one of almost every op that moves elements."""
    with on(1):
        left, right = tf.split(x, 2, axis=1)
        padded = tf.pad(left, [[0, 0], [1, 1]])
        tiled = tf.tile(right, [1, 2])
    with on(2):
        rows = tf.unstack(tf.transpose(tiled), n_columns)
        stacked = tf.stack(rows[::-1], axis=1)
        sliced = padded[:, 1:-1]
        strided = stacked[:, ::2] + sliced
    with on(3):
        joined = tf.concat([strided, tf.reverse(sliced, [1])], axis=1)
        picked = tf.gather(joined, [0, 2, 1, 3], axis=1)
        rolled = tf.expand_dims(tf.roll(picked, 1, 0), 2)
        return tf.squeeze(tf.slice(rolled, [0, 1, 0], [-1, 2, 1]), 2)


def _moves_static(colocate: bool) -> Step:
    """Moves of arrays whose shapes are known, so that their gradients fold."""
    with on(1):
        w = tf1.get_variable("w", [12, 8])
    y = _rearranged(tf.matmul(noise(10, 12), w), 8)
    loss = tf1.reduce_sum(y * y)
    return Step(tf1.gradients(loss, w, colocate_gradients_with_ops=colocate))


def _moves_unknown(colocate: bool) -> Step:
    """The same moves with a batch of unknown size."""
    x = tf1.placeholder(tf.float32, [None, 12])
    with on(1):
        w = tf1.get_variable("w", [12, 8])
    y = _rearranged(tf.matmul(x, w), 8)
    loss = tf1.reduce_sum(y * y)
    grads = tf1.gradients(loss, w, colocate_gradients_with_ops=colocate)
    return Step(grads, {x: np.ones((10, 12))})


def _arithmetic(x: Any, row: Any, column: Any) -> Any:
    """Return the end of a long chain of broadcasting ops over three devices."""
    y = x
    for i in (1, 2, 3):
        with on(i):
            y = tf.sigmoid(y * row - column) + row / (2.0 + tf.square(column))
            y = tf.maximum(y, 0.1 * column) * tf.pow(tf.abs(row) + 0.5, 1.5)
            y = tf1.where(y > 0.2, y, tf.minimum(y, row + tf.zeros_like(y)))
    return y


def _broadcasts(colocate: bool, shapes: tuple[Any, Any, Any]) -> Step:
    values = {}
    tensors = []
    for shape, size in zip(shapes, ((9, 7), (7,), (9, 1)), strict=True):
        tensor = tf1.placeholder(tf.float32, shape)
        values[tensor] = np.full(size, 0.7)
        tensors.append(tensor)
    loss = tf1.reduce_mean(_arithmetic(*tensors))
    grads = tf1.gradients(loss, tensors, colocate_gradients_with_ops=colocate)
    return Step(grads, values)


def _broadcast_unknown(colocate: bool) -> Step:
    """Broadcasts between arrays of unknown shape."""
    return _broadcasts(colocate, (None, None, None))


def _broadcast_partly(colocate: bool) -> Step:
    """Broadcasts between arrays of which only the rank is known."""
    return _broadcasts(colocate, ([None, None], [None], [None, 1]))


def _broadcast_static(colocate: bool) -> Step:
    """Broadcasts between arrays of known shape."""
    return _broadcasts(colocate, ([9, 7], [7], [9, 1]))


def _reductions(colocate: bool) -> Step:
    """Reductions of every kind, some kept in place by keepdims."""
    x = tf1.placeholder(tf.float32, [None, 6])
    with on(1):
        w = tf1.get_variable("w", [6, 6])
        y = tf.nn.softplus(tf.matmul(x, w))
        centred = y - tf.reduce_mean(y, 0, keepdims=True)
        product = tf1.reduce_prod(1.0 + 0.1 * y, axis=1)
    with on(2):
        running = tf1.cumsum(centred, axis=1, reverse=True)
        growth = tf1.cumprod(1.0 + 0.1 * y, axis=1, exclusive=True)
        largest = tf1.reduce_max(running, axis=1) + tf1.reduce_min(growth, axis=1)
    with on(3):
        spread = tf1.math.reduce_std(running, axis=1)
        norm = tf1.norm(growth, axis=1)
        top = tf1.nn.top_k(y, 2).values
        joined = largest + product + spread + norm + tf1.reduce_sum(top, axis=1)
    loss = tf1.reduce_logsumexp(joined)
    grads = tf1.gradients(loss, [w, x], colocate_gradients_with_ops=colocate)
    return Step(grads, {x: np.random.default_rng(3).normal(size=(9, 6))})


def _segments(colocate: bool) -> Step:
    """Segment sums, scatters, dynamic partitions and sparse products."""
    ids = tf1.placeholder(tf.int32, [None])
    with on(1):
        w = tf1.get_variable("w", [16, 5])
        summed = tf1.math.unsorted_segment_sum(w, ids, 4)
        averaged = tf1.segment_mean(w, ids)
    with on(2):
        parts = tf1.dynamic_partition(w, ids, 4)
        stitched = tf1.concat([tf.tanh(part) for part in parts], 0)
        scattered = tf1.scatter_nd(ids[:, None], stitched, [4, 5])
    with on(3):
        nodes = tf1.gather_nd(w, [[0, 1], [2, 3], [2, 3]])
        best = tf1.boolean_mask(w, ids > 1)
        loss = tf1.reduce_sum(summed * averaged * scattered)
        loss += tf1.reduce_sum(nodes) * tf1.reduce_sum(best)
    grads = tf1.gradients(loss, w, colocate_gradients_with_ops=colocate)
    return Step(tf.convert_to_tensor(grads[0]), {ids: np.repeat(np.arange(4), 4)})


def _linear_algebra(colocate: bool) -> Step:
    """Solvers, factorisations and complex numbers."""
    with on(1):
        a = tf1.get_variable("a", [6, 6])
        spd = tf.matmul(a, a, transpose_a=True) + 3.0 * tf.eye(6)
        factor = tf1.linalg.cholesky(spd)
    with on(2):
        solved = tf1.linalg.solve(spd, noise(6, 2))
        trace = tf1.linalg.trace(tf1.linalg.inv(spd))
    with on(3):
        wave = tf1.fft(tf1.complex(solved[:, 0], solved[:, 1]))
        power = tf1.real(wave * tf1.conj(wave))
        log_det = 2.0 * tf1.reduce_sum(tf1.log(tf1.linalg.diag_part(factor)))
    loss = tf1.reduce_sum(power) + trace + log_det
    return Step(tf1.gradients(loss, [a], colocate_gradients_with_ops=colocate))


MODELS = {
    "moves_static": Model(_moves_static),
    "moves_unknown": Model(_moves_unknown),
    "broadcast_unknown": Model(_broadcast_unknown),
    "broadcast_partly": Model(_broadcast_partly),
    "broadcast_static": Model(_broadcast_static),
    "reductions": Model(_reductions),
    "segments": Model(_segments),
    "linear_algebra": Model(_linear_algebra),
}
