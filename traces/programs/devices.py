"""The devices that the sample programs run on: GPUs, or CPU devices in their place."""

from __future__ import annotations

import os

# Read when TensorFlow is imported. Whatever fails still raises.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf


def local_devices(n: int) -> tuple[list[str], tf.compat.v1.ConfigProto]:
    """Return ``n`` devices and the session configuration that provides them.

    With fewer than ``n`` GPUs the devices are logical CPU devices, ``/cpu:0`` standing
    for ``/gpu:0``. Placement follows the same rules there: an op that nothing
    constrains goes to the first device, whichever kind it is.
    """
    if len(tf.config.list_physical_devices("GPU")) >= n:
        return [f"/gpu:{i}" for i in range(n)], tf.compat.v1.ConfigProto()
    config = tf.compat.v1.ConfigProto(device_count={"CPU": n})
    return [f"/cpu:{i}" for i in range(n)], config
