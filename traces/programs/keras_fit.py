"""Where does ``fit`` run a Keras model whose layers are put on two devices?

The convolutions of a small network, with their variables, are on the first device, and
its dense layers on the second. ``fit`` computes the loss outside any device, and so the
gradients and the update.

With fewer than two GPUs, logical CPU devices stand for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

# Ahead of TensorFlow, which it quiets.
from eager_devices import logical_devices

# isort: split
import keras
import numpy as np
import tensorflow as tf

IMAGE_SIZE = 16
N_CLASSES = 4


def convolutions() -> keras.Sequential:
    """Return the layers of the first device."""
    return keras.Sequential(
        [
            keras.layers.Conv2D(16, 5, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 5, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
        ]
    )


def classifier() -> keras.Sequential:
    """Return the layers of the second device."""
    return keras.Sequential(
        [
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(N_CLASSES),
        ]
    )


class SplitNetwork(keras.Model):
    """A convolutional network on two devices.

    Args:
        devices: The names of the two.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__()
        self.devices = devices
        self.stages = []
        for device, stage in zip(devices, (convolutions, classifier), strict=True):
            # Dropout makes the variable of its random state at once.
            with tf.device(device):
                self.stages.append(stage())

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make the variables, which would all be on the first device otherwise."""
        shape = input_shape
        for device, stage in zip(self.devices, self.stages, strict=True):
            with tf.device(device):
                stage.build(shape)
            shape = stage.compute_output_shape(shape)

    def call(self, images: tf.Tensor, *, training: bool = False) -> tf.Tensor:
        """Return a score for each class of each image."""
        values = images
        for device, stage in zip(self.devices, self.stages, strict=True):
            with tf.device(device):
                values = stage(values, training=training)
        return values


def samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` noisy images and their labels, the same in every run."""
    generator = np.random.default_rng(seed=0)
    labels = generator.integers(N_CLASSES, size=n)
    shape = (IMAGE_SIZE, IMAGE_SIZE, 1)
    patterns = generator.normal(size=(N_CLASSES, *shape))
    images = patterns[labels] + generator.normal(scale=4, size=(n, *shape))
    return images.astype(np.float32), labels


def main() -> None:
    """Train for some epochs and print the loss of each."""
    arguments = parse_arguments()
    devices = logical_devices(2)
    keras.utils.set_random_seed(0)
    model = SplitNetwork(devices)
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        # Keras would have XLA compile the whole step, for one device.
        jit_compile=False,
    )
    show = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: print(
            f"epoch {epoch + 1}: loss {logs['loss']:.4f}"
        )
    )
    model.fit(
        *samples(arguments.samples),
        batch_size=arguments.batch,
        epochs=arguments.epochs,
        shuffle=True,
        callbacks=[show],
        verbose=0,
    )


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=32,
        metavar="N",
        help="images per step (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=int, default=3, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=448,
        metavar="N",
        help="images per epoch (default: %(default)s)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
