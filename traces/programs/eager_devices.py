"""The devices of the sample programs that run eagerly and in functions."""

from __future__ import annotations

import os

# Read when TensorFlow is imported. Whatever fails still raises.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf


def logical_devices(n: int) -> list[str]:
    """Return the names of ``n`` devices, ``/GPU:0`` and so on, ready to be used.

    With fewer than ``n`` GPUs they are parts of the CPU, ``/CPU:0`` standing for
    ``/GPU:0``. To be called once, before TensorFlow runs anything.
    """
    if len(tf.config.list_physical_devices("GPU")) >= n:
        return [f"/GPU:{i}" for i in range(n)]
    # Else a lone GPU would get whatever nothing constrains.
    tf.config.set_visible_devices([], "GPU")
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(n)]
    tf.config.set_logical_device_configuration(cpu, parts)
    return [f"/CPU:{i}" for i in range(n)]
