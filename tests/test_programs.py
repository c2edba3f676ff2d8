import json
import re
import subprocess
import sys

import numpy as np
import pytest

from placement_viz import analyze_run, names
from placement_viz.parser import load_run
from tests.builders import ROOT, environment

pytestmark = pytest.mark.tensorflow

PROGRAMS = ROOT / "traces" / "programs"
PLACEMENTS = ("auto", "manual", "colocated")
SMALL = {
    "batch_norm_gradients.py": ("--samples", "50", "--steps", "3"),
    "towers.py": ("--batch", "4", "--steps", "3"),
}
#: Names of the files in ``traces/`` whose programs place gradients themselves.
SAMPLES = [f"{program}-{p}" for program in ("batch_norm", "towers") for p in PLACEMENTS]
#: Names of those that ``capture`` places, to the function that was replayed.
CAPTURED = {
    "function-auto": "step",
    "function-colocated": "step",
    "keras-auto": "multi_step_on_iterator",
    "keras-colocated": "multi_step_on_iterator",
    "mirrored-auto": "step",
    "cluster-auto": "",
}


def run(*command):
    """Run Python in the repository and return its standard output."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def placed(section):
    """Return node to short device."""
    return {
        node: names.short_device(device)
        for device, nodes in section.placed.items()
        for node in nodes
    }


@pytest.mark.parametrize("program", SMALL)
def test_placement_changes_no_result(program, tmp_path):
    """A program prints the same numbers however its gradients are placed."""
    command = (str(PROGRAMS / program), *SMALL[program], "--placement")
    capture = ("-m", "placement_viz.capture", "--out", str(tmp_path))

    alone = {run(*command, placement) for placement in ("manual", "colocated")}
    captured = run(*capture, *command, "auto")

    assert alone == {captured}
    assert captured.count("\n") == 3


def test_one_device_learns_what_the_towers_learn():
    """A serial training sees the same images and has the same losses."""
    command = (str(PROGRAMS / "towers.py"), *SMALL["towers.py"])

    assert run(*command, "--serial") == run(*command)


def test_other_images_can_be_learned(tmp_path):
    """Arrays in the layout of mnist.npz take the place of the digits."""
    images = np.random.default_rng(0).integers(256, size=(30, 28, 28), dtype=np.uint8)
    path = tmp_path / "images.npz"
    np.savez(path, x_train=images, y_train=np.arange(30) % 10)

    printed = run(str(PROGRAMS / "towers.py"), *SMALL["towers.py"], "--data", str(path))

    assert re.fullmatch(r"(step \d: loss \d+\.\d{4}\n){3}", printed)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_shows_its_placement(sample):
    """Unconstrained gradients are all on CPU:0, the others on both devices."""
    run_file = load_run(str(ROOT / "traces" / f"{sample}.json"))
    where = placed(run_file.section)
    devices = {
        where[node.name]
        for node in run_file.section.nodes
        if node.forward
        and not node.colocate
        and node.name in where
        # TensorFlow keeps what only reads a shape with its input.
        and node.op not in {"Shape", "ShapeN"}
    }

    if sample.endswith("auto"):
        assert devices == {"CPU:0"}
    elif sample.endswith("manual"):
        assert devices == {"CPU:0", "CPU:1"}
    assert set(where.values()) == {"CPU:0", "CPU:1"}


@pytest.mark.parametrize("program", ["batch_norm", "towers"])
def test_colocated_gradients_are_where_their_forward_op_is(program):
    """The sample that TensorFlow colocated is the answer to the unconstrained one."""
    section = load_run(str(ROOT / "traces" / f"{program}-colocated.json")).section
    where = placed(section)
    pairs = {
        (where[node.name], where[node.forward])
        for node in section.nodes
        if node.forward in where and node.name in where
    }

    assert pairs == {("CPU:0", "CPU:0"), ("CPU:1", "CPU:1")}


@pytest.mark.parametrize("sample", CAPTURED)
def test_a_sample_of_each_kind_is_judged(sample):
    """Misplaced is what a tape left on the first device, and nothing else."""
    run_file = load_run(str(ROOT / "traces" / f"{sample}.json"))
    colocation = analyze_run(run_file).colocation

    assert run_file.section.function == CAPTURED[sample]
    assert len(run_file.section.step_times_us) == 10
    assert colocation.summary.colocated_ops > 10
    assert colocation.summary.unknown_ops == 0
    is_left_alone = sample in {"function-auto", "keras-auto"}
    causes = ["tape-scope"] if is_left_alone else []
    assert colocation.misplaced["cause"].unique().to_list() == causes


def test_samples_hold_no_path_of_the_machine():
    """A sample names its program relative to the repository."""
    for sample in (*SAMPLES, *CAPTURED):
        text = (ROOT / "traces" / f"{sample}.json").read_text()
        section = json.loads(text)["placement_viz"]

        assert section["command"][0].startswith("traces/programs/")
        assert all("/" not in source for source in section["sources"])
        assert str(ROOT) not in text
