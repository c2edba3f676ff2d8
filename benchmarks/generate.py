"""A timeline as TensorFlow writes it, of any size and the same every time.

It shows a training step of towers that each hold a chain of layers: forward ops on
the device of their tower, gradients on the first device except where they follow.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from placement_viz.schema import SCHEMA_VERSION, SECTION

TASK = "/job:localhost/replica:0/task:0"
N_TOWERS = 4
_FORWARD = ("Conv2D", "BiasAdd", "Relu")
_BACKWARD = (
    ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropInput"),
    ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropFilter"),
    ("BiasAdd", "BiasAddGrad", "BiasAddGrad"),
    ("Relu", "ReluGrad", "ReluGrad"),
)
_OPS_A_LAYER = len(_FORWARD) + len(_BACKWARD)


def generate_run(n_ops: int, *, has_graph: bool = True) -> dict[str, Any]:
    """Return the JSON of a timeline with about ``n_ops`` ops, and its graph."""
    rows = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": pid,
            "args": {"name": f"{TASK}/device:GPU:{pid} Compute"},
        }
        for pid in range(N_TOWERS)
    ]
    found = list(_ops(max(1, n_ops // (_OPS_A_LAYER * N_TOWERS))))
    run: dict[str, Any] = {"traceEvents": [*rows, *(event for event, _ in found)]}
    if has_graph:
        nodes = [node for _, node in found]
        run[SECTION] = {"schema": SCHEMA_VERSION, "nodes": nodes}
    return run


def _ops(n_layers: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    chance = random.Random(0)  # noqa: S311 - the same run every time, no secret
    clock = [1_000_000] * N_TOWERS
    for tower in range(N_TOWERS):
        scope = f"tower_{tower}/"
        for layer in range(n_layers):
            for op in _FORWARD:
                name = f"{scope}layer_{layer}/{op}"
                before = f"{scope}layer_{layer - 1}/Relu" if layer else "images"
                yield _op((name, op, before), tower, clock, chance)
    for layer in reversed(range(n_layers)):
        for tower in range(N_TOWERS):
            for forward, role, op in _BACKWARD:
                home = f"tower_{tower}/layer_{layer}/{forward}"
                name = f"gradients/{home}_grad/{role}"
                yield _op((name, op, home), 0, clock, chance)


def _op(
    what: tuple[str, str, str], device: int, clock: list[int], chance: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    name, op, source = what
    duration = chance.randint(2, 400)
    event = {
        "ph": "X",
        "cat": "Op",
        "name": op,
        "pid": device,
        "tid": 0,
        "ts": clock[device],
        "dur": duration,
        "args": {"name": name, "op": op, "input0": source},
    }
    clock[device] += duration + chance.randint(0, 3)
    asked = "" if name.startswith("gradients/") else f"/device:GPU:{device}"
    node = {"name": name, "op": op, "device": asked, "inputs": [source]}
    return event, node


def main() -> None:
    """Write a run to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_ops", type=int)
    parser.add_argument("--no-graph", action="store_true")
    arguments = parser.parse_args()
    run = generate_run(arguments.n_ops, has_graph=not arguments.no_graph)
    json.dump(run, sys.stdout, indent=4)


if __name__ == "__main__":
    main()
