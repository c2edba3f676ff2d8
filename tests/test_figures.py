"""Pictures of runs: what is drawn where, and what it says."""

from __future__ import annotations

import html

import hypothesis
import hypothesis.strategies as st
import plotly.graph_objects as go
import polars as pl
import pytest

from placement_viz import analyze_run, load_run
from placement_viz.figures import (
    DARK,
    LIGHT,
    MARKS,
    OpClass,
    View,
    count_classes,
    timeline_caption,
    timeline_figure,
)
from placement_viz.figures.detail import merge_marks
from placement_viz.figures.rows import place_rows
from placement_viz.model import RowKind
from tests.builders import TRACES, op, run, trace
from tests.colours import contrast

STEP = (
    op("tower_0/mm", "GPU:0"),
    op("tower_1/mm", "GPU:1"),
    op("gradients/tower_1/mm_grad/MatMul", "GPU:0", start_us=20, inputs=["tower_1/mm"]),
    op("gradients/tower_0/mm_grad/MatMul", "GPU:0", start_us=40, inputs=["tower_0/mm"]),
)


def bars_of(figure):
    """Return class to bars."""
    return {bar.meta: bar for bar in figure.data}


def test_each_class_has_one_trace_and_each_op_one_bar():
    """A small run is drawn op by op, in the trace of the op's class."""
    figure = timeline_figure(analyze_run(run(*STEP)))

    bars = bars_of(figure)
    assert [bar.meta for bar in figure.data] == [each.value for each in OpClass]
    assert list(bars["forward"].customdata) == [0, 1]
    assert list(bars["misplaced"].customdata) == [2]
    assert list(bars["colocated"].customdata) == [3]


def test_misplaced_ops_differ_in_more_than_colour():
    """Only the misplaced, exempt and unknown classes are hatched, each its own way."""
    hatches = [MARKS[c].hatch for c in OpClass if MARKS[c].hatch]

    assert len(set(hatches)) == len(hatches) == 3
    assert MARKS[OpClass.MISPLACED].hatch


def test_time_is_in_seconds_from_the_first_op():
    """A bar begins at its op's start and is as long as the op."""
    bar = bars_of(timeline_figure(analyze_run(run(*STEP))))["misplaced"]

    assert list(bar.base) == pytest.approx([20e-6])
    assert list(bar.x) == pytest.approx([10e-6])


def test_hidden_classes_and_window_are_obeyed():
    """A view hides classes and sets the part of time that is shown."""
    view = View(hidden=frozenset({OpClass.FORWARD}), window_us=(5, 25))

    figure = timeline_figure(analyze_run(run(*STEP)), view)

    assert bars_of(figure)["forward"].visible is False
    assert list(figure.layout.xaxis.range) == pytest.approx([5e-6, 25e-6])


def test_devices_are_labelled_once_in_order():
    """The labels beside the lines are the devices, CPU before GPU, 2 before 10."""
    devices = ("GPU:10", "GPU:2", "CPU:0")
    figure = timeline_figure(analyze_run(run(*(op("a", on) for on in devices))))

    assert list(figure.layout.yaxis.ticktext) == [
        "<b>CPU:0</b>",
        "<b>GPU:2</b>",
        "<b>GPU:10</b>",
    ]


def test_tracer_rows_lie_under_the_device_they_name():
    """A stream row that names one device is drawn in that device's group."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    rows = place_rows(
        trace(op("a", "GPU:0"), op("kernel", "/device:GPU:0", **stream), op("b"))
    )

    assert [group.label for group in rows.groups] == ["CPU:0", "GPU:0"]
    assert rows.groups[1].bottom - rows.groups[1].top == 2


def test_mislabelled_tracer_rows_stand_alone():
    """Stream rows that all name GPU 0 of two are not drawn as GPU 0."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    rows = place_rows(
        trace(op("a", "GPU:0"), op("b", "GPU:1"), op("k", "/device:GPU:0", **stream))
    )

    assert [group.device for group in rows.groups][-1] == "/device:GPU:0"


@pytest.mark.parametrize("gpus", [["GPU:0"], ["GPU:0", "GPU:1"]])
def test_rows_of_the_host_belong_to_no_device(gpus):
    """Nor do they change what is known of the rows of the GPU tracer."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    host = {"row_kind": RowKind.OTHER, "row": "/host:CPU"}
    ops = [*(op("a", gpu) for gpu in gpus), op("k", "/device:GPU:0", **stream)]

    before = place_rows(trace(*ops)).groups
    rows = place_rows(trace(*ops, op("t", "/host:CPU", **host)))

    found = {group.device for group in rows.groups}
    assert found == {*(group.device for group in before), "/host:CPU"}


def test_names_are_never_markup():
    """Whatever a name holds, the tooltip shows it as text."""
    name = "<b>x</b>/<a href='https://example.org'>&lt;</a>"
    figure = timeline_figure(analyze_run(run(op(name, op_type="<i>T</i>"))))

    (hover,) = bars_of(figure)["forward"].hovertext
    assert "<a" not in hover
    assert "<i>" not in hover
    assert html.escape(name, quote=False) in hover


def test_long_names_are_cut_in_the_middle():
    """A tooltip keeps the beginning and the end of a very long name."""
    figure = timeline_figure(analyze_run(run(op("scope/" * 60 + "MatMul"))))

    (hover,) = bars_of(figure)["forward"].hovertext
    assert hover.startswith("<b>scope/")
    assert "…" in hover
    assert "MatMul</b>" in hover


def test_caption_says_when_ops_are_merged():
    """A picture of more ops than bars says so."""
    analysis = analyze_run(run(*(op(f"n{i}", start_us=i) for i in range(9))))

    assert "one block" not in timeline_caption(analysis)
    assert "one block" in timeline_caption(analysis, max_marks=8)


def test_counts_cover_all_ops():
    """Each op is of exactly one class."""
    analysis = analyze_run(run(*STEP))

    counts = count_classes(analysis.run, analysis.colocation)

    assert sum(counts.values()) == analysis.run.trace.ops.height
    assert counts[OpClass.MISPLACED] == 1


MARK_COLUMNS = {
    "op": pl.UInt32,
    "op_class": pl.String,
    "y": pl.Float64,
    "start_us": pl.Int64,
    "duration_us": pl.Int64,
}
spans = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1.5]),
        st.sampled_from(["forward", "misplaced"]),
        st.integers(0, 30),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=60,
)


def lines_of(drawn):
    """Return marks that follow each other on their lines."""
    ends, marks = {}, []
    for number, (y, op_class, gap, length) in enumerate(drawn):
        start = ends.get(y, 0) + gap
        ends[y] = start + length
        marks.append((number, op_class, y, start, length))
    return pl.DataFrame(marks, schema=MARK_COLUMNS, orient="row")


@hypothesis.given(spans, st.integers(1, 20))
def test_merging_loses_no_op_and_no_time(drawn, max_marks):
    """Blocks hold every op once, by class, and cover all of their time."""
    ops = lines_of(drawn)
    span = int((ops["start_us"] + ops["duration_us"]).max())

    marks = merge_marks(ops, (0, max(span, 1)), max(span, 1), max_marks)

    assert marks["n_ops"].sum() == ops.height
    by_class = ops.group_by("op_class", "y").agg(
        n=pl.len(), us=pl.col("duration_us").sum()
    )
    merged = marks.group_by("op_class", "y").agg(
        n=pl.col("n_ops").sum(), us=pl.col("busy_us").sum()
    )
    key = ["op_class", "y"]
    assert by_class.sort(key).rows() == merged.sort(key).rows()


def test_many_ops_become_few_bars():
    """A million-pixel run is drawn with a bounded number of bars."""
    names = ("forward", "misplaced")
    ops = pl.DataFrame(
        [(i, names[i % 2], 0.5, 2 * i, 2) for i in range(20_000)],
        schema=MARK_COLUMNS,
        orient="row",
    )

    marks = merge_marks(ops, (0, 40_000), 40_000, max_marks=500)

    assert marks.height <= 500
    assert marks["n_ops"].sum() == 20_000


def test_zoomed_part_is_drawn_op_by_op():
    """Inside a narrow window each op is a bar of its own again."""
    ops = pl.DataFrame(
        [(i, "forward", 0.5, 10 * i, 10) for i in range(5_000)],
        schema=MARK_COLUMNS,
        orient="row",
    )

    marks = merge_marks(ops, (1_000, 2_000), 50_000, max_marks=400)

    seen = marks.filter(pl.col("start_us").is_between(1_000, 1_990))
    assert seen.height == 100
    assert set(seen["n_ops"]) == {1}


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=lambda look: look.name)
@pytest.mark.parametrize("op_class", list(OpClass))
def test_fills_stand_out_from_what_they_lie_on(look, op_class):
    """Each class has a contrast of 3 to 1 with the surface and with the band."""
    for behind in (look.surface, look.band):
        assert contrast(look.fills[op_class], behind) >= 3


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=lambda look: look.name)
def test_text_can_be_read(look):
    """Text has a contrast of 4.5 to 1, muted text too."""
    for text in (look.text, look.muted):
        for behind in (look.surface, look.band):
            assert contrast(text, behind) >= 4.5


@pytest.mark.parametrize("name", ["gpu_stream_rows", "several_tasks", "zero_duration"])
def test_odd_traces_are_drawn(name):
    """Tracer rows, several tasks and ops of no length all find a place."""
    figure = timeline_figure(analyze_run(load_run(TRACES / f"{name}.json")))

    assert isinstance(figure, go.Figure)
    assert sum(len(bar.y) for bar in figure.data) > 0
