"""Where does a training step run whose model is mirrored on two devices?

``tf.distribute.MirroredStrategy`` keeps a copy of each variable on every device. In one
``tf.function`` each device computes its gradients from its part of the batch; the
strategy sums these over the devices, and each device updates its copy.

With fewer than two GPUs, logical CPU devices stand for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

# Ahead of TensorFlow, which it quiets.
from eager_devices import logical_devices

# isort: split
import keras
import numpy as np
import tensorflow as tf

N_FEATURES = 256
N_UNITS = 512
N_CLASSES = 10
N_SAMPLES = 4096


def network() -> keras.Model:
    """Return a dense network that gives each class a score."""
    return keras.Sequential(
        [
            keras.layers.Input([N_FEATURES]),
            keras.layers.Dense(N_UNITS, activation="relu"),
            keras.layers.Dense(N_UNITS, activation="relu"),
            keras.layers.Dense(N_CLASSES),
        ]
    )


def training_step(
    strategy: tf.distribute.Strategy, n_batch: int
) -> Callable[..., tf.Tensor]:
    """Return a function that learns from a distributed batch and returns its mean loss.

    Args:
        strategy: Where the network is made and trained.
        n_batch: The number of samples in the batches of all devices together.
    """
    with strategy.scope():
        model = network()
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(model.trainable_variables)

    def replica_step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores = model(features, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=n_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True)
        )
        return loss

    @tf.function
    def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = strategy.run(replica_step, args=(features, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return step


def batches(n: int) -> tf.data.Dataset:
    """Return endless batches of ``n`` features and labels, the same in every run."""
    generator = np.random.default_rng(seed=0)
    labels = generator.integers(N_CLASSES, size=N_SAMPLES)
    centers = generator.normal(size=(N_CLASSES, N_FEATURES))
    features = centers[labels] + generator.normal(scale=4, size=(N_SAMPLES, N_FEATURES))
    samples = (features.astype(np.float32), labels)
    data = tf.data.Dataset.from_tensor_slices(samples)
    return data.shuffle(N_SAMPLES, seed=0).repeat().batch(n)


def main() -> None:
    """Train for some steps and print the loss of each."""
    arguments = parse_arguments()
    strategy = tf.distribute.MirroredStrategy(logical_devices(2))
    keras.utils.set_random_seed(0)
    n_batch = arguments.batch * strategy.num_replicas_in_sync
    train = training_step(strategy, n_batch)
    data = batches(n_batch).take(arguments.steps)
    distributed = strategy.experimental_distribute_dataset(data)
    for step, (features, labels) in enumerate(distributed, start=1):
        print(f"step {step}: loss {train(features, labels):.4f}")


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=64,
        metavar="N",
        help="samples per device and step (default: %(default)s)",
    )
    parser.add_argument(
        "--steps", type=int, default=14, metavar="N", help="default: %(default)s"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
