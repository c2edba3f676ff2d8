import pytest

from placement_viz import analyze_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.critical_path import find_critical_path
from placement_viz.model import RowKind
from placement_viz.reports.step_critical_path import critical_path_sentences
from tests.builders import op, run

MISPLACED = "gradients/tower_1/mm_grad/MatMul"


def sentences(*ops):
    """Return what is said of a judged run of ``ops``."""
    analysis = analyze_run(run(*ops))
    of = Flow(analysis.run, analysis.colocation)
    return critical_path_sentences(find_critical_path(of), of)


def test_one_op_is_its_own_path():
    """The smallest step has a path without waits, and one sentence."""
    (sentence,) = sentences(op("a", duration_us=10))

    assert sentence == (
        "The critical path takes 10 µs of 10 µs: 10 µs computing (CPU:0 10 µs), 0 µs "
        "waiting."
    )


def test_the_sentences_name_the_waits_and_the_misplaced_time():
    """Times on the path, its longest wait, the chain and what is misplaced."""
    path, wait, chain, misplaced, beside = sentences(
        op("tower_1/mm", "GPU:1", start_us=0, duration_us=1000),
        op(MISPLACED, "GPU:0", start_us=1500, duration_us=2000),
        op("last", "GPU:1", start_us=3600, duration_us=400, inputs=[MISPLACED]),
        op(f"{MISPLACED}_1", "GPU:0", start_us=3500, duration_us=100),
    )

    assert path == (
        "The critical path takes 2.5 ms of 4.0 ms: 2.4 ms computing (GPU:0 2.0 ms, "
        "GPU:1 400 µs), 100 µs waiting, of that 100 µs for what came from another "
        "device."
    )
    assert wait == (
        "The longest wait is 100 µs, from 3.5 ms to 3.6 ms, before last on GPU:1: "
        f"after {MISPLACED} had run on GPU:0, whose value it takes."
    )
    assert chain == "If nothing waited, the longest chain of ops would take 2.4 ms."
    assert misplaced == (
        "2.0 ms of 2.1 ms of misplaced gradient time are on the critical path."
    )
    assert beside == (
        "1 misplaced op beside it could have ended 400 µs later without delaying a "
        "step."
    )


def test_misplaced_time_that_delays_nothing_is_said_not_to():
    """Misplaced ops may all run beside the path."""
    *_, misplaced, beside = sentences(
        op("tower_1/mm", "GPU:1", start_us=0, duration_us=100),
        op(MISPLACED, "GPU:0", start_us=0, duration_us=40),
        op(f"{MISPLACED}_1", "GPU:0", start_us=40, duration_us=20),
    )

    assert misplaced == (
        "None of 60 µs of misplaced gradient time is on the critical path."
    )
    assert beside == (
        "2 misplaced ops beside it could have ended 40 µs later without delaying a "
        "step."
    )


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (["a"], "after a had run, whose value it takes."),
        (["^a"], "after a had run, as a control edge demands."),
        ([], "after a had run there, the op before it."),
    ],
    ids=["data", "control", "queue"],
)
def test_the_longest_wait_has_a_reason(inputs, why):
    """Whether a value, an order or the device itself was waited for is told."""
    said = sentences(op("a", start_us=0), op("b", start_us=15, inputs=inputs))

    assert said[1] == (
        f"The longest wait is 5 µs, from 10 µs to 15 µs, before b on CPU:0: {why}"
    )


def test_a_wait_far_from_the_begin_is_at_a_moment():
    """Begin and end that read the same are one moment."""
    said = sentences(
        op("a", start_us=0, duration_us=2_000_000),
        op("b", start_us=2_000_007, inputs=["a"]),
    )

    assert "The longest wait is 7 µs, at 2.0 s, before b" in said[1]


def test_times_of_several_steps_are_added_up():
    """Each step has a path, and the sentence is about all of them."""
    (sentence,) = sentences(
        op("a", start_us=0, duration_us=10, step=0),
        op("a", start_us=50, duration_us=20, step=1),
    )

    assert sentence == (
        "The critical paths of 2 steps take 30 µs of 30 µs: 30 µs computing (CPU:0 "
        "30 µs), 0 µs waiting."
    )


def test_devices_with_little_time_are_added_up():
    """Four devices are named, those with most time on the path."""
    chain = [
        op(
            f"op{n}",
            f"CPU:{n}",
            start_us=100 * n,
            duration_us=10 * n + 10,
            inputs=[f"op{n - 1}"],
        )
        for n in range(6)
    ]

    path = sentences(*chain)[0]

    assert "(CPU:5 60 µs, CPU:4 50 µs, CPU:3 40 µs, CPU:2 30 µs, others 30 µs)" in path


def test_what_the_path_cannot_show_is_said():
    """Kernels are no ops, and an input that came too late is not followed."""
    *_, kernels, late = sentences(
        op("slow", "GPU:0", start_us=0, duration_us=30),
        op("early", "GPU:1", start_us=10, duration_us=40, inputs=["slow"]),
        op("slow", "GPU:0", row_kind=RowKind.STREAM, row="/device:GPU:0/stream:all"),
    )

    assert kernels == (
        "Kernels run when the ops that start them may have ended: the critical path is "
        "that of the ops."
    )
    assert late == (
        "1 input of ops cannot be followed: the op that made it ended after the one "
        "that took it had begun."
    )


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        ([op("a", duration_us=0), op("b", duration_us=0)], "this run has no times."),
        (
            [op("a", row_kind=RowKind.STREAM)],
            "no row of this trace proves on which device an op ran.",
        ),
    ],
    ids=["no times", "no placement"],
)
def test_what_is_not_recorded_is_not_known(ops, why):
    """A run without times, or without proof of a device, has no path."""
    assert sentences(*ops) == [f"The critical path is not known: {why}"]
