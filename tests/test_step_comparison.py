"""How the steps of two runs differ."""

import re

import pytest

from placement_viz import analyze_run, compare_runs, load_run
from placement_viz.dashboard.differences import steps_told
from placement_viz.reports.document import comparison_document
from placement_viz.reports.step_comparison import step_changes
from tests.builders import SAMPLES, op, run
from tests.test_dashboard import text_of


def sample(name):
    """Return the analysis of a sample run."""
    return analyze_run(load_run(SAMPLES / f"{name}.json", cache=False))


def test_bringing_gradients_home_moves_memory_and_bytes():
    """The sums of both steps stand beside each other, with the difference in bytes."""
    said = step_changes(compare_runs(sample("towers-auto"), sample("towers-colocated")))

    assert said["Transfers"] == (
        "19 → 19 tensors crossed, 15.7 MiB → 25.0 MiB (+9.4 MiB)."
    )
    assert said["Critical path"].startswith("computing 29.0 ms → 26.0 ms, waiting")
    assert said["Memory"] == (
        "at the peak CPU:0 38.7 MiB → 24.5 MiB, CPU:1 3.1 MiB → 16.9 MiB."
    )
    assert "Scaling" not in said


def test_what_leaves_a_device_is_about_what_was_foretold():
    """The peak without misplaced gradients is near that of the run without any."""
    before, after = sample("towers-auto"), sample("towers-colocated")

    foretold, *_ = before.step.memory.peaks
    happened, *_ = after.step.memory.peaks

    assert foretold.device == happened.device
    assert foretold.without_misplaced_bytes == pytest.approx(happened.n_bytes, rel=0.05)


def test_a_run_beside_itself_shows_no_difference():
    """Nothing crosses more, nothing waits longer."""
    one = sample("cluster-auto")

    said = step_changes(compare_runs(one, one))

    assert "(0 B)" in said["Transfers"]
    changes = re.findall(r"([\d.]+ \S+) → ([\d.]+ [^\s,.]+)", " ".join(said.values()))
    assert len(changes) >= 6
    assert all(before == after for before, after in changes)


def test_towers_beside_one_model_tell_what_they_gain():
    """With more towers in one run, the speed-up and what ate the rest are told."""
    said = step_changes(compare_runs(sample("batch_norm-auto"), sample("towers-auto")))

    assert "with 2 towers" in said["Scaling"]


def test_runs_that_record_little_are_compared_all_the_same():
    """No sizes, no memory: it is said or left out."""
    comparison = compare_runs(run(op("a")), run(op("a", on="CPU:1")))

    said = step_changes(comparison)

    assert said["Transfers"] == "0 → 0 tensors crossed, 0 B → 0 B (0 B)."
    assert "Memory" not in said
    assert comparison_document(comparison)["step"] == said
    assert said["Transfers"] in text_of(steps_told(comparison))
