"""The ways into capture: options of the command, and a program's own code."""

import functools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from placement_viz import RowKind, names
from placement_viz.capture import machine, run_file
from placement_viz.capture.section import lacks_kernels
from placement_viz.capture.steps import Schedule
from placement_viz.parser import load_run
from placement_viz.schema import DeviceRecord, GpuRecord
from tests.builders import ROOT, environment
from tests.scripts import EAGER, HEAD, TAPE_STEP, TWO_DEVICES, last_line

tensorflow = pytest.mark.tensorflow


# Where files go, and which runs are traced.


@pytest.mark.parametrize(
    ("out", "position", "count", "path"),
    [
        ("runs", 0, 1, "runs/timeline.json"),
        ("runs/a.json", 0, 1, "runs/a.json"),
        ("a.json.gz", 0, 1, "a.json.gz"),
        ("a.json.gz", 11, 12, "a-011.json.gz"),
        ("v1.5", 2, 3, "v1.5/timeline-002.json"),
    ],
)
def test_a_destination_is_a_folder_or_a_file(out, position, count, path):
    """A name that ends as run files do is the file, and steps are numbered."""
    destination = run_file.Destination.named(run_file.Path(out))

    assert str(destination.path(position, count)) == path


def test_a_folder_may_be_called_like_a_file(tmp_path):
    """What is a folder already stays one."""
    (tmp_path / "old.json").mkdir()

    destination = run_file.Destination.named(tmp_path / "old.json")

    assert destination.path() == tmp_path / "old.json" / "timeline.json"


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("first", [1, 4])
def test_a_schedule_is_its_arithmetic_series(first, every, count):
    """The traced runs are first, first + every, and so on."""
    schedule = Schedule(first, count, every)

    traced = [number for number in range(1, 40) if schedule.has(number)]

    assert traced == list(range(first, first + every * count, every))


def test_a_file_appears_whole(tmp_path, monkeypatch):
    """A crash while writing leaves the previous file, and no other."""
    path = tmp_path / "timeline.json"
    run_file.write_atomically(path, b"before")

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_file.Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        run_file.write_atomically(path, b"after")

    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


# The machine.


def driver_tool(folder, monkeypatch, text):
    """Put a program with the name of the driver's tool first on the path."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@tensorflow
def test_graphics_cards_are_recorded_with_their_links(tmp_path, monkeypatch):
    """A card on eight lanes of sixteen is told apart; what is not told is zero."""
    driver_tool(
        tmp_path,
        monkeypatch,
        "Tesla V100, 00000000:1E:00.0, 535.1, 1, 3, 8, 16\n"
        "GRID, 00000000:00:1F.0, 535.1, [N/A], [N/A], [Not Supported], 16",
    )

    assert machine.machine_record().gpus == (
        GpuRecord("Tesla V100", "00000000:1E:00.0", "535.1", 1, 3, 8, 16),
        GpuRecord("GRID", "00000000:00:1F.0", "535.1", 0, 0, 0, 16),
    )


@tensorflow
@pytest.mark.parametrize("text", ["", "No devices were found", "a,b", '"'])
def test_a_driver_without_cards_is_no_error(text, tmp_path, monkeypatch):
    """Whatever the tool says instead of cards, the record has none."""
    driver_tool(tmp_path, monkeypatch, text)

    record = machine.machine_record()

    assert record.gpus == ()
    assert record.cores == os.cpu_count()


@tensorflow
@pytest.mark.parametrize("n_cards", [1, 2, 3])
def test_devices_are_described_when_it_is_clear_which_is_which(n_cards, monkeypatch):
    """Two GPUs get the names of two cards, and none from any other number."""
    import tensorflow as tf

    details = {"device_name": "Tesla V100", "compute_capability": (7, 0)}
    cards = [object()] * n_cards
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: cards)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    names = ("/device:CPU:0", "/device:GPU:0", "/device:GPU:1")

    described = machine.described(tuple(map(DeviceRecord, names)))

    card = "Tesla V100, compute capability 7.0" if n_cards == 2 else ""
    assert [device.physical for device in described] == ["", card, card]
    assert [device.name for device in described] == list(names)


@tensorflow
@pytest.mark.parametrize(
    ("rows", "lacks"),
    [
        (["/device:GPU:0", "/device:CPU:0"], True),
        (["/device:GPU:0", "/gpu:0/stream:all"], False),
        (["/device:GPU:0", "/gpu:0 (Tesla)/context#0/stream#7:Kernel"], False),
        (["/device:CPU:0"], False),
    ],
)
def test_missing_kernels_are_noticed(rows, lacks):
    """GPUs that ran ops without a row of the tracer lack their kernels."""
    from tensorflow.core.framework import step_stats_pb2

    stats = step_stats_pb2.StepStats(dev_stats=[{"device": row} for row in rows])
    devices = [DeviceRecord("/device:CPU:0"), DeviceRecord("/device:GPU:0")]

    assert lacks_kernels(devices, stats) is lacks
    assert not lacks_kernels(devices[:1], stats)


# The command.


@pytest.mark.parametrize(
    "body",
    [
        "import sys; print(__name__, __package__, sys.argv, sys.path[0], __file__)",
        "from . import beside; from .beside import value; print(beside, value)",
        "from .. import nothing",
        "import sys; sys.exit(5)",
    ],
)
def test_a_module_runs_as_python_runs_it(body, script, python, capture, tmp_path):
    """Relative imports, ``sys.argv`` and the package are those of ``python -m``."""
    (tmp_path / "package").mkdir()
    script("", name="package/__init__.py")
    script("value = 5", name="package/beside.py")
    script(body, name="package/train.py")
    plain = python("-m", "package.train", "-x")

    result = capture("-m", "package.train", "-x")

    assert result.stdout == plain.stdout
    # Python shows the frames of its own that run a module, and so do we.
    assert last_line(plain) in result.stderr
    assert result.returncode == (plain.returncode or 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_as_it_ends_a_script(number, script, tmp_path):
    """Who waits for the process sees the same signal with and without capture."""
    name = script("import time; print('ready', flush=True); time.sleep(60)")
    codes = []
    for before in ((), ("-m", "placement_viz.capture")):
        with subprocess.Popen(
            [sys.executable, *before, name],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            process.stdout.readline()
            # Between the line and the sleep there is an instant.
            time.sleep(0.1)
            process.send_signal(number)
            codes.append(process.wait(timeout=30))

    assert codes == [-number, -number]


@pytest.mark.parametrize("pattern", ["(", "*"])
def test_a_pattern_must_be_one(pattern, capture, script):
    """What is no regular expression is a usage error that says where."""
    result = capture("--match", pattern, script(""))

    assert result.returncode == 2
    assert "expected a regular expression" in last_line(result)


@tensorflow
def test_callables_are_captured(script, capture, section):
    """What ``make_callable`` returned is a run like any other, fed or not."""
    name = script(
        HEAD,
        TWO_DEVICES,
        """
        fed = session.make_callable([loss, train], [x])
        other = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w * w))
        alone = session.make_callable(other, accept_options=True)
        for step in range(4): fed(ONES)
        for step in range(14): alone()
        """,
    )

    result = capture("--step", "4", name)
    assert result.returncode == 0
    assert section().feeds == ("x:0",)

    result = capture("--step", "9", name)
    assert result.returncode == 0
    assert section().fetches == ("GradientDescent",)
    assert section().step == 9
    assert len(section().step_times_us) == 5


@tensorflow
def test_several_runs_are_captured(script, capture, tmp_path):
    """--steps and --every choose the runs, and --match the fetches."""
    name = script(
        HEAD,
        TWO_DEVICES,
        """
        for step in range(6):
            session.run(train, {x: ONES})
            session.run(loss, {x: ONES})
        """,
    )
    options = ("--step", "2", "--steps", "2", "--every", "3", "--match", "^loss")

    result = capture(*options, name)

    assert result.returncode == 0
    runs = [load_run(str(tmp_path / f"timeline-{n}.json")) for n in ("000", "001")]
    assert [run.section.step for run in runs] == [2, 5]
    assert [run.section.fetches for run in runs] == [("loss:0",)] * 2
    assert result.stderr.count("captured run") == 2


@tensorflow
def test_fewer_runs_than_asked_for_are_all_kept(script, capture, tmp_path):
    """A script that ends before the last of several runs has the others."""
    name = script(
        HEAD, TWO_DEVICES, "for step in range(4): session.run(train, {x: ONES})"
    )

    result = capture("--step", "2", "--steps", "9", name)

    assert result.returncode == 0
    assert len(list(tmp_path.glob("timeline-*.json"))) == 3


@tensorflow
def test_the_session_is_described(script, capture, section):
    """Versions, configuration and cores are in the run file."""
    capture(script(HEAD, TWO_DEVICES, "session.run(train, {x: ONES})"))

    step = section()
    assert "allow_soft_placement: true" in step.config
    assert 'key: "CPU"' in step.config
    assert step.hardware.cores == os.cpu_count()
    assert step.hardware.system in step.machine


# A program's own code.

DOORS = """
import placement_viz as viz
import numpy as np

before = w.numpy()
viz.capture_function(train_step, ONES, out="function.json")
assert (w.numpy() == before).all()

with viz.capturing("block.json", step=2):
    for step in range(3): train_step(ONES)

import keras
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
batch = np.ones([8, 4], "float32")
model.fit(batch, batch[:, :1], batch_size=2, verbose=0,
          callbacks=[viz.keras_callback("callback.json")])

v1 = tf.compat.v1
hook = viz.session_run_hook("hook.json", step=2)
with tf.Graph().as_default():
    v = v1.get_variable("v", [3])
    loss = tf.reduce_sum(v * v)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for step in range(3): session.run(train)
    with v1.Session() as session:
        session.run(v.initializer)
        value, _ = viz.capture_step(session, [loss, train], out="step.json")
        assert value.shape == ()

try:
    with viz.capturing("nothing.json"):
        pass
except viz.CaptureError as error:
    print(error)
@tf.function
def pulling(iterator): return train_step(next(iterator))
iterator = iter(tf.data.Dataset.from_tensors(ONES))
try:
    viz.capture_function(pulling, iterator, out="nothing.json")
except viz.CaptureError as error:
    print(error)
next(iterator)
"""


@tensorflow
def test_code_can_capture_itself(script, python, tmp_path):
    """Each function for a program's own code writes the step that it promises."""
    result = python(script(EAGER, TAPE_STEP, DOORS))

    assert result.returncode == 0, result.stderr
    sections = {
        path.stem: load_run(str(path)).section for path in tmp_path.glob("*.json")
    }
    assert {name: (s.function, s.step) for name, s in sections.items()} == {
        "function": ("train_step", 1),
        "block": ("train_step", 2),
        "callback": ("multi_step_on_iterator", 3),
        "hook": ("", 2),
        "step": ("", 1),
    }
    for name, section in sections.items():
        assert any(node.forward for node in section.nodes), name
    nothing, iterator = result.stdout.splitlines()
    assert "expected a training step, found no Session.run call" in nothing
    assert "expected a batch, found an iterator" in iterator


# A cluster.


@tensorflow
def test_a_cluster_is_captured_through_its_master(tmp_path, python):
    """All tasks have their ops, and received tensors are not among them."""
    program = ROOT / "traces" / "programs" / "cluster.py"
    command = ("--out", str(tmp_path), str(program), "--steps", "4", "--batch", "4")

    result = python("-m", "placement_viz.capture", *command)

    assert result.returncode == 0, result.stderr
    run = load_run(str(tmp_path / "timeline.json"))
    tasks = ["ps:0/CPU:0", "worker:0/CPU:0", "worker:1/CPU:0"]
    short = functools.partial(names.short_device, among=run.trace.devices)
    assert sorted(map(short, run.trace.devices)) == tasks
    received = run.trace.ops.filter(run.trace.ops["row_kind"] == RowKind.RECEIVE)
    assert set(received["op_type"]) == {"RecvTensor"}
    assert "RecvTensor" not in set(run.trace.executed["op_type"])
    copied = {
        (name, short(source), short(target), n_bytes)
        for name, source, target, n_bytes in run.copies.select(
            "name", "source", "device", "n_bytes"
        ).iter_rows()
    }
    weights = "tower_1/dense_0/ReadVariableOp"
    assert (weights, "ps:0/CPU:0", "worker:1/CPU:0", 256 * 512 * 4) in copied
    assert len(copied) == received.height
    assert "on 3 devices" in last_line(result)
    assert json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
