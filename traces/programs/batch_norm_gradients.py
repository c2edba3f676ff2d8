"""Where do the gradients of a batch norm across devices run?

Each device scales the batch and averages it and its square; the first device combines
these into a global mean and a global variance. Then the gradients of both with respect
to each device's scaled batch are computed:

* ``auto``: in one call outside any device. Nothing says where gradient ops belong, and
  they all run on the first device, which also pulls the other devices' data there.
* ``manual``: in one call per device, inside it.
* ``colocated``: as ``auto``, with ``colocate_gradients_with_ops=True``.

The results are the same; the step times are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

# Ahead of TensorFlow, which it quiets.
from devices import local_devices

# isort: split
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

N_FEATURES = 64


def global_moments(
    batch: tf.Tensor, devices: Sequence[str]
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
    """Return each device's scaled batch, and the mean and variance over all of them."""
    scaled, means, squares = [], [], []
    for i, device in enumerate(devices):
        with tf1.device(device):
            local = tf.multiply(batch, 1.0 + i, name=f"local_multiply_{i}")
            square = tf.square(local, name=f"local_square_{i}")
            scaled.append(local)
            means.append(tf.reduce_mean(local, axis=0, name=f"local_mean_{i}"))
            squares.append(tf.reduce_mean(square, axis=0, name=f"local_x2_{i}"))
    with tf1.device(devices[0]):
        mean = tf.reduce_mean(tf.stack(means), axis=0, name="global_mean")
        mean_square = tf.reduce_mean(tf.stack(squares), axis=0, name="global_x2")
        variance = tf.subtract(mean_square, tf.square(mean), name="global_var")
    return scaled, mean, variance


def moment_gradients(
    moments: Sequence[tf.Tensor],
    scaled: Sequence[tf.Tensor],
    devices: Sequence[str],
    placement: str,
) -> list[tf.Tensor]:
    """Return the gradient of ``moments`` with respect to each of ``scaled``."""
    if placement != "manual":
        is_colocated = placement == "colocated"
        return tf1.gradients(moments, scaled, colocate_gradients_with_ops=is_colocated)
    gradients = []
    for device, local in zip(devices, scaled, strict=True):
        with tf1.device(device):
            gradients += tf1.gradients(moments, [local])
    return gradients


def main() -> None:
    """Build the graph, run its gradients and print their norms."""
    arguments = parse_arguments()
    devices, config = local_devices(arguments.devices)
    shape = (arguments.samples, N_FEATURES)
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        with tf1.device("/cpu:0"):
            batch = tf1.placeholder(tf.float32, shape, name="batch")
        scaled, mean, variance = global_moments(batch, devices)
        gradients = moment_gradients(
            [mean, variance], scaled, devices, arguments.placement
        )
        values = np.random.default_rng(seed=0).normal(size=shape)
        for step in range(1, arguments.steps + 1):
            results = session.run(gradients, {batch: values})
            norms = ", ".join(f"{np.linalg.norm(result):.4e}" for result in results)
            print(f"step {step}: gradient norms {norms}")


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
        "--devices", type=int, default=2, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=20_000,
        metavar="N",
        help=f"rows of {N_FEATURES} features in the batch (default: %(default)s)",
    )
    parser.add_argument(
        "--steps", type=int, default=5, metavar="N", help="default: %(default)s"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
