"""Both builds of a model, run and traced."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Collection, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as session_module
from tensorflow.python.client import timeline
from tensorflow.python.ops import gradients_util

from placement_viz.capture.gradients import GradientNotes
from placement_viz.capture.graph_gradients import GraphGradients
from placement_viz.capture.patches import Patches
from placement_viz.capture.program import Program
from placement_viz.capture.run_file import run_file_bytes
from placement_viz.capture.section import run_section
from placement_viz.capture.sessions import SessionWatch
from placement_viz.capture.steps import Schedule, StepSelection
from placement_viz.capture.tracing import TracedStep
from placement_viz.parser.graph_files import load_graph
from placement_viz.schema import GraphNode
from tests.oracle.knowledge import BuildNotes, noting_gradients
from tests.oracle.models import Model
from tests.oracle.samples import Inputs, Sample, Truth
from tests.oracle.twins import Twins

__all__ = ["record_pair", "record_sample"]

tf1 = tf.compat.v1

_N_DEVICES = 4
_TRACED_RUN = 3
_TRANSFERS = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})
_PROGRAM = Program(str(pathlib.Path(__file__).with_name("__main__.py")))


@dataclasses.dataclass(frozen=True, eq=False)
class _Traced:
    """One build of a model after its traced step.

    Attributes:
        step: What ``capture`` knows of the step.
        metadata: The step's RunMetadata.
        notes: What the oracle noted while the model was built.
        capture: What ``capture`` noted.
    """

    step: TracedStep
    metadata: Any
    notes: BuildNotes
    capture: GradientNotes

    def placed(self) -> dict[str, tuple[str, ...]]:
        """Return node to the devices that hold it, sorted."""
        found: dict[str, set[str]] = {}
        for partition in self.metadata.partition_graphs:
            for node in partition.node:
                if node.op not in _TRANSFERS:
                    found.setdefault(node.name, set()).add(node.device)
        return {name: tuple(sorted(devices)) for name, devices in found.items()}


def record_sample(name: str, model: Model) -> Sample:
    """Return what the engine sees of ``model`` and what it should find."""
    return record_pair(name, model)[0]


def record_pair(name: str, model: Model) -> tuple[Sample, bytes]:
    """Return the sample of ``model`` and the run file of its colocated step."""
    plain = _trace(model, colocate=False)
    colocated = _trace(model, colocate=True)
    sample = Sample(name, inputs=_inputs(plain), truth=_truth(plain, colocated))
    return sample, _inputs(colocated).run_file


def _trace(model: Model, *, colocate: bool) -> _Traced:
    graph = tf.Graph()
    notes = BuildNotes(graph)
    capture = GradientNotes()
    selection = StepSelection(Schedule(_TRACED_RUN), on_complete=lambda: None)
    watch = SessionWatch(capture, selection)
    with _as_captured(capture, watch), _control_flow(model), graph.as_default():
        tf1.set_random_seed(1)
        with noting_gradients(notes, colocate_tape=colocate):
            step = model.build(colocate)
        start = tf1.global_variables_initializer()
        config = tf1.ConfigProto(
            device_count={"CPU": _N_DEVICES},
            # Colocation may tie together ops that ask for different devices.
            allow_soft_placement=True,
        )
        with tf1.Session(graph=graph, config=config) as session:
            session.run(start)
            for _ in range(_TRACED_RUN):
                session.run(step.fetches, step.feeds)
            selection.stop()
            kept = selection.kept
            traced = kept[-1] if kept else _trace_unrecognised(session, step)
    metadata = config_pb2.RunMetadata.FromString(traced.metadata)
    return _Traced(traced, metadata, notes, capture)


def _trace_unrecognised(session: Any, step: Any) -> TracedStep:
    """Return one more run of a step that ``capture`` does not know for training."""
    options = config_pb2.RunOptions(
        trace_level=config_pb2.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    metadata = config_pb2.RunMetadata()
    session.run(step.fetches, step.feeds, options, metadata)
    return TracedStep(
        graph=session.graph,
        metadata=metadata.SerializeToString(),
        number=_TRACED_RUN + 1,
        fetches=(),
        feeds=(),
        devices=(),
        soft_placement=False,
        config="",
        duration_us=0,
    )


@contextlib.contextmanager
def _as_captured(capture: GradientNotes, watch: SessionWatch) -> Iterator[None]:
    """Hook TensorFlow as ``capture`` does, and let go of it at the end."""
    patches = Patches()
    try:
        GraphGradients(capture).attach(gradients_util, patches)
        watch.attach(session_module, patches)
        yield
    finally:
        patches.undo()


@contextlib.contextmanager
def _control_flow(model: Model) -> Iterator[None]:
    was_v2 = tf1.control_flow_v2_enabled()
    switch = {True: tf1.enable_control_flow_v2, False: tf1.disable_control_flow_v2}
    switch[model.control_flow_v2]()
    try:
        yield
    finally:
        switch[was_v2]()


def _inputs(plain: _Traced) -> Inputs:
    section = run_section(plain.step, plain.metadata, plain.capture, _PROGRAM)
    step_stats = plain.metadata.step_stats
    chrome = timeline.Timeline(step_stats).generate_chrome_trace_format()
    return Inputs(
        timeline=chrome.encode(),
        run_file=run_file_bytes(step_stats, section),
        graph=_bare_graph(plain.step.graph),
    )


def _bare_graph(graph: Any) -> tuple[GraphNode, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        return tuple(load_graph(path).nodes.values())


def _truth(plain: _Traced, colocated: _Traced) -> Truth:
    here, there = plain.placed(), colocated.placed()
    twins = Twins(plain.notes, colocated.notes, there)
    gradients = frozenset(node for node in here if plain.notes.is_gradient(node))
    return Truth(
        devices={
            node: there[twin]
            for node in here
            if (twin := twins.twin_of(node)) is not None
        },
        by_name={
            node: there[node]
            for node in here
            if node in there and not twins.is_unsettled(node)
        },
        gradients=gradients,
        forward=dict(_forward(here, plain.notes)),
        plain_devices=here,
    )


def _forward(here: Collection[str], notes: BuildNotes) -> Iterator[tuple[str, str]]:
    """Yield gradient node and its forward op, for the nodes ``here``."""
    for node in here:
        built = notes.built_name(node)
        if built in notes.gradients and built in notes.forward:
            yield node, notes.forward[built]
        elif built in notes.forward:
            # Inlined from the same function; or from another, if not found there.
            twin = node.removesuffix("_0").replace(built, notes.forward[built])
            yield node, twin if twin in here else notes.forward[built]
