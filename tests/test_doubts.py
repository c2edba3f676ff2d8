import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import analyze_run, load_run
from placement_viz.analysis import doubts
from placement_viz.analysis.doubts import examine
from placement_viz.model import RowKind
from tests.builders import CORPUS, device, op, run, trace

MERGED = CORPUS / "ikhlestov-gpu-timeline_03_merged_5_runs.json"
DAY_US = 86_400_000_000


def kernel(name, on="GPU:0", **fields):
    """Return what the GPU tracer writes for an op: a row that names no task."""
    return op(name, on=f"/device:{on}", **{"row_kind": RowKind.STREAM, **fields})


def examined(*ops):
    """Return rows of the trusted trace as (name, short device), and the notices."""
    found, notices = examine(trace(*ops))
    rows = zip(found.ops["name"], found.ops["device"], strict=True)
    return [(n, d.rpartition("/device:")[2]) for n, d in rows], notices


def test_a_kernel_is_counted_to_the_device_of_its_op():
    """Up to TensorFlow 1.13 the rows of every GPU were called GPU:0's."""
    rows, (notice,) = examined(
        op("a", on="GPU:0"),
        op("b", on="GPU:1"),
        kernel("a"),
        kernel("b"),
        kernel("b", row_kind=RowKind.MEMCPY),
    )

    assert rows[2:] == [("a", "GPU:0"), ("b", "GPU:1"), ("b", "GPU:1")]
    assert notice.code == "stream-rows-mislabelled"
    assert notice.message.startswith(
        "2 of 3 kernels stand on rows called GPU:0 although their ops ran on GPU:1: "
        "TensorFlow up to about 1.13 calls the rows of every GPU so"
    )


def test_rows_numbered_in_another_way_are_explained_in_another_way():
    """CUDA's numbers need not be TensorFlow's: a program may hide or reorder GPUs."""
    rows, (notice,) = examined(
        op("a", on="GPU:0"), op("b", on="GPU:1"), kernel("a", "GPU:1"), kernel("b")
    )

    assert rows[2:] == [("a", "GPU:0"), ("b", "GPU:1")]
    assert "numbered by CUDA" in notice.message


def test_kernels_that_prove_nothing_stay_where_they_are():
    """Of no op that ran, of an op that ran on two devices, or of an op on a CPU."""
    ops = [
        op("both", on="GPU:0"),
        op("both", on="GPU:1"),
        op("host", on="CPU:0"),
        kernel("edge_7_x"),
        kernel("both"),
        kernel("host"),
        op("b", on="GPU:10"),
        kernel("b", "GPU:10"),
    ]

    found, notices = examine(trace(*ops))

    assert notices == ()
    assert found.ops.equals(trace(*ops).ops)


def steps(*devices_of_a_step, n_ops=6):
    """Return steps of ``n_ops`` ops each on two devices, given as a pair a step."""
    return [
        op(f"{kind}{i}", on=on, start_us=1000 * number + i)
        for number, pair in enumerate(devices_of_a_step)
        for kind, on in zip("cg", pair, strict=True)
        for i in range(n_ops)
    ]


USUAL, SWAPPED = ("CPU:0", "GPU:0"), ("GPU:0", "CPU:0")


def test_rows_that_are_swapped_in_one_of_four_steps_are_put_right():
    """Each op is then where it is in all the other steps."""
    rows, (notice,) = examined(*steps(USUAL, USUAL, SWAPPED, USUAL))

    assert {row for row in rows if row[0] == "c0"} == {("c0", "CPU:0")}
    assert all(on == {"c": "CPU:0", "g": "GPU:0"}[name[0]] for name, on in rows)
    assert notice.code == "rows-swapped"
    assert notice.message == (
        "4 steps were put into this file, and in 1 of them the rows of CPU:0 and GPU:0 "
        "are swapped; 12 ops of the odd steps were put right"
    )


def test_order_and_times_survive_when_rows_are_put_right():
    """Only devices change."""
    ops = trace(*steps(USUAL, SWAPPED, USUAL)).ops

    found, _ = examine(trace(*steps(USUAL, SWAPPED, USUAL)))

    assert found.ops.drop("device").equals(ops.drop("device"))


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([USUAL, SWAPPED], "of two steps either may be the odd one"),
        ([USUAL, SWAPPED, USUAL, SWAPPED], "there is no majority"),
        ([USUAL, USUAL, USUAL], "nothing is odd"),
        ([USUAL], "one step has nothing to compare with"),
    ],
)
def test_without_a_majority_nothing_is_claimed(pairs, why):
    """The trace comes back as it is."""
    ops = trace(*steps(*pairs))

    found, notices = examine(ops)

    assert found is ops, why
    assert notices == ()


def test_a_few_ops_prove_no_swap():
    """Four ops on another device may well have moved."""
    assert examined(*steps(USUAL, USUAL, SWAPPED, n_ops=2))[1] == ()


def test_some_ops_on_another_device_are_no_swapped_row():
    """Where the rest of the row stayed, the ops really moved."""
    odd = [
        {**each, "device": device("GPU:0")}
        if each["name"] in {"c0", "c1", "c2"}
        else each
        for each in steps(USUAL)
    ]
    later = [{**each, "start_us": each["start_us"] + 1000} for each in steps(USUAL)]
    last = [{**each, "start_us": each["start_us"] + 2000} for each in odd]

    assert examined(*steps(USUAL), *later, *last)[1] == ()


@pytest.mark.parametrize("n_once", [0, 2, 20])
def test_the_rounds_of_a_loop_are_no_steps(n_once):
    """Its ops run often and always on one device, be they many or few."""
    ops = trace(
        *(op(f"once{i}", on="GPU:0") for i in range(n_once)),
        *(
            op(f"while/{on}{i}", on=on, start_us=10 * number + i)
            for number in range(5)
            for on in USUAL
            for i in range(5)
        ),
    )

    found, notices = examine(ops)

    assert found is ops
    assert notices == ()


def test_all_ops_of_a_swapped_row_are_put_right():
    """Also those of a loop, and those that only some of the steps ran."""
    ops = []
    for number, (_, gpu) in enumerate([USUAL, USUAL, SWAPPED, USUAL]):
        late = {"on": gpu, "start_us": 1000 * number + 100}
        ops += [op("while/mm", **late) for _ in range(3)]
        ops += [op("summary", **late)] if number % 2 == 0 else []

    rows, _ = examined(*steps(USUAL, USUAL, SWAPPED, USUAL), *ops)

    assert {row for row in rows if row[0][0] in "ws"} == {
        ("while/mm", "GPU:0"),
        ("summary", "GPU:0"),
    }


def test_the_rounds_of_a_loop_are_not_counted_as_steps():
    """Where most ops belong to a loop of three rounds, four steps are still four."""
    ops = [
        op(f"while/{i}", on=gpu, start_us=1000 * number + 100 + 10 * k + i)
        for number, (_, gpu) in enumerate([USUAL, USUAL, SWAPPED, USUAL])
        for k in range(3)
        for i in range(20)
    ]

    _, (notice,) = examined(*steps(USUAL, USUAL, SWAPPED, USUAL), *ops)

    assert notice.message.startswith("4 steps were put into this file, and in 1 of")


@pytest.mark.skipif(not MERGED.exists(), reason="the corpus is not here")
def test_real_steps_that_a_script_put_together_are_put_right():
    """Five steps on one GPU: all gradient ops ran there, in each of them."""
    found = analyze_run(load_run(MERGED))
    gradients = found.colocation.gradients

    assert "rows-swapped" in [notice.code for notice in found.notices]
    assert set(gradients["device"]) == {device("GPU:0")}
    assert found.colocation.misplaced.is_empty()
    assert set(gradients["name"].value_counts()["count"]) == {5}


@pytest.mark.parametrize("far_us", [-2 * DAY_US, 2 * DAY_US])
def test_an_op_whose_clock_is_broken_is_left_out(far_us):
    """The rest begins at 0, and the origin still says when that was."""
    start_us = max(0, -far_us)
    ops = [op(n, start_us=start_us + i) for i, n in enumerate("abc")]
    strange = op("strange", start_us=start_us + far_us)

    found, (notice,) = examine(trace(*ops, strange))

    assert found.ops["name"].to_list() == ["a", "b", "c"]
    assert found.ops["start_us"].to_list() == [0, 1, 2]
    assert found.origin_us == start_us
    assert notice.code == "clock-broken"
    assert notice.message.startswith("1 op started more than a day away")


def test_of_two_ops_far_apart_one_is_kept():
    """Which of the clocks is broken nobody knows, but a run has an op."""
    found, (notice,) = examine(trace(op("a"), op("b", start_us=3 * DAY_US)))

    assert found.ops["name"].to_list() == ["a"]
    assert notice.code == "clock-broken"


def test_a_step_of_a_day_has_no_broken_clock():
    """What lies a day from the rest, and no more, is kept."""
    ops = trace(*(op(n) for n in "abc"), op("late", start_us=DAY_US))

    assert examine(ops) == (ops, ())


def test_a_full_collector_is_reported(monkeypatch):
    """TensorFlow stops there without a word, so the rest of the step is missing."""
    monkeypatch.setattr(doubts, "COLLECTOR_LIMIT", 3)
    ops = [op("a"), op("b"), op("c")]

    assert examined(*ops[:2], kernel("a", "GPU:0"))[1] == ()
    (notice,) = examined(*ops)[1]
    assert notice.code == "collector-full"
    assert "holds 3 ops" in notice.message


def test_each_step_has_a_collector_of_its_own(monkeypatch):
    """Many steps in one trace may well hold more ops than the limit."""
    monkeypatch.setattr(doubts, "COLLECTOR_LIMIT", 3)

    assert examined(op("a"), op("a", step=1), op("b"), op("b", step=1))[1] == ()


def test_what_is_wrong_is_said_in_the_order_in_which_it_is_put_right():
    """Kernels are counted to the devices of ops on rows that were put right."""
    gpus = ("GPU:0", "GPU:1")
    late = max(each["start_us"] for each in steps(*[gpus] * 3))
    rows, notices = examined(
        *steps(gpus, gpus[::-1], gpus), kernel("g0", "GPU:0", start_us=late)
    )

    assert [notice.code for notice in notices] == [
        "rows-swapped",
        "stream-rows-mislabelled",
    ]
    assert rows[-1] == ("g0", "GPU:1")


def test_the_notices_of_the_rows_come_before_those_of_the_verdicts():
    """A reader learns first what to think of the trace."""
    found = analyze_run(run(op("a", on="GPU:0"), op("b", on="GPU:1"), kernel("b")))

    assert [n.code for n in found.notices] == ["stream-rows-mislabelled", "no-graph"]


@given(
    st.dictionaries(
        st.text("ab/_", min_size=1, max_size=4),
        st.sampled_from(["CPU:0", "CPU:1", "GPU:0"]),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_healthy_trace_comes_back_as_it_is(homes, n_rounds, has_kernels):
    """Ops that stay on their devices, however often they ran, raise no doubt."""
    ops = [
        op(name, on=on, start_us=100 * number)
        for number in range(n_rounds)
        for name, on in homes.items()
    ]
    kernels = [kernel(name, on) for name, on in homes.items() if "GPU" in on]
    found = trace(*ops, *(kernels if has_kernels else ()))

    assert examine(found) == (found, ())
