"""What machine a step ran on."""

from __future__ import annotations

import csv
import os
import platform
import subprocess
from collections.abc import Mapping
from typing import Any

import msgspec

from placement_viz.schema import DeviceRecord, GpuRecord, MachineRecord

__all__ = ["described", "machine_record"]

#: What nvidia-smi is asked for, in the order of :class:`GpuRecord`.
_QUERY = (
    "name",
    "pci.bus_id",
    "driver_version",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
)
_TIMEOUT_S = 10.0


def machine_record() -> MachineRecord:
    """Return what is known of this machine; what does not answer is left out."""
    build = _cuda_build()
    return MachineRecord(
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count() or 0,
        cuda=build.get("cuda_version", ""),
        cudnn=build.get("cudnn_version", ""),
        gpus=_gpus(),
    )


def described(devices: tuple[DeviceRecord, ...]) -> tuple[DeviceRecord, ...]:
    """Return a session's devices with what the GPUs among them are.

    GPUs that are split into several devices, or are another machine's, stay as they
    are: nothing tells which is which.
    """
    gpus = [device for device in devices if "/device:GPU:" in device.name]
    found = _gpu_descriptions() if gpus else []
    if len(gpus) != len(found):
        return devices
    physical = {gpu.name: text for gpu, text in zip(gpus, found, strict=True)}
    return tuple(
        msgspec.structs.replace(
            device, physical=physical.get(device.name, device.physical)
        )
        for device in devices
    )


def _gpu_descriptions() -> list[str]:
    """Return what each GPU that TensorFlow sees is, in TensorFlow's order."""
    import tensorflow as tf  # noqa: PLC0415

    try:
        details = [
            tf.config.experimental.get_device_details(gpu)
            for gpu in tf.config.get_visible_devices("GPU")
        ]
    except (AttributeError, RuntimeError, ValueError):
        return []
    return [_description(each) for each in details]


def _description(details: Mapping[str, Any]) -> str:
    capability = ".".join(map(str, details.get("compute_capability", ())))
    name = str(details.get("device_name", ""))
    return f"{name}, compute capability {capability}" if capability else name


def _cuda_build() -> dict[str, str]:
    """Return the versions of CUDA that TensorFlow was built for."""
    import tensorflow as tf  # noqa: PLC0415

    try:
        build = tf.sysconfig.get_build_info()
    except (AttributeError, ImportError):
        return {}
    return {str(key): str(value) for key, value in build.items()}


def _gpus() -> tuple[GpuRecord, ...]:
    """Return the graphics cards that the driver's own tool lists."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}"]
    command.append("--format=csv,noheader,nounits")
    try:
        listed = subprocess.run(  # noqa: S603 - a fixed command
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ()
    rows = csv.reader(listed.splitlines(), skipinitialspace=True)
    return tuple(_gpu(row) for row in rows if len(row) == len(_QUERY))


def _gpu(row: list[str]) -> GpuRecord:
    name, bus_id, driver, *link = row
    generation, max_generation, width, max_width = map(_number, link)
    return GpuRecord(
        name=name,
        bus_id=bus_id,
        driver=driver,
        link_generation=generation,
        max_link_generation=max_generation,
        link_width=width,
        max_link_width=max_width,
    )


def _number(text: str) -> int:
    """Return a number; 0 for what a card does not tell, such as ``[N/A]``."""
    return int(text) if text.strip().isdecimal() else 0
