"""Where do the gradients of a model replicated on several devices run?

A small convolutional network learns to read digits. Its variables live on a
controller; each device holds a copy of the rest, a tower, and gets a batch of its own:

* ``auto``: gradients of the mean loss, in one call outside any device. Nothing says
  where gradient ops belong, and all towers' backward passes run on one device.
* ``manual``: gradients of each tower's loss, in one call inside its device, averaged on
  the controller.
* ``colocated``: as ``auto``, with ``colocate_gradients_with_ops=True``.

With enough GPUs the controller is ``/cpu:0`` and each tower has a GPU. Otherwise
logical CPU devices stand for the GPUs, and the first of them is also the controller.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

# Ahead of TensorFlow, which it quiets.
from devices import local_devices

# isort: split
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

tf1 = tf.compat.v1

CONTROLLER = "/cpu:0"
IMAGE_SIZE = 28
N_CLASSES = 10
VARIABLE_OPS = frozenset(
    {"VarHandleOp", "Variable", "VariableV2", "AutoReloadVariable"}
)

Gradients = list[tuple[tf.Tensor, tf.Variable]]


def variables_on_controller(device: str) -> Callable[[tf.Operation], str]:
    """Return a device function: variables on the controller, the rest on ``device``."""
    return lambda op: CONTROLLER if op.type in VARIABLE_OPS else device


def convolution(images: tf.Tensor, n_filters: int, name: str) -> tf.Tensor:
    """Return ``images`` filtered 5 by 5, rectified, and pooled to half their size."""
    n_channels = images.shape[-1]
    filters = tf1.get_variable(f"{name}/filters", [5, 5, n_channels, n_filters])
    bias = tf1.get_variable(
        f"{name}/bias", [n_filters], initializer=tf1.zeros_initializer()
    )
    filtered = tf.nn.conv2d(images, filters, strides=1, padding="SAME", name=name)
    active = tf.nn.relu(tf.nn.bias_add(filtered, bias))
    return tf.nn.max_pool2d(active, ksize=2, strides=2, padding="SAME")


def dense(inputs: tf.Tensor, n_units: int, name: str) -> tf.Tensor:
    """Return a fully connected layer of ``n_units``, not yet rectified."""
    weights = tf1.get_variable(f"{name}/weights", [inputs.shape[-1], n_units])
    bias = tf1.get_variable(
        f"{name}/bias", [n_units], initializer=tf1.zeros_initializer()
    )
    return tf.nn.bias_add(tf.matmul(inputs, weights, name=name), bias)


def tower_loss(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the mean cross entropy of the network's answers for one batch."""
    pooled = convolution(convolution(images, 32, "conv1"), 64, "conv2")
    n_values = pooled.shape[1] * pooled.shape[2] * pooled.shape[3]
    hidden = tf.nn.relu(dense(tf.reshape(pooled, [-1, n_values]), 1024, "dense1"))
    logits = dense(hidden, N_CLASSES, "dense2")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses, name="loss")


def tower_gradients(
    optimizer: tf1.train.Optimizer,
    losses: Sequence[tf.Tensor],
    devices: Sequence[str],
    placement: str,
) -> Gradients:
    """Return the gradient of the mean of ``losses`` for each variable."""
    if placement != "manual":
        with tf1.device(CONTROLLER):
            loss = tf.add_n(losses) / len(losses)
        is_colocated = placement == "colocated"
        return optimizer.compute_gradients(
            loss, colocate_gradients_with_ops=is_colocated
        )
    by_tower = []
    for device, loss in zip(devices, losses, strict=True):
        with tf1.device(device):
            by_tower.append(optimizer.compute_gradients(loss))
    with tf1.device(CONTROLLER):
        return [
            (tf.add_n([gradient for gradient, _ in pairs]) / len(pairs), pairs[0][1])
            for pairs in zip(*by_tower, strict=True)
        ]


def build(
    devices: Sequence[str], placement: str
) -> tuple[list[tuple[tf.Tensor, tf.Tensor]], tf.Tensor, tf.Operation]:
    """Return each tower's (images, labels) inputs, the mean loss and the train op."""
    inputs, losses = [], []
    for i, device in enumerate(devices):
        with tf1.device(CONTROLLER):
            shape = [None, IMAGE_SIZE, IMAGE_SIZE, 1]
            images = tf1.placeholder(tf.float32, shape, name=f"images_{i}")
            labels = tf1.placeholder(tf.int32, [None], name=f"labels_{i}")
        with (
            tf1.device(variables_on_controller(device)),
            tf1.variable_scope("", reuse=tf1.AUTO_REUSE),
            tf.name_scope(f"tower_{i}"),
        ):
            losses.append(tower_loss(images, labels))
        inputs.append((images, labels))
    optimizer = tf1.train.AdamOptimizer()
    gradients = tower_gradients(optimizer, losses, devices, placement)
    with tf1.device(CONTROLLER):
        train = optimizer.apply_gradients(gradients)
        loss = tf.reduce_mean(tf.stack(losses), name="mean_loss")
    return inputs, loss, train


def load_images(path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return images [n, 28, 28, 1] with values from 0 to 1, and their labels.

    Args:
        path: An .npz file with ``x_train`` (values to 255) and ``y_train``; None for
            scikit-learn's digits, enlarged from 8 by 8.
    """
    if path is not None:
        with np.load(path) as arrays:
            return arrays["x_train"][..., None] / 255, arrays["y_train"]
    digits = load_digits()
    weights = interpolation(digits.images.shape[1], IMAGE_SIZE)
    return (weights @ digits.images @ weights.T)[..., None] / 16, digits.target


def interpolation(n_from: int, n_to: int) -> np.ndarray:
    """Return the matrix [n_to, n_from] that stretches a line of values linearly."""
    positions = np.linspace(0, n_from - 1, n_to)
    distances = np.abs(positions[:, None] - np.arange(n_from))
    return np.maximum(1 - distances, 0)


def batches(
    images: np.ndarray, labels: np.ndarray, n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield random batches of ``n`` images and labels, the same ones in every run."""
    generator = np.random.default_rng(seed=0)
    while True:
        chosen = generator.integers(len(images), size=n)
        yield images[chosen], labels[chosen]


def main() -> None:
    """Train for some steps and print the loss of each."""
    arguments = parse_arguments()
    n_towers = 1 if arguments.serial else arguments.towers
    n_images = arguments.batch * arguments.towers // n_towers
    devices, config = local_devices(n_towers)
    data = batches(*load_images(arguments.data), n_images)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        tf1.set_random_seed(0)
        inputs, loss, train = build(devices, arguments.placement)
        session.run(tf1.global_variables_initializer())
        for step in range(1, arguments.steps + 1):
            feeds = {}
            for images, labels in inputs:
                feeds[images], feeds[labels] = next(data)
            value, _ = session.run([loss, train], feeds)
            print(f"step {step}: loss {value:.4f}")


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--placement",
        choices=("auto", "manual", "colocated"),
        default="auto",
        help="how gradient ops get their device (default: %(default)s)",
    )
    parser.add_argument(
        "--towers", type=int, default=2, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--serial",
        action="store_true",
        help="train on one device, with the images of all towers in one batch",
    )
    parser.add_argument(
        "--data",
        metavar="NPZ",
        help="images to learn, such as mnist.npz, with the arrays x_train and y_train "
        "(default: the digits that come with scikit-learn)",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=64,
        metavar="N",
        help="images per tower and step (default: %(default)s)",
    )
    parser.add_argument(
        "--steps", type=int, default=5, metavar="N", help="default: %(default)s"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
