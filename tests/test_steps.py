"""Several steps in a run: joined from files, or found in one."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import parse_run
from placement_viz.model import Graph, Run
from placement_viz.parser.steps import Step, join_steps, split_steps
from tests.builders import CORPUS, event, graph, node, op, timeline, trace

ROWS = ("CPU:0", "GPU:0")
FIVE = CORPUS / "ikhlestov-gpu-timeline_03_merged_5_runs.json"


def run(*ops, origin_us=0, **fields):
    """Return a run of some ops that began at ``origin_us``."""
    found = trace(*ops)
    object.__setattr__(found, "origin_us", origin_us)
    return Run(source="x", format="tensorflow-timeline", trace=found, **fields)


def joined(*runs):
    """Return one run of several."""
    return join_steps([Step(f"step {i}", each) for i, each in enumerate(runs)], "all")


def appended(*starts, names=("a", "b", "c"), pids=(1, 2)):
    """Return a file into which a step was put for each start, on two devices."""
    return timeline(
        *(
            event(name, pid=pid, ts=start + 10 * number)
            for start in starts
            for pid in pids
            for number, name in enumerate(["_SOURCE", *names])
        ),
        rows=ROWS,
    )


def codes(found):
    """Return the codes of a trace's notices."""
    return [notice.code for notice in found.notices]


def test_steps_follow_each_other_by_row_name():
    """Numbers of rows are only valid in a file, so rows are joined by their names."""
    first = run(op("mm", on="CPU:0"), op("mm", on="GPU:0"))
    second = run(op("mm", on="GPU:0"), op("mm", on="CPU:0"))

    ops = joined(first, second).trace.ops

    assert ops.select("step", "device").rows() == [
        (step, device)
        for step, each in enumerate((first, second))
        for device in each.trace.ops["device"]
    ]


@pytest.mark.parametrize(
    ("later_us", "starts_at_us"),
    [
        (15, 15),  # a pause as short as a step is real
        (20, 20),
        (3_600_000_000, 10),  # an hour is nobody's step
        (5, 10),  # clocks that overlap: another machine's, or the same step again
        (-100, 10),
    ],
)
def test_time_that_nobody_traced_is_left_out(later_us, starts_at_us):
    """Only a pause that is no longer than the steps is kept."""
    first = run(op("mm", duration_us=10), origin_us=1000)
    second = run(op("mm", duration_us=10), origin_us=1000 + later_us)

    assert joined(first, second).trace.ops["start_us"].to_list() == [0, starts_at_us]


def test_graph_and_counts_come_along():
    """The first graph is the program's; what was skipped adds up."""
    found = graph(node("mm"))
    first, second = run(op("mm")), run(op("mm"), graph=found)
    for each, n in ((first, 2), (second, 3)):
        object.__setattr__(each.trace, "skipped", {"counter": n})

    both = joined(first, second)

    assert isinstance(both.graph, Graph)
    assert both.graph is found
    assert both.trace.skipped == {"counter": 5}
    assert both.source == "all"


def test_one_step_alone_is_itself():
    """There is nothing to say about it."""
    alone = run(op("mm"))

    assert joined(alone).trace is alone.trace


def test_steps_of_different_programs_are_noticed():
    """A folder may hold anything."""
    same, other = run(op("a"), op("b")), run(op("x"), op("y"))

    assert codes(joined(same, same).trace) == ["steps-joined"]
    assert codes(joined(same, other).trace) == ["steps-joined", "steps-differ"]


@given(st.lists(st.lists(st.integers(0, 50), min_size=1), min_size=2, max_size=5))
def test_nothing_is_lost_when_steps_are_joined(durations):
    """Every op is there once, in its step, with its duration and its distances."""
    runs = [
        run(*(op(f"op{i}", start_us=7 * i, duration_us=d) for i, d in enumerate(each)))
        for each in durations
    ]

    ops = joined(*runs).trace.ops

    for part, each in zip(ops.partition_by("step"), runs, strict=True):
        begin = part["start_us"].min()
        shifted = part.with_columns(
            pl.col("start_us") - begin, step=pl.lit(0, pl.Int32)
        )
        assert shifted.equals(each.trace.ops)
    assert ops["start_us"].is_sorted()


def test_steps_that_a_script_put_into_one_file_are_told_apart():
    """The op that begins a step ran three times on each device."""
    found = parse_run(appended(0, 1000, 2000), source="x").trace

    assert found.n_steps == 3
    assert codes(found) == ["steps-found"]
    assert found.ops.group_by("step").len()["len"].to_list() == [8, 8, 8]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (appended(0), "one step"),
        (appended(0, 5), "steps of two machines at the same time"),
        (
            timeline(
                event("_SOURCE", ts=0),
                *(event(f"once{i}", ts=5) for i in range(9)),
                event("_SOURCE", ts=50),
                event("loop", ts=60),
            ),
            "a function that is called again",
        ),
        (
            timeline(
                *(
                    event("_SOURCE", pid=pid, ts=ts)
                    for pid, ts in ((1, 0), (1, 9), (2, 3))
                ),
                rows=ROWS,
            ),
            "another number on each device",
        ),
    ],
)
def test_without_evidence_there_is_one_step(data, why):
    """Nothing is split on a guess."""
    found = parse_run(data, source="x").trace

    assert found.n_steps == 1, why
    assert codes(found) == []


def test_what_is_split_keeps_every_op():
    """Only times between the steps and their numbers change."""
    data = json.loads(appended(0, 1000, 10**9))
    found = parse_run(json.dumps(data).encode(), source="x").trace
    starts = found.ops.filter(pl.col("name") == "_SOURCE")["start_us"].to_list()

    assert found.ops.height == 24
    assert starts == [0, 0, 40, 40, 80, 80]
    assert split_steps(found) is not found


@pytest.mark.skipif(not FIVE.exists(), reason="the corpus is not here")
def test_real_steps_in_one_file_are_told_apart():
    """Five steps of the same fetches, the first with what only a first step does."""
    found = parse_run(FIVE.read_bytes(), source="x").trace

    assert found.ops["step"].value_counts().sort("step").rows() == [
        (0, 171),
        *((step, 169) for step in range(1, 5)),
    ]
