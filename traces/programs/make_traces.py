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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent
TRACES = PROGRAMS.parent
REPOSITORY = TRACES.parent

CAPTURE = (sys.executable, "-m", "placement_viz.capture")

#: Placements that a program builds itself, to its own arguments for it.
BY_PROGRAM = {p: ((), ("--placement", p)) for p in ("auto", "manual", "colocated")}
#: Placements that ``capture`` builds, to its arguments for it.
BY_CAPTURE = {
    "auto": (("--placement", "as-is"), ()),
    "colocated": (("--placement", "colocated"), ()),
}
AS_IT_IS = {"auto": ((), ())}

Placements = Mapping[str, tuple[Sequence[str], Sequence[str]]]

#: Sample's name: its program and arguments, how it is placed, and its graph in one
#: sentence.
SAMPLES: dict[str, tuple[Sequence[str], Placements, str]] = {
    "batch_norm": (
        ("batch_norm_gradients.py", "--samples", "50000", "--steps", "14"),
        BY_PROGRAM,
        """\
Two devices average a batch and its square; the gradients of the global mean and
variance with respect to each device's part are fetched.""",
    ),
    "towers": (
        ("towers.py", "--batch", "16", "--steps", "14"),
        BY_PROGRAM,
        """\
A small convolutional network on two devices, with its variables on the first; Adam
applies the mean of both towers' gradients.""",
    ),
    "function": (
        ("function_step.py", "--batch", "64", "--steps", "5"),
        BY_CAPTURE,
        """\
A `tf.function` with a `GradientTape`: the first layers of a dense network are on the
first device and the later ones on the second.""",
    ),
    "keras": (
        ("keras_fit.py", "--epochs", "1", "--samples", "160"),
        BY_CAPTURE,
        """\
Keras' `model.fit`: the convolutions of a small network are on the first device and its
dense layers on the second.""",
    ),
    "mirrored": (
        ("mirrored.py", "--batch", "32", "--steps", "5"),
        AS_IT_IS,
        """\
`MirroredStrategy`: both devices have the whole dense network, and sum their
gradients.""",
    ),
    "cluster": (
        ("cluster.py", "--batch", "32", "--steps", "14"),
        AS_IT_IS,
        """\
Three processes: two workers compute the gradients of a dense network, and a parameter
server, which has its variables, applies their mean.""",
    ),
}

TITLE = """\
# Sample runs

`make traces` captures them anew with the programs in [programs](programs). Every one is
the third run of its training step, on logical CPU devices that stand for GPUs: `CPU:0`
is where TensorFlow puts what nothing constrains. Functions, Keras and the strategy were
replayed in a session to be traced.

`auto` leaves gradients unconstrained, `manual` builds them inside `tf.device`, and
`colocated` asks for `colocate_gradients_with_ops=True`, or for the like of it that
`capture --placement colocated` gives a `GradientTape`.
"""


def main() -> None:
    """Write every sample and the page that describes them."""
    sections = [TITLE]
    for sample, (command, placements, graph) in SAMPLES.items():
        rows = []
        for placement, (options, arguments) in placements.items():
            path = TRACES / f"{sample}-{placement}.json"
            capture(path, options, [*command, *arguments])
            rows.append(f"| [{path.name}]({path.name}) {facts(path, options)}")
        sections.append(section(sample, graph, rows))
    origin = read(TRACES / "batch_norm-auto.json")["placement_viz"]
    sections.append(
        f"All with TensorFlow {origin['tensorflow']}, Python {origin['python']}, "
        f"{origin['tool']}, on {origin['machine']}.\n"
    )
    (TRACES / "README.md").write_text("\n".join(sections), encoding="utf-8")


def capture(path: Path, options: Sequence[str], command: list[str]) -> None:
    """Run a program through capture and put its run file at ``path``."""
    script, *arguments = command
    script = (PROGRAMS / script).relative_to(REPOSITORY).as_posix()
    print(f"{path.name}: {script} {' '.join(arguments)}", flush=True)
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - our own programs
            [*CAPTURE, *options, "--out", folder, script, *arguments],
            cwd=REPOSITORY,
            env=environment,
            check=True,
        )
        path.write_bytes((Path(folder) / "timeline.json").read_bytes())


def read(path: Path) -> Any:
    """Return the content of a run file."""
    return json.loads(path.read_text(encoding="utf-8"))


def facts(path: Path, options: Sequence[str]) -> str:
    """Return the row of a sample's table after its name."""
    run = read(path)
    ops = [event for event in run["traceEvents"] if event["ph"] == "X"]
    start_us = min(op["ts"] for op in ops)
    span_us = max(op["ts"] + op["dur"] for op in ops) - start_us
    origin = run["placement_viz"]
    command = " ".join(("placement-viz capture", *options, *origin["command"]))
    counts = f"{len(ops)} | {len(origin['devices'])} | {span_us / 1000:.1f} ms"
    return f"| {counts} | `{command}` |"


def section(sample: str, graph: str, rows: list[str]) -> str:
    """Return the part of the page about one program."""
    head = ["| Run | Ops | Devices | Span | Command |", "|---|---|---|---|---|"]
    return "\n".join([f"## {sample}", "", graph, "", *head, *rows, ""])


if __name__ == "__main__":
    main()
