"""A timeline as TensorFlow writes it, streamed to a file, with flows and tensors.

Proportions are those of real ones: about two inputs an op, a flow arrow of two events
for each, and with memory on four snapshots and counters an op. The content only depends
on the arguments.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from typing import TextIO

TASK = "/job:localhost/replica:0/task:0"
N_DEVICES = 4
_TYPES = ("Conv2D", "FusedBatchNormV3", "Relu", "AddV2", "Conv2DBackpropInput")
_BLOCK = 64


def write_timeline(stream: TextIO, n_ops: int, *, has_memory: bool = False) -> None:
    """Write a timeline with ``n_ops`` ops, indented as TensorFlow indents it.

    Args:
        stream: Where to write it.
        n_ops: How many ops run.
        has_memory: Whether to write tensor objects and counters, as TensorFlow does
            with ``show_memory``.
    """
    stream.write('{\n    "traceEvents": [\n')
    stream.write(",\n".join(_rows()))
    for event in _events(n_ops):
        stream.write(",\n")
        stream.write(event)
    for event in _memory_events(n_ops) if has_memory else ():
        stream.write(",\n")
        stream.write(event)
    stream.write("\n    ]\n}")


def _rows() -> Iterator[str]:
    for device in range(N_DEVICES):
        for kind, pid in (("Compute", 2 * device + 1), ("Tensors", 2 * device + 2)):
            yield (
                f'        {{\n            "name": "process_name",\n'
                f'            "ph": "M",\n            "pid": {pid},\n'
                f'            "args": {{\n                "name": '
                f'"{TASK}/device:GPU:{device} {kind}"\n            }}\n        }}'
            )


def _events(n_ops: int) -> Iterator[str]:
    chance = random.Random(0)  # noqa: S311 - the same file every time, no secret
    clocks = [1_500_000_000_000_000] * N_DEVICES
    for index in range(n_ops):
        device = index // _BLOCK % N_DEVICES
        op_type = _TYPES[index % len(_TYPES)]
        scope = f"tower_{device}/stage_{index % 4}/block_{index % 1009}"
        name = f"{scope}/{op_type}_{index % 7919}"
        before = f"{scope}/{_TYPES[index % len(_TYPES) - 1]}_{index % 7919}"
        duration = chance.randrange(3, 700)
        clocks[device] += chance.randrange(4) + duration
        start, pid, lane = clocks[device], 2 * device + 1, chance.randrange(3)
        yield (
            f'        {{\n            "ph": "X",\n            "cat": "Op",\n'
            f'            "name": "{op_type}",\n            "pid": {pid},\n'
            f'            "tid": {lane},\n            "ts": {start},\n'
            f'            "dur": {duration},\n            "args": {{\n'
            f'                "name": "{name}",\n                "op": "{op_type}",\n'
            f'                "input0": "{before}",\n'
            f'                "input1": "{scope}/kernel/read"\n            }}\n'
            "        }"
        )
        for phase, at in (("s", start - 5), ("t", start)):
            yield (
                f'        {{\n            "ph": "{phase}",\n'
                f'            "cat": "DataFlow",\n            "name": "{before}",\n'
                f'            "pid": {pid},\n            "tid": {lane},\n'
                f'            "ts": {at},\n            "id": {index}\n        }}'
            )


def _memory_events(n_ops: int) -> Iterator[str]:
    for index in range(n_ops):
        pid = 2 * (index // _BLOCK % N_DEVICES) + 2
        for phase in ("N", "O", "D"):
            yield (
                f'        {{\n            "ph": "{phase}",\n'
                f'            "cat": "Tensor",\n            "name": "tensor_{index}",\n'
                f'            "pid": {pid},\n            "tid": 0,\n'
                f'            "ts": {1_500_000_000_000_000 + index},\n'
                f'            "id": {index},\n            "args": {{\n'
                f'                "snapshot": {{\n'
                f'                    "tensor_description": "dtype: DT_FLOAT shape {{ '
                f"dim {{ size: 64 }} }} allocation_description {{ requested_bytes: "
                f'{index % 4096} allocator_name: \\"GPU_0_bfc\\" }}"\n'
                f"                }}\n            }}\n        }}"
            )
        yield (
            f'        {{\n            "ph": "C",\n            "cat": "Memory",\n'
            f'            "name": "GPU_0_bfc",\n            "pid": {pid},\n'
            f'            "tid": 0,\n'
            f'            "ts": {1_500_000_000_000_000 + index},\n'
            f'            "args": {{\n                "GPU_0_bfc": {index}\n'
            f"            }}\n        }}"
        )


def main() -> None:
    """Write a timeline to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_ops", type=int)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    write_timeline(sys.stdout, arguments.n_ops, has_memory=arguments.memory)


if __name__ == "__main__":
    main()
