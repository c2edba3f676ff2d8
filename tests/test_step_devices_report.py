import pytest

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.devices import find_device_time
from placement_viz.reports.step_devices import device_sentences, second_device_answer
from placement_viz.reports.step_input import input_answer
from tests.builders import SAMPLES, TRACES, op
from tests.test_step_devices import FEED, TOWERS, device_time, kernel, session

TURNS = (
    op("a", on="GPU:0", start_us=0, duration_us=10),
    op("b", on="GPU:1", start_us=13, duration_us=10, inputs=["a"]),
    op("c", on="GPU:0", start_us=23, duration_us=10, inputs=["b"]),
)


def test_a_device_has_its_share_its_waits_and_what_it_was_busy_with():
    """Each time names its interval and the op that ended it."""
    (zero, _, one, shares, launches, together) = device_sentences(device_time(*TURNS))

    assert zero == (
        "GPU:0 was busy 61 % of the step (20 µs of 33 µs); it waited 13 µs for ops on "
        "GPU:1, from 10 µs, until b ended."
    )
    assert one == (
        "GPU:1 was busy 30 % of the step (10 µs of 33 µs); it waited 10 µs for ops on "
        "GPU:0, from 0 µs, until a ended; it waited 3 µs for values to come over from "
        "GPU:0, from 10 µs, after a had ended; no op was left for it in 10 µs."
    )
    assert shares == "GPU:1's 10 µs went into forward 10 µs."
    assert launches == (
        "Times of GPU:0 and GPU:1 are those of ops that launch kernels: their kernels "
        "are not recorded."
    )
    assert together == "Never more than 1 of 2 devices was busy at a time."


def test_of_several_waits_the_longest_is_named():
    """The total is for all of them."""
    found = device_time(
        op("a", start_us=0, duration_us=20),
        op("x", on="CPU:1", start_us=20, duration_us=5, inputs=["a"]),
        op("b", start_us=20, duration_us=10),
        op("y", on="CPU:1", start_us=30, duration_us=5, inputs=["b"]),
    )

    assert device_sentences(found)[2] == (
        "CPU:1 was busy 29 % of the step (10 µs of 35 µs); it waited 25 µs for ops on "
        "CPU:0, longest 20 µs from 0 µs, until a ended."
    )


def test_devices_that_are_busy_together_say_how_long():
    """Of two it is both; of more it is how many at most and on average."""
    third = op("t", on="CPU:2", start_us=0, duration_us=40)

    assert device_sentences(device_time(*TOWERS))[-1] == (
        "Both devices were busy together for 4 µs (10 %)."
    )
    assert device_sentences(device_time(*TOWERS, third))[-1] == (
        "Two devices or more were busy together for 38 µs (95 %), at most 3 of 3, on "
        "average 2.0."
    )


def test_kernels_and_launches_have_each_their_time():
    """The host waits for no kernel: both times are told."""
    found = device_time(op("x", on="GPU:0", duration_us=2), kernel("x", 5, 20))

    (busy, _, times) = device_sentences(found)

    assert busy.endswith("it waited 5 µs for the host to launch kernels.")
    assert times == (
        "GPU:0's kernels ran for 20 µs; the ops that launched them took 2 µs."
    )


def test_lost_kernels_are_counted():
    """It is said why times are those of launches."""
    found = device_time(
        op("x", on="GPU:0", duration_us=2),
        op("y", on="GPU:1", duration_us=3),
        kernel("void Eigen::scan()", 6, 30),
    )

    assert (
        "Times of GPU:0 and GPU:1 are those of ops that launch kernels: nothing proves "
        "on which device 1 kernel ran."
    ) in device_sentences(found)


def test_the_time_between_steps_is_said_where_it_is_known():
    """Steps that were joined do not tell it."""
    first = op("a", start_us=0, duration_us=10, step=0)
    apart = device_time(first, op("a", start_us=30, duration_us=10, step=1))
    joined = device_time(first, op("a", start_us=10, duration_us=10, step=1))

    assert device_sentences(apart)[-1] == (
        "2 steps ran for 20 µs in all; between them lay 20 µs more, longest 20 µs "
        "before step 1."
    )
    assert device_sentences(joined)[-1] == (
        "2 steps ran for 20 µs in all; the time between them is not recorded."
    )


SMALL_SECOND = (
    op("a", start_us=0, duration_us=1000),
    op("b", on="CPU:1", start_us=0, duration_us=4),
)


ON_ONE_GPU = (op("a", on="GPU:0"),)
WITHOUT_TIMES = (op("a", duration_us=0), op("b", on="CPU:1", duration_us=0))


@pytest.mark.parametrize(
    ("ops", "had", "answer"),
    [
        (TOWERS, (), "Yes: CPU:1, the least busy of 2 devices, was busy 30 % of"),
        (TURNS, (), "Only in turns: GPU:1, the least busy of 2 devices, was busy 30 %"),
        (SMALL_SECOND, (), "Hardly: CPU:1, the least busy of 2 devices, was busy 0 %"),
        (
            ON_ONE_GPU,
            ("GPU:0", "GPU:1"),
            "No op of this step ran on GPU:1, which the session had.",
        ),
        (
            ON_ONE_GPU,
            ("CPU:0", "GPU:0"),
            "There is none: the session had no other device like GPU:0.",
        ),
        (
            ON_ONE_GPU,
            (),
            "All that computes ran on GPU:0; whether there was another device is not",
        ),
        (
            WITHOUT_TIMES,
            (),
            "Ops ran on CPU:0 and CPU:1; for how long is not recorded.",
        ),
    ],
)
def test_whether_a_second_device_is_used_is_answered(ops, had, answer):
    """The answer comes first and then its figures."""
    found = device_time(*ops, section=session(*had) if had else None)

    assert second_device_answer(found).startswith(answer)


def bound_by_input(duration_us):
    """Return a step of 100 µs that begins with an input op of some length."""
    return device_time(
        op("next", op_type="IteratorGetNext", duration_us=duration_us),
        op("a", start_us=duration_us, duration_us=100 - duration_us, inputs=["next"]),
    )


@pytest.mark.parametrize(
    ("duration_us", "answer"),
    [
        (30, "Yes: 30 % of the step (30 µs of 100 µs) is input"),
        (20, "Yes: 20 %"),
        (10, "Partly: 10 %"),
        (2, "No: 2 %"),
    ],
)
def test_a_step_is_bound_by_its_input_from_a_share_on(duration_us, answer):
    """The limits are those of TensorFlow's own analysis."""
    assert input_answer(bound_by_input(duration_us)).startswith(answer)


def test_where_the_input_is_fed_its_cost_is_outside_the_step():
    """What is known of the time around the step is said."""
    section = session("CPU:0", "CPU:1", step_times_us=(50,))
    answer = input_answer(device_time(FEED, *TOWERS, section=section))

    assert answer == (
        "Not within the step: its 1 input is fed, ready made. Making what is fed "
        "lies outside what a step records. Untraced, a call of the step took "
        "50 µs, 10 µs longer than its ops when traced: feeds, fetches and the start of "
        "the step; what lies between two calls is not in it."
    )


def test_pauses_between_steps_are_named_beside_the_input():
    """There a program may make its next batch."""
    found = device_time(
        op("a", start_us=0, duration_us=10, step=0),
        op("a", start_us=30, duration_us=10, step=1),
    )

    assert input_answer(found).endswith(
        "Between its steps lie 20 µs in which no op ran, as when a program makes its "
        "next batch."
    )


@pytest.mark.parametrize(
    "path",
    [*sorted(SAMPLES.glob("*.json")), TRACES / "tensorflow_profile.json"],
    ids=lambda path: path.stem,
)
def test_every_run_has_sentences(path):
    """None of them shows a value that is not known."""
    analysis = analyze_run(load_run(path, cache=False))
    found = find_device_time(Flow(analysis.run, analysis.colocation))

    texts = [
        *device_sentences(found),
        second_device_answer(found),
        input_answer(found),
    ]
    assert len(texts) > found.devices.height
    assert all(text.endswith(".") and "None" not in text for text in texts)


def test_a_run_without_times_says_so():
    """There is nothing to tell of its devices."""
    found = device_time(op("a", duration_us=0))

    assert device_sentences(found) == [
        "How long its devices were busy is not recorded: no op has a duration."
    ]
    assert input_answer(found) == "Not known: no op of this run has a duration."
