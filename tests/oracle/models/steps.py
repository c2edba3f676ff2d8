"""What a model is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["Model", "Step", "dense", "noise", "on", "three_layers"]

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Step:
    """What a model's training step returns and takes.

    Attributes:
        fetches: Any nesting of tensors and operations.
        feeds: Placeholder to value.
    """

    fetches: Any
    feeds: dict[Any, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Model:
    """A training step on up to four devices.

    Attributes:
        build: Builds it in the default graph. Its argument is passed on as
            ``colocate_gradients_with_ops``.
        control_flow_v2: Whether loops and conditions become functions.
    """

    build: Callable[[bool], Step]
    control_flow_v2: bool = False


def on(number: int) -> Any:
    """Return the scope of device ``number``."""
    return tf.device(f"/device:CPU:{number}")


def noise(*shape: int) -> Any:
    """Return values that no optimiser can fold, drawn anew in each step."""
    return tf1.random_normal(shape, stddev=0.3)


def dense(x: Any, units: int, name: str, activation: Any = None) -> Any:
    """Return a fully connected layer with variables of its own."""
    with tf1.variable_scope(name):
        kernel = tf1.get_variable("kernel", [x.shape[-1], units])
        bias = tf1.get_variable("bias", [units], initializer=tf1.zeros_initializer())
        y = tf1.nn.bias_add(tf1.matmul(x, kernel), bias)
        return activation(y) if activation else y


def three_layers(x: Any, scope: str = "net") -> Any:
    """Return a small network with one layer on each device."""
    with tf1.variable_scope(scope, reuse=tf1.AUTO_REUSE):
        for i in (1, 2, 3):
            with on(i):
                x = dense(x, 20, f"layer{i}", tf.nn.tanh)
    return x
