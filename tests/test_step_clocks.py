import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz.analysis.colocation import GRADIENTS_SCHEMA, Colocation
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.clocks import CLOCKS_SCHEMA, compare_clocks
from placement_viz.analysis.step.critical_path import find_critical_path
from placement_viz.reports.step_critical_path import (
    clock_sentences,
    critical_path_sentences,
)
from tests.builders import op, run

NO_GRADIENTS = Colocation(pl.DataFrame(schema=GRADIENTS_SCHEMA))
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKERS = [f"/job:worker/replica:0/task:{n}/device:CPU:0" for n in range(4)]
BOUNDS = ("lower_us", "upper_us", "offset_us", "shift_us")

#: The worker's clock is 80 µs behind at least, and 160 µs at most.
BEHIND = (
    op("v", PS, start_us=90),
    op("mm", WORKERS[0], start_us=20, inputs=["v"]),
    op("grad", WORKERS[0], start_us=40, inputs=["mm"]),
    op("apply", PS, start_us=210, inputs=["grad"]),
)


def flow(*ops):
    """Return the flow of a run of ``ops``."""
    return Flow(run(*ops), NO_GRADIENTS)


def bounds(*ops):
    """Return what is known of the clocks of all tasks but the first."""
    return compare_clocks(flow(*ops)).tasks.select(BOUNDS).rows()[1:]


def test_transfers_both_ways_bound_the_offset():
    """What came too early bounds it from below, what was sent back from above."""
    clocks = compare_clocks(flow(*BEHIND))

    assert clocks.tasks.schema == CLOCKS_SCHEMA
    first, second = clocks.tasks.rows(named=True)
    assert first == {
        "task": "/job:ps/replica:0/task:0",
        "lower_us": 0,
        "upper_us": 0,
        "offset_us": 0,
        "shift_us": 0,
        "edges": 2,
        "negative_waits": 1,
        "least_wait_us": -80,
    }
    assert second == {
        **first,
        "task": "/job:worker/replica:0/task:0",
        "lower_us": 80,
        "upper_us": 160,
        "offset_us": 120,
        "shift_us": 120,
    }
    assert clocks.negative_waits == 1


def test_the_path_is_found_with_the_times_put_right():
    """Waits on the path are those between clocks that agree, and the picture stays."""
    of = flow(*BEHIND)
    found = find_critical_path(of)

    names = of.ops["name"].gather(found.path["op"]).to_list()
    assert names == ["v", "mm", "grad", "apply"]
    assert found.path["start_us"].to_list() == [90, 140, 160, 210]
    assert found.path["gap_us"].to_list() == [0, 40, 10, 40]
    assert found.steps["backward"].to_list() == [0]
    # The ops themselves stay where the trace has them.
    starts = of.ops["start_us"].gather(found.path["op"])
    assert starts.to_list() == [90, 20, 40, 210]


def test_the_sentence_tells_the_offset_and_what_shows_it():
    """Which clock is behind, by how much, and by how many transfers that is known."""
    of = flow(*BEHIND)

    assert critical_path_sentences(find_critical_path(of), of)[-1] == (
        "The clock of worker:0 is about 120 µs behind that of ps:0 (between 80 µs and "
        "160 µs, by 2 transfers, 1 of them up to 80 µs too early)."
    )


def test_a_clock_that_is_ahead_is_told_as_well():
    """The other way round, the times of the second task are made less."""
    ops = (
        op("v", PS, start_us=0),
        op("mm", WORKERS[0], start_us=100, inputs=["v"]),
        op("apply", PS, start_us=60, inputs=["mm"]),
    )

    assert bounds(*ops) == [(-90, -50, -70, -70)]
    (sentence,) = clock_sentences(compare_clocks(flow(*ops)))
    assert "about 70 µs ahead of that of ps:0 (between 50 µs and 90 µs" in sentence


def test_clocks_are_left_alone_while_no_wait_is_negative():
    """That an offset is possible is no reason to correct anything."""
    ops = (
        op("v", PS, start_us=0),
        op("mm", WORKERS[0], start_us=30, inputs=["v"]),
        op("apply", PS, start_us=100, inputs=["mm"]),
    )

    assert bounds(*ops) == [(-20, 60, 20, 0)]
    assert clock_sentences(compare_clocks(flow(*ops))) == [
        "Nothing shows that the clock of worker:0 differs from that of ps:0."
    ]


def test_a_bound_from_one_side_is_no_estimate():
    """Where nothing is sent back, only the least that is needed is put right."""
    ops = (
        op("v", PS, start_us=90),
        op("mm", WORKERS[0], start_us=20, inputs=["v"]),
    )

    assert bounds(*ops) == [(80, None, None, 80)]
    (sentence,) = clock_sentences(compare_clocks(flow(*ops)))
    assert "is at least 80 µs behind that of ps:0 (by 1 transfer, 1 " in sentence


def test_a_task_is_compared_through_others():
    """Bounds add up along the tasks that passed something on."""
    ops = (
        op("a", PS, start_us=0),
        op("b", WORKERS[0], start_us=30, inputs=["a"]),
        op("c", WORKERS[1], start_us=45, inputs=["b"]),
        op("d", WORKERS[0], start_us=80, inputs=["c"]),
        op("e", PS, start_us=110, inputs=["d"]),
    )

    first, second = bounds(*ops)
    assert first[:2] == (-20, 20)
    assert second[:2] == (-25, 45)


def test_edges_that_contradict_tell_nothing():
    """What no offset explains is no offset, and spoils nothing that others tell."""
    ops = (
        op("v", PS, start_us=100),
        op("mm", WORKERS[0], start_us=20, inputs=["v"]),
        op("late", WORKERS[0], start_us=100),
        op("early", PS, start_us=20, inputs=["late"]),
        op("mm1", WORKERS[1], start_us=50, inputs=["v"]),
        op("apply", PS, start_us=150, inputs=["mm1"]),
    )

    assert bounds(*ops) == [(None, None, None, 0), (60, 90, 75, 75)]


def test_a_circle_of_tasks_that_contradicts_tells_nothing():
    """Each pair may agree with some offset where all three agree with none."""
    ops = (
        op("a", PS, start_us=100),
        op("b", WORKERS[0], start_us=90, inputs=["a"]),
        op("c", WORKERS[1], start_us=80, inputs=["b"]),
        op("d", PS, start_us=70, inputs=["c"]),
    )

    assert bounds(*ops) == [(None, None, None, 0), (None, None, None, 0)]


def test_only_what_ran_once_tells_of_a_clock():
    """Which turn of a loop was taken is known by the clock alone; a merge waits not."""
    ops = (
        op("turn", PS, start_us=0),
        op("turn", PS, start_us=20),
        op("mm", WORKERS[0], start_us=25, inputs=["turn"]),
        op("once", PS, start_us=40),
        op("either", WORKERS[0], op_type="Merge", start_us=30, inputs=["once"]),
    )

    assert bounds(*ops) == [(None, None, None, 0)]
    assert clock_sentences(compare_clocks(flow(*ops))) == [
        "What was passed on does not tell how the clock of worker:0 and ps:0 differ."
    ]


def test_a_single_task_has_no_clock_to_compare():
    """Devices of one task share a clock."""
    clocks = compare_clocks(flow(op("a", "GPU:0"), op("b", "GPU:1", inputs=["a"])))

    assert clocks.tasks.select(BOUNDS).rows() == [(0, 0, 0, 0)]
    assert clock_sentences(clocks) == []


@st.composite
def clusters(draw):
    """Return ops of several tasks, each with its clock, and the offsets."""
    devices = [PS, *WORKERS][: draw(st.integers(2, 4))]
    offsets = [0, *(draw(st.integers(-50, 50)) for _ in devices[1:])]
    ends, ops = [], []
    for at in range(draw(st.integers(2, 10))):
        task = draw(st.integers(0, len(devices) - 1))
        inputs = draw(st.sets(st.integers(0, at - 1), max_size=2)) if at else set()
        free = max((ends[each] for each in inputs), default=0)
        start = free + draw(st.integers(0, 30))
        length = draw(st.integers(1, 10))
        ends.append(start + length)
        ops.append(
            op(
                f"op{at}",
                devices[task],
                start_us=1000 + start - offsets[task],
                duration_us=length,
                inputs=[f"op{each}" for each in sorted(inputs)],
            )
        )
    return ops, dict(zip(devices, offsets, strict=True))


@settings(deadline=None)
@given(clusters())
def test_bounds_hold_the_true_offset_and_the_middle_puts_all_right(cluster):
    """Whatever the clocks say, what is bounded is bounded rightly."""
    ops, offsets = cluster
    clocks = compare_clocks(flow(*ops))

    used = [device for device in offsets if device in clocks.task_of]
    reference = offsets[used[0]]
    for device, task in zip(used, clocks.tasks.rows(named=True), strict=True):
        offset = offsets[device] - reference
        lower, upper = task["lower_us"], task["upper_us"]
        assert (-np.inf if lower is None else lower) <= offset
        assert offset <= (np.inf if upper is None else upper)
    if not clocks.tasks["offset_us"].has_nulls():
        assert (clocks.tasks["shift_us"] != 0).any() <= clocks.negative_waits
        found = find_critical_path(flow(*ops))
        assert found.steps["backward"].to_list() == [0]
