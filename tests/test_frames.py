"""What timelines are drawn into: the lines of each device, without the ops."""

from __future__ import annotations

import pytest

from placement_viz import analyze_run, compare_runs, load_run
from placement_viz.analysis import survey_run
from placement_viz.dashboard.frames import comparison_frame, run_frame
from placement_viz.dashboard.windows import CLASSES
from placement_viz.figures import MARKS, place_rows
from placement_viz.model import RowKind
from tests.builders import TRACES, device, op, run


def frame_of(found):
    """Return the frame of a run."""
    analysis = analyze_run(found)
    return run_frame(analysis, place_rows(analysis.run.trace))


def compared(before, after):
    """Return the frame of two runs."""
    comparison = compare_runs(before, after)
    sides = comparison.baseline, comparison.candidate
    first, second = (place_rows(side.run.trace) for side in sides)
    return comparison_frame(comparison, (first, second))


def test_each_line_belongs_to_one_device():
    """Devices follow each other, and their lines are numbered from the top."""
    (lines,) = frame_of(
        run(
            *(op(f"a{i}", "CPU:0", lane=i) for i in range(3)),
            *(op(f"b{i}", "GPU:0", lane=i) for i in range(2)),
        )
    ).runs

    assert lines.title == ""
    assert [
        (group.device, group.name, group.first, group.last) for group in lines.groups
    ] == [(device("CPU:0"), "CPU:0", 0, 2), (device("GPU:0"), "GPU:0", 3, 4)]


def test_lines_of_a_device_carry_its_name():
    """The name stands beside the lines that prove a placement, rows beside theirs."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    (lines,) = frame_of(
        run(
            op("a", "GPU:0"),
            op("b", "GPU:0", lane=1),
            op("k", "/device:GPU:0", **stream),
        )
    ).runs

    (group,) = lines.groups
    assert [
        (label.device, label.row, label.first, label.last) for label in group.labels
    ] == [("GPU:0", "", 0, 1), ("", "stream:all", 2, 2)]


@pytest.mark.parametrize("name", ["gpu_stream_rows", "several_tasks", "zero_duration"])
def test_every_device_of_odd_traces_has_a_label(name):
    """Whatever rows there are, each group has something to be called by."""
    analysis = analyze_run(load_run(TRACES / f"{name}.json"))
    rows = place_rows(analysis.run.trace)
    (lines,) = run_frame(analysis, rows).runs

    assert all(group.labels for group in lines.groups)
    assert lines.groups[-1].last == rows.lines.height - 1


def test_two_runs_share_an_axis_that_is_long_enough_for_both():
    """The baseline comes first, and the longer run decides."""
    frame = compared(run(op("a")), run(op("a"), op("late", start_us=500)))

    start_us, end_us = frame.whole_us
    assert start_us < 0
    assert end_us > 500
    assert [lines.title.split(":")[0] for lines in frame.runs] == ["Before", "After"]


def test_a_frame_tells_whether_ops_are_judged():
    """What is looked at before it is judged gets other colours afterwards."""
    found = run(op("a"))
    rows = place_rows(found.trace)

    assert not run_frame(survey_run(found), rows).is_judged
    assert run_frame(analyze_run(found), rows).is_judged


def test_a_class_is_found_by_its_number():
    """Segments name classes by number: the frame lists them in that order."""
    frame = frame_of(run(op("a")))

    assert frame.classes == tuple(each.value for each in CLASSES)
    assert frame.hatches == tuple(MARKS[each].hatch for each in CLASSES)
