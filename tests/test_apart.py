"""A run judged by another process is judged as in this one."""

import dataclasses

import pytest

from placement_viz import analyze_run, load_run
from placement_viz.analysis import apart
from tests.builders import ROOT, TRACES, op, run

ONE = TRACES / "one_misplaced_gradient.json"
#: With a graph.
TOWERS = ROOT / "traces" / "towers-auto.json"
#: With an op that is left out, as its clock is broken.
REPAIRED = run(op("a"), op("b"), op("c", start_us=10**12))


@pytest.fixture
def all_apart(monkeypatch):
    """Judge no run in this process, or fail."""
    monkeypatch.setattr(apart, "LARGE_OPS", 0)
    monkeypatch.setattr(apart, "analyze_run", None)


@pytest.mark.parametrize(
    "found",
    [load_run(ONE), load_run(TOWERS), REPAIRED],
    ids=["plain", "graph", "clock"],
)
@pytest.mark.usefixtures("all_apart")
def test_another_process_judges_alike(found):
    """Verdicts, fixes and repairs are the same."""
    judged, expected = apart.judge_run(found), analyze_run(found)

    for field in ("usage", "fixes", "notices", "is_judged"):
        assert getattr(judged, field) == getattr(expected, field)
    assert judged.run.trace.ops.equals(expected.run.trace.ops)
    for field in dataclasses.fields(judged.colocation):
        if field.name != "gradients":
            assert getattr(judged.colocation, field.name) == getattr(
                expected.colocation, field.name
            )
    assert judged.colocation.gradients.equals(expected.colocation.gradients)


def test_without_another_process_this_one_judges(monkeypatch):
    """A process that gives no answer costs time, and no verdict."""
    monkeypatch.setattr(apart, "LARGE_OPS", 0)
    monkeypatch.setattr(apart, "_PROGRAM", "no_such_module:judge")

    assert apart.judge_run(load_run(ONE)).is_judged
