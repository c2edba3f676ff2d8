"""What the step adds to the timeline: the critical path and what is counted."""

import dataclasses

import polars as pl
import pytest

from placement_viz import analyze_run, load_run
from placement_viz.analysis import survey_run
from placement_viz.dashboard import step_lines
from placement_viz.dashboard.pictures import Picture
from placement_viz.schema import RunSection
from tests.builders import SAMPLES, op, run

#: Two devices; c takes from a, and d from c, each from the other device.
OPS = (
    op("a", "GPU:0", start_us=0, duration_us=10),
    op("b", "GPU:1", start_us=0, duration_us=4),
    op("c", "GPU:1", start_us=15, duration_us=20, inputs=["a/_1"]),
    op("d", "GPU:0", start_us=37, duration_us=8, inputs=["c/_2"]),
)


def picture(*ops, sizes=None):
    """Return the picture of a judged run of ``ops``."""
    section = RunSection(schema=1, tensor_bytes=sizes or {})
    return Picture(analyze_run(dataclasses.replace(run(*ops), section=section)))


def path(drawn, start_us, end_us):
    """Return the names of the ops of the path in a window."""
    found = drawn.step.path(start_us, end_us, drawn.ops["line"])
    return drawn.ops["name"].gather(found["op"]).to_list()


def test_the_path_goes_through_its_ops_from_line_to_line():
    """Each op has its line and its times, and whether the path came from afar."""
    drawn = picture(*OPS)

    found = drawn.step.path(0, 45, drawn.ops["line"])

    columns = found.select("op", "line", "start_us", "end_us", "is_from_afar")
    assert columns.rows() == [
        (0, 0, 0, 10, None),
        (2, 1, 15, 35, True),
        (3, 0, 37, 45, True),
    ]


def test_the_path_leaves_a_window_on_both_sides():
    """Beside the ops in a window there are the one before and the one after."""
    drawn = picture(*OPS)

    assert path(drawn, 12, 14) == []
    assert path(drawn, 40, 50) == ["c", "d"]
    assert path(drawn, 16, 17) == ["a", "c", "d"]


def test_of_a_long_path_the_longest_ops_are_drawn(monkeypatch):
    """A picture of many ops goes through those that take longest, in order."""
    monkeypatch.setattr(step_lines, "_MOST_ON_PATH", 2)

    assert path(picture(*OPS), 0, 45) == ["a", "c"]


def test_tensors_are_on_their_way_until_they_are_taken():
    """A tensor is on its way from the end of its op to the first that takes it."""
    drawn = picture(*OPS)

    (flights,) = drawn.step.counters(0, 40, 4)

    assert (flights["label"], flights["unit"], flights["most"]) == (
        "on the way",
        "tensors",
        1,
    )
    # From 10 to 15 and from 35 to 37, in parts of ten microseconds.
    assert flights["values"] == [0, 0.5, 0, 0.2]


def test_what_a_device_holds_is_counted_where_sizes_are_known():
    """Each device has a curve of its own, with the most of the whole run."""
    drawn = picture(*OPS, sizes={"a:0": 100, "c:0": 50})

    counters = {each["label"]: each for each in drawn.step.counters(0, 45, 3)}

    assert counters["held by GPU:0"]["most"] == 100
    assert counters["held by GPU:0"]["values"] == [100, 0, 50]
    assert counters["held by GPU:1"]["values"] == [0, 150, 150]


def test_there_is_nothing_before_ops_are_judged():
    """A run that is still judged has no path and no counters."""
    drawn = Picture(survey_run(run(*OPS)))

    assert path(drawn, 0, 45) == []
    assert drawn.step.counters(0, 45, 3) == []


@pytest.mark.parametrize("path_", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_the_path_of_a_sample_is_the_one_that_was_found(path_):
    """The whole window has the whole path."""
    analysis = analyze_run(load_run(path_, cache=False))
    drawn = Picture(analysis)

    found = drawn.step.path(0, analysis.run.trace.span_us, drawn.ops["line"])

    critical = analysis.step.critical_path.path
    assert found["op"].to_list() == critical["op"].to_list()
    assert found.filter(pl.col("line").is_null()).is_empty()
