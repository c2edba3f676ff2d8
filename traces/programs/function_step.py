"""Where does a training step run whose model is split over two devices?

The first layers of a dense network, with their variables, are on the first device, and
the later ones with the loss on the second. One ``tf.function`` computes the loss inside
these devices, and outside any device its gradients, with ``tf.GradientTape``, and the
update.

With fewer than two GPUs, logical CPU devices stand for them.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence

# Ahead of TensorFlow, which it quiets.
from eager_devices import logical_devices

# isort: split
import numpy as np
import tensorflow as tf

N_FEATURES = 256
N_UNITS = 512
N_CLASSES = 10
N_SAMPLES = 4096

#: Sizes of what enters and leaves each layer, for each device.
STAGES = (
    (N_FEATURES, N_UNITS, N_UNITS),
    (N_UNITS, N_UNITS, N_CLASSES),
)

Layer = tuple[tf.Variable, tf.Variable]


def dense_layers(sizes: Sequence[int]) -> list[Layer]:
    """Return the weights and the bias of each layer between two of ``sizes``."""
    layers = []
    for n_inputs, n_units in itertools.pairwise(sizes):
        stddev = (2 / n_inputs) ** 0.5
        weights = tf.Variable(tf.random.normal([n_inputs, n_units], stddev=stddev))
        layers.append((weights, tf.Variable(tf.zeros([n_units]))))
    return layers


def pipeline_loss(
    stages: Sequence[Sequence[Layer]],
    devices: Sequence[str],
    features: tf.Tensor,
    labels: tf.Tensor,
) -> tf.Tensor:
    """Return the mean cross entropy of the network's answers for one batch."""
    values = features
    for stage, device in zip(stages, devices, strict=True):
        with tf.device(device):
            for weights, bias in stage:
                logits = tf.matmul(values, weights) + bias
                values = tf.nn.relu(logits)
    with tf.device(devices[-1]):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_mean(losses)


def training_step(devices: Sequence[str]) -> Callable[..., tf.Tensor]:
    """Return a function that learns from a batch and returns the loss before that."""
    stages = []
    for sizes, device in zip(STAGES, devices, strict=True):
        with tf.device(device):
            stages.append(dense_layers(sizes))
    variables = [variable for stage in stages for layer in stage for variable in layer]
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(variables)

    @tf.function
    def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = pipeline_loss(stages, devices, features, labels)
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    return step


def batches(n: int) -> tf.data.Dataset:
    """Return endless batches of ``n`` features and labels, the same in every run."""
    generator = np.random.default_rng(seed=0)
    labels = generator.integers(N_CLASSES, size=N_SAMPLES)
    centers = generator.normal(size=(N_CLASSES, N_FEATURES))
    features = centers[labels] + generator.normal(scale=4, size=(N_SAMPLES, N_FEATURES))
    samples = (features.astype(np.float32), labels)
    data = tf.data.Dataset.from_tensor_slices(samples)
    return data.shuffle(N_SAMPLES, seed=0).repeat().batch(n).prefetch(1)


def main() -> None:
    """Train for some steps and print the loss of each."""
    arguments = parse_arguments()
    devices = logical_devices(len(STAGES))
    tf.random.set_seed(0)
    train = training_step(devices)
    data = batches(arguments.batch).take(arguments.steps)
    for step, (features, labels) in enumerate(data, start=1):
        print(f"step {step}: loss {train(features, labels):.4f}")


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=128,
        metavar="N",
        help="samples per step (default: %(default)s)",
    )
    parser.add_argument(
        "--steps", type=int, default=14, metavar="N", help="default: %(default)s"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
