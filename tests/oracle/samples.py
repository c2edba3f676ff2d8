"""What the oracle keeps of a model: the engine's inputs and the truth."""

from __future__ import annotations

import dataclasses
import pathlib

import msgspec

from placement_viz.model import Graph, Run
from placement_viz.parser import parse_run
from placement_viz.schema import GraphNode

__all__ = ["Inputs", "Sample", "Truth", "load_samples", "save_sample"]

_TIMELINE, _RUN, _GRAPH, _TRUTH = (
    "timeline.json",
    "run.json",
    "graph.json",
    "truth.json",
)


class Truth(msgspec.Struct, frozen=True):
    """What TensorFlow did with a model, noted without the engine.

    Attributes:
        devices: Node of the plain step to where it is when gradients are colocated:
            several devices when it is copied. Nodes that only one of the two steps
            has are missing.
        by_name: The same, but of the node of that *name*. Under the flag TensorFlow
            numbers sums of gradients anew, so ``AddN_3`` may be another sum there.
        gradients: Nodes of the plain step that compute gradients.
        forward: Gradient node to the node that it differentiates, where it has one.
        plain_devices: Node of the plain step to where it was placed.
    """

    devices: dict[str, tuple[str, ...]]
    by_name: dict[str, tuple[str, ...]]
    gradients: frozenset[str]
    forward: dict[str, str]
    plain_devices: dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a user may give to the engine.

    Attributes:
        timeline: TensorFlow's Chrome trace of the plain step.
        run_file: The same as ``capture`` writes it.
        graph: The graph of a bare GraphDef.
    """

    timeline: bytes
    run_file: bytes
    graph: tuple[GraphNode, ...]


@dataclasses.dataclass(frozen=True)
class Sample:
    """One model: what the engine sees and what it should find.

    Attributes:
        name: The model's name.
        inputs: What the engine sees.
        truth: What it should find.
    """

    name: str
    inputs: Inputs
    truth: Truth

    def timeline_run(self) -> Run:
        """Return the plain step as its timeline alone tells it."""
        return parse_run(self.inputs.timeline, source=self.name)

    def captured_run(self) -> Run:
        """Return the plain step as ``capture`` records it."""
        return parse_run(self.inputs.run_file, source=self.name)

    def graph_run(self) -> Run:
        """Return the plain step as its timeline and a bare GraphDef tell it."""
        nodes = {node.name: node for node in self.inputs.graph}
        return dataclasses.replace(self.timeline_run(), graph=Graph(nodes=nodes))


def save_sample(sample: Sample, folder: pathlib.Path) -> None:
    """Write ``sample`` into a subfolder of ``folder`` that bears its name."""
    target = folder / sample.name
    target.mkdir(parents=True, exist_ok=True)
    (target / _TIMELINE).write_bytes(sample.inputs.timeline)
    (target / _RUN).write_bytes(sample.inputs.run_file)
    (target / _GRAPH).write_bytes(msgspec.json.encode(sample.inputs.graph))
    (target / _TRUTH).write_bytes(msgspec.json.encode(sample.truth))


def load_samples(folder: pathlib.Path, names: frozenset[str]) -> list[Sample]:
    """Return the samples saved in ``folder``, by name.

    Args:
        folder: What :func:`save_sample` wrote to.
        names: Which ones; all when empty.
    """
    return [
        _load_sample(path.parent)
        for path in sorted(folder.glob(f"*/{_TRUTH}"))
        if not names or path.parent.name in names
    ]


def _load_sample(folder: pathlib.Path) -> Sample:
    graph = (folder / _GRAPH).read_bytes()
    return Sample(
        name=folder.name,
        inputs=Inputs(
            timeline=(folder / _TIMELINE).read_bytes(),
            run_file=(folder / _RUN).read_bytes(),
            graph=msgspec.json.decode(graph, type=tuple[GraphNode, ...]),
        ),
        truth=msgspec.json.decode((folder / _TRUTH).read_bytes(), type=Truth),
    )
