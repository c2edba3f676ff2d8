import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import analyze_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.devices import find_device_time
from placement_viz.analysis.step.idle import MOST_GAPS
from placement_viz.model import RowKind
from tests.builders import device, op, run


def flow(*ops):
    """Return the flow of a judged run of ``ops``."""
    analysis = analyze_run(run(*ops))
    return Flow(analysis.run, analysis.colocation)


def gaps(on, *ops):
    """Return the gaps of a device of a run, in order of time."""
    found = find_device_time(flow(*ops)).gaps
    return found.filter(pl.col("device") == device(on)).sort("start_us")


def reasons(on, *ops):
    """Return what a device spent its idle time for: reason to time."""
    idle = find_device_time(flow(*ops)).idle
    parts = idle.filter(pl.col("device") == device(on)).group_by("reason")
    return dict(parts.agg(pl.col("idle_us").sum()).iter_rows())


def test_a_gap_names_what_was_before_and_after_and_what_was_waited_for():
    """CPU:1 idles from 5 to 33, and what ends that waited for b, of all inputs."""
    (gap, rest) = gaps(
        "CPU:1",
        op("x", on="CPU:1", start_us=0, duration_us=5),
        op("a", start_us=0, duration_us=10),
        op("b", start_us=10, duration_us=20),
        op("c", on="CPU:1", start_us=33, duration_us=5, inputs=["a", "^b", "x"]),
        op("d", start_us=33, duration_us=9),
    ).rows(named=True)

    assert gap == gap | {
        "place": "between",
        "start_us": 5,
        "duration_us": 28,
        "before_name": "x",
        "after_name": "c",
        "awaited_name": "b",
        "awaited_device": device("CPU:0"),
        "wait_us": 25,
        "reason": "other-device",
        "rest": "handover",
    }
    assert rest == rest | {
        "place": "after",
        "start_us": 38,
        "duration_us": 4,
        "before_name": "c",
        "after_name": None,
        "awaited_name": None,
        "reason": "nothing-left",
    }


def test_idle_time_is_counted_by_reason():
    """Until the op ended it waited for that, and then for what it had made."""
    ops = (
        op("a", start_us=0, duration_us=10),
        op("b", on="CPU:1", start_us=13, duration_us=5, inputs=["a"]),
        op("c", start_us=10, duration_us=30),
    )

    assert reasons("CPU:1", *ops) == {
        "other-device": 10,
        "handover": 3,
        "nothing-left": 22,
    }


def test_an_input_that_runs_elsewhere_is_a_reason_of_its_own():
    """What is waited for tells the reason, not only where it runs."""
    ops = (
        op("next", op_type="IteratorGetNext", start_us=0, duration_us=10),
        op("b", on="CPU:1", start_us=10, duration_us=5, inputs=["next"]),
    )

    assert reasons("CPU:1", *ops) == {"input": 10}


def test_without_an_input_that_ran_the_reason_is_unknown():
    """Nothing is awaited, and nothing is claimed."""
    ops = (op("a", duration_us=10), op("b", on="CPU:1", start_us=4, inputs=["gone"]))

    (gap,) = gaps("CPU:1", *ops).rows(named=True)

    assert (gap["place"], gap["reason"]) == ("before", "unknown")
    assert gap["awaited"] is None


def test_what_a_device_made_itself_tells_no_reason():
    """Its op had ended before the gap: why the next did not begin is not recorded."""
    ops = (op("a", duration_us=10), op("b", start_us=14, inputs=["a"]))

    (total,) = find_device_time(flow(*ops)).idle.rows(named=True)
    assert (total["reason"], total["idle_us"]) == ("unknown", 4)
    assert total["awaited_device"] is None
    assert total["longest_name"] is None


def test_ops_without_a_duration_are_passed_over():
    """The value came over into an op of 0 µs, which says nothing of the wait."""
    (gap,) = gaps(
        "CPU:1",
        op("a", start_us=0, duration_us=10),
        op("same", on="CPU:1", start_us=12, duration_us=0, inputs=["a"]),
        op("too", on="CPU:1", start_us=13, duration_us=0, inputs=["same"]),
        op("b", on="CPU:1", start_us=14, duration_us=5, inputs=["too"]),
    ).rows(named=True)

    assert (gap["after_name"], gap["awaited_name"]) == ("b", "a")
    assert (gap["wait_us"], gap["rest"]) == (10, "handover")


OLD = (
    op("a", start_us=0, duration_us=10),
    op("x", on="CPU:1", start_us=0, duration_us=15),
    op("y", on="CPU:1", start_us=15, duration_us=15),
    op("b", on="CPU:1", start_us=40, duration_us=5, inputs=["a"]),
)


def test_an_old_value_from_elsewhere_is_no_reason():
    """Since it was made, the device had begun another op: it may have had it."""
    assert reasons("CPU:1", *OLD) == {"unknown": 10}


def test_a_device_that_receives_waits_for_a_transfer():
    """Between processes the trace tells when a device was receiving."""
    received = op(
        "RecvTensor",
        on="CPU:1",
        row_kind=RowKind.RECEIVE,
        start_us=12,
        duration_us=26,
    )

    assert reasons("CPU:1", *OLD, received) == {"handover": 10}


def test_a_gpu_waits_for_the_host_to_launch_a_kernel():
    """The op that starts the second kernel ends when the GPU has long been idle."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    ops = (
        op("x", on="GPU:0", start_us=0, duration_us=5),
        op("y", on="GPU:0", start_us=30, duration_us=5, inputs=["x"]),
        op("x", on="/device:GPU:0", start_us=5, duration_us=5, **stream),
        op("y", on="/device:GPU:0", start_us=36, duration_us=5, **stream),
        op("z", on="GPU:0", start_us=36, duration_us=2),
        op("z", on="/device:GPU:0", start_us=45, duration_us=5, **stream),
    )

    assert reasons("GPU:0", *ops) == {"launch": 5 + 26, "unknown": 4}


def test_a_host_waits_for_the_kernel_and_not_for_its_launch():
    """What a GPU makes is there when its kernel has ended."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    ops = (
        op("x", on="GPU:0", start_us=0, duration_us=5),
        op("x", on="/device:GPU:0", start_us=5, duration_us=20, **stream),
        op("h", on="CPU:0", start_us=27, duration_us=5, inputs=["x"]),
    )

    assert reasons("CPU:0", *ops) == {"other-device": 25, "handover": 2}


def test_a_kernel_that_seems_to_precede_its_launch_is_of_its_op_all_the_same():
    """The clocks of card and host may differ: what it takes is known by its name."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    (gap, _) = gaps(
        "GPU:0",
        op("h", on="CPU:0", start_us=0, duration_us=10),
        op("x", on="/device:GPU:0", start_us=12, duration_us=5, **stream),
        op("x", on="GPU:0", start_us=14, duration_us=5, inputs=["h"]),
    ).rows(named=True)

    assert (gap["awaited_name"], gap["wait_us"]) == ("h", 10)


def test_no_gap_reaches_into_the_next_step():
    """Steps that touch part a gap in two: after the one, before the other."""
    found = gaps(
        "CPU:1",
        op("a", start_us=0, duration_us=20, step=0),
        op("b", on="CPU:1", start_us=0, duration_us=10, step=0),
        op("a", start_us=20, duration_us=20, step=1),
        op("b", on="CPU:1", start_us=30, duration_us=10, step=1),
    )

    assert found.select("step", "place", "start_us", "duration_us").rows() == [
        (0, "after", 10, 10),
        (1, "before", 20, 10),
    ]


def test_an_op_of_the_next_step_ends_no_gap():
    """Its step begins at once, and so does it: nothing was left for the device."""
    (gap,) = gaps(
        "CPU:1",
        op("a", start_us=0, duration_us=20, step=0),
        op("b", on="CPU:1", start_us=0, duration_us=10, step=0),
        op("b", on="CPU:1", start_us=20, duration_us=10, step=1),
    ).rows(named=True)

    assert (gap["place"], gap["reason"]) == ("after", "nothing-left")
    assert gap["after"] is None


def test_a_device_that_ran_nothing_in_a_step_idled_throughout():
    """Of two steps it takes part in one."""
    found = gaps(
        "CPU:1",
        op("a", start_us=0, duration_us=20, step=0),
        op("b", on="CPU:1", start_us=0, duration_us=20, step=0),
        op("a", start_us=30, duration_us=20, step=1),
    )

    columns = ("step", "place", "duration_us", "reason")
    assert found.select(columns).rows() == [(1, "throughout", 20, "nothing-left")]


def test_the_longest_gaps_are_listed_and_all_are_counted():
    """A list has an end; totals have not."""
    ops = [
        op(f"n{i}", start_us=100 * i, duration_us=99 - i) for i in range(MOST_GAPS + 9)
    ]

    found = find_device_time(flow(*ops))

    lengths = found.gaps["duration_us"].to_list()
    assert lengths == list(range(MOST_GAPS + 8, 8, -1))
    (total,) = found.idle.rows(named=True)
    assert total["gaps"] == MOST_GAPS + 8
    assert total["idle_us"] == sum(range(1, MOST_GAPS + 9))
    assert (total["longest_us"], total["longest_start_us"]) == (58, 5742)


DRAWN = st.lists(
    st.tuples(
        st.sampled_from(["CPU:0", "CPU:1", "CPU:2"]),
        st.sampled_from(["MatMul", "IteratorGetNext"]),
        st.integers(0, 25),
        st.integers(0, 8),
        st.lists(st.integers(0, 9), max_size=3),
    ),
    min_size=1,
    max_size=10,
)


def awaited_by(consumer, ops, edges):
    """Return what ended last of what an op takes, the last argument of equals."""
    taken = [ops[p] for p, c in reversed(edges) if c == consumer["op"]]
    return max(taken, key=lambda each: each["end_us"], default=None)


def explain(gap, ops, edges):
    """Return the reasons of a gap, reason to time, as a person would find them."""
    start, end = gap["start_us"], gap["start_us"] + gap["duration_us"]
    mine = [each for each in ops if each["device"] == gap["device"]]
    long = [each for each in mine if each["duration_us"]]
    after = next((each for each in long if each["start_us"] == end), None)
    before = [each for each in long if each["end_us"] == start]
    if after is None:
        return {"nothing-left": end - start}
    awaited = awaited_by(after, ops, edges)
    for _ in ops:
        if (
            awaited
            and awaited["device"] == gap["device"]
            and awaited["end_us"] > start
            and (further := awaited_by(awaited, ops, edges))
        ):
            awaited = further
    if awaited is None:
        return {"unknown": end - start}
    is_elsewhere = awaited["device"] != gap["device"]
    is_input = awaited["role"] == "input"
    until = min(max(awaited["end_us"] - start, 0), end - start)
    found = {}
    if until and (is_input or is_elsewhere):
        found["input" if is_input else "other-device"] = until
    is_fresh = not before or awaited["end_us"] >= before[-1]["start_us"]
    left = end - start - sum(found.values())
    if left:
        found["handover" if is_elsewhere and is_fresh else "unknown"] = left
    return found


@settings(max_examples=150, deadline=None)
@given(DRAWN)
def test_gaps_and_reasons_are_those_that_a_person_finds(drawn):
    """Each gap is explained by hand, and the reasons add up to the totals."""
    drawn = sorted(drawn, key=lambda each: each[2])
    found_flow = flow(
        *(
            op(f"n{i}", on, op_type=kind, start_us=start, duration_us=duration)
            | {"inputs": sorted({f"n{k}" for k in inputs if k < i})}
            for i, (on, kind, start, duration, inputs) in enumerate(drawn)
        )
    )
    ops = found_flow.ops.rows(named=True)
    edges = found_flow.edges.select("producer", "consumer").rows()

    found = find_device_time(found_flow)

    expected = {}
    for gap in found.gaps.rows(named=True):
        inside = range(gap["start_us"], gap["start_us"] + gap["duration_us"])
        assert not any(
            each["start_us"] <= moment < each["end_us"]
            for each in ops
            if each["device"] == gap["device"]
            for moment in inside
        )
        for reason, time_us in explain(gap, ops, edges).items():
            key = gap["device"], reason
            expected[key] = expected.get(key, 0) + time_us
    totals = found.idle.group_by("device", "reason").agg(pl.col("idle_us").sum())
    assert {(on, reason): us for on, reason, us in totals.rows()} == expected
