"""Capture the sample runs in ``traces/`` anew, and describe where each came from.

Each program is run once for each placement, through ``python -m placement_viz.capture``
and from the repository's folder, so that no path of the machine ends up in a file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent
TRACES = PROGRAMS.parent
REPOSITORY = TRACES.parent

CAPTURE = (sys.executable, "-m", "placement_viz.capture")

PLACEMENTS = ("auto", "manual", "colocated")

#: Sample's name: its program and arguments, and its graph in one sentence.
SAMPLES = {
    "batch_norm": (
        ("batch_norm_gradients.py", "--samples", "50000", "--steps", "14"),
        """\
Two devices average a batch and its square; the gradients of the global mean and
variance with respect to each device's part are fetched.""",
    ),
    "towers": (
        ("towers.py", "--batch", "16", "--steps", "14"),
        """\
A small convolutional network on two devices, with its variables on the first; Adam
applies the mean of both towers' gradients.""",
    ),
}

TITLE = """\
# Sample runs

`make traces` captures them anew with the programs in [programs](programs). Every one is
the third run of its training step, on logical CPU devices that stand for GPUs: `CPU:0`
is where TensorFlow puts what nothing constrains.

`auto` leaves gradients unconstrained, `manual` builds them inside `tf.device`, and
`colocated` asks for `colocate_gradients_with_ops=True`.
"""


def main() -> None:
    """Write every sample and the page that describes them."""
    sections = [TITLE]
    for sample, (command, graph) in SAMPLES.items():
        rows = []
        for placement in PLACEMENTS:
            path = TRACES / f"{sample}-{placement}.json"
            capture(path, [*command, "--placement", placement])
            rows.append(f"| [{path.name}]({path.name}) {facts(path)}")
        sections.append(section(sample, graph, rows))
    origin = read(TRACES / "batch_norm-auto.json")["placement_viz"]
    sections.append(
        f"All with TensorFlow {origin['tensorflow']}, Python {origin['python']}, "
        f"{origin['tool']}, on {origin['machine']}.\n"
    )
    (TRACES / "README.md").write_text("\n".join(sections), encoding="utf-8")


def capture(path: Path, command: list[str]) -> None:
    """Run a program through capture and put its run file at ``path``."""
    script, *arguments = command
    script = (PROGRAMS / script).relative_to(REPOSITORY).as_posix()
    print(f"{path.name}: {script} {' '.join(arguments)}", flush=True)
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - our own programs
            [*CAPTURE, "--out", folder, script, *arguments],
            cwd=REPOSITORY,
            env=environment,
            check=True,
        )
        path.write_bytes((Path(folder) / "timeline.json").read_bytes())


def read(path: Path) -> Any:
    """Return the content of a run file."""
    return json.loads(path.read_text(encoding="utf-8"))


def facts(path: Path) -> str:
    """Return the row of a sample's table after its name."""
    run = read(path)
    ops = [event for event in run["traceEvents"] if event["ph"] == "X"]
    start_us = min(op["ts"] for op in ops)
    span_us = max(op["ts"] + op["dur"] for op in ops) - start_us
    origin = run["placement_viz"]
    command = " ".join(origin["command"])
    counts = f"{len(ops)} | {len(origin['devices'])} | {span_us / 1000:.1f} ms"
    return f"| {counts} | `python {command}` |"


def section(sample: str, graph: str, rows: list[str]) -> str:
    """Return the part of the page about one program."""
    head = ["| Run | Ops | Devices | Span | Command |", "|---|---|---|---|---|"]
    return "\n".join([f"## {sample}", "", graph, "", *head, *rows, ""])


if __name__ == "__main__":
    main()
