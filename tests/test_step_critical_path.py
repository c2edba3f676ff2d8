import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import analyze_run, load_run
from placement_viz.analysis.colocation import GRADIENTS_SCHEMA, Colocation
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.critical_path import (
    PATH_STEPS_SCHEMA,
    WAITS_SCHEMA,
    find_critical_path,
)
from placement_viz.model import RowKind
from placement_viz.reports.step_critical_path import critical_path_sentences
from tests.builders import CORPUS, SAMPLES, device, op, run

NO_GRADIENTS = Colocation(pl.DataFrame(schema=GRADIENTS_SCHEMA))

#: Two devices; c takes from a, and e follows c, each from the other device.
STEP = (
    op("a", "GPU:0", start_us=0, duration_us=10),
    op("b", "GPU:1", start_us=0, duration_us=4),
    op("d", "GPU:0", start_us=12, duration_us=6),
    op("c", "GPU:1", start_us=15, duration_us=20, inputs=["a", "b"]),
    op("e", "GPU:0", start_us=37, duration_us=8, inputs=["^c"]),
)


def flow(*ops):
    """Return the flow of a run of ``ops`` in which no gradient is looked for."""
    return Flow(run(*ops), NO_GRADIENTS)


def judged(of):
    """Return the flow of a judged run."""
    analysis = analyze_run(of)
    return Flow(analysis.run, analysis.colocation)


def told(found, of, *columns):
    """Return name to ``columns`` of the waits."""
    names = of.ops["name"].gather(found.waits["op"])
    rows = found.waits.select(columns).iter_rows()
    return dict(zip(names, rows, strict=True))


def test_the_path_is_what_the_step_waited_for():
    """Each op on it waited last for the one before; the times add up to the step."""
    of = flow(*STEP)

    found = find_critical_path(of)

    waits = told(found, of, "reason", "gap_us", "is_from_afar", "is_critical")
    assert waits == {
        "a": ("start", 0, None, True),
        "b": ("start", 0, None, False),
        "d": ("queue", 2, False, False),
        "c": ("data", 5, True, True),
        "e": ("control", 2, True, True),
    }
    (step,) = found.steps.rows(named=True)
    assert step == {
        "step": 0,
        "ops": 3,
        "span_us": 45,
        "path_us": 45,
        "compute_us": 38,
        "wait_us": 7,
        "afar_us": 7,
        "chain_us": 38,
        "backward": 0,
    }


def test_slack_is_the_time_that_others_leave():
    """What the path does not wait for may end later, up to what it did wait for."""
    of = flow(*STEP)

    slack = told(find_critical_path(of), of, "slack_us")

    assert slack == {"a": (0,), "b": (6,), "d": (17,), "c": (0,), "e": (0,)}


def test_time_on_the_path_is_told_by_device_and_role():
    """Ops of the path are counted where they ran and for what they were."""
    of = flow(*STEP)
    found = find_critical_path(of)

    by_device = found.by_device(of.trace.devices)

    assert by_device.rows() == [(device("GPU:0"), 2, 18), (device("GPU:1"), 1, 20)]
    assert found.by_role().rows() == [("forward", 3, 38)]


def test_data_explains_a_wait_before_an_order_and_an_order_before_the_queue():
    """Of what ended at the same moment the surest reason is told."""
    ended = {"start_us": 0, "duration_us": 10}
    of = flow(
        op("a", "GPU:0", **ended),
        op("b", "GPU:1", **ended),
        op("by_data", "GPU:0", start_us=10, inputs=["^a", "b"]),
        op("by_control", "GPU:1", start_us=10, inputs=["^a"]),
        op("by_queue", "GPU:1", start_us=10),
    )

    reasons = told(find_critical_path(of), of, "reason")

    assert reasons["by_data"] == ("data",)
    assert reasons["by_control"] == ("control",)
    assert reasons["by_queue"] == ("queue",)


def test_an_op_of_a_busy_device_waits_for_whichever_thread_is_free():
    """Lanes are no threads: what ended last on the device let the next one begin."""
    of = flow(
        op("long", start_us=0, duration_us=50),
        op("short", start_us=0, duration_us=20, lane=1),
        op("next", start_us=51, duration_us=9, lane=1, inputs=["short"]),
    )

    waits = told(find_critical_path(of), of, "reason", "gap_us", "slack_us")

    assert waits["next"] == ("queue", 1, 0)
    assert waits["short"] == ("start", 0, 30)


def test_a_path_may_begin_after_the_step():
    """What its first op waited for is not known, and is no wait on the path."""
    of = flow(
        op("early", "GPU:0", start_us=0, duration_us=2),
        op("late", "GPU:1", start_us=5, duration_us=10),
    )

    found = find_critical_path(of)

    assert told(found, of, "reason", "gap_us")["late"] == ("start", 5)
    (step,) = found.steps.select("span_us", "path_us", "wait_us").rows()
    assert step == (15, 10, 0)


def test_ops_that_last_no_time_run_in_the_order_of_the_trace():
    """At one moment the first comes first, whatever it takes; the last is the end."""
    moment = {"start_us": 10, "duration_us": 0}
    of = flow(
        op("long", "GPU:0", start_us=0, duration_us=10),
        op("first", "GPU:1", inputs=["second"], **moment),
        op("second", "GPU:2", **moment),
        op("sink", "GPU:0", inputs=["long"], **moment),
    )

    found = find_critical_path(of)

    assert told(found, of, "reason")["first"] == ("start",)
    assert found.path["op"].to_list() == [0, 3]


def test_each_turn_of_a_loop_is_on_the_path():
    """A node that ran several times is several ops, each after the one before."""
    of = flow(
        op("enter", start_us=0, duration_us=1),
        op("merge", op_type="Merge", start_us=2, duration_us=1, inputs=["enter", "n"]),
        op("n", start_us=4, duration_us=2, inputs=["merge"]),
        op("merge", op_type="Merge", start_us=7, duration_us=1, inputs=["enter", "n"]),
        op("n", start_us=9, duration_us=2, inputs=["merge"]),
    )

    found = find_critical_path(of)

    assert found.path["op"].to_list() == [0, 1, 2, 3, 4]
    assert found.path["gap_us"].to_list() == [0, 1, 1, 1, 1]
    # A merge takes what comes first: that n ended later contradicts nothing.
    assert found.steps["backward"].to_list() == [0]


def test_each_step_has_its_path():
    """Nothing waits for another step."""
    of = flow(
        op("a", start_us=0, duration_us=10, step=0),
        op("b", start_us=10, duration_us=5, step=0, inputs=["a"]),
        op("a", start_us=100, duration_us=20, step=1),
        op("b", start_us=123, duration_us=5, step=1, inputs=["a"]),
    )

    found = find_critical_path(of)

    columns = ("step", "span_us", "compute_us", "wait_us")
    assert found.steps.select(columns).rows() == [(0, 15, 15, 0), (1, 28, 25, 3)]
    assert found.path["op"].to_list() == [0, 1, 2, 3]


def test_what_ended_too_late_is_counted_and_not_followed():
    """An input that was still being made when it was taken explains no wait."""
    of = flow(
        op("slow", "GPU:0", start_us=0, duration_us=30),
        op("early", "GPU:1", start_us=10, duration_us=40, inputs=["slow"]),
    )

    found = find_critical_path(of)

    assert found.path["op"].to_list() == [1]
    assert found.steps["backward"].to_list() == [1]


@pytest.mark.parametrize(
    "ops",
    [
        [op("a", duration_us=0), op("b", duration_us=0)],
        [op("a", row_kind=RowKind.STREAM)],
    ],
    ids=["no times", "no placement"],
)
def test_what_is_not_recorded_is_not_known(ops):
    """A run without times, or without proof of a device, has no path."""
    found = find_critical_path(flow(*ops))

    assert found.waits.is_empty()
    assert found.waits.schema == WAITS_SCHEMA
    assert found.steps.is_empty()
    assert found.steps.schema == PATH_STEPS_SCHEMA
    assert found.misplaced_us == 0


def test_misplaced_time_on_the_path_is_counted():
    """Only what is misplaced and on the path counts."""
    misplaced = "gradients/tower_1/mm_grad/MatMul"
    of = judged(
        run(
            op("tower_1/mm", "GPU:1", start_us=0, duration_us=10),
            op(misplaced, "GPU:0", start_us=12, duration_us=20, inputs=["tower_1/mm"]),
            op(f"{misplaced}_1", "GPU:0", start_us=32, duration_us=3),
            op("last", "GPU:1", start_us=32, duration_us=4, inputs=[misplaced]),
        )
    )

    assert find_critical_path(of).misplaced_us == 20


ran = st.lists(
    st.tuples(
        st.integers(0, 12),  # start
        st.integers(0, 5),  # duration
        st.sampled_from(["GPU:0", "GPU:1"]),
        st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=3),
        st.integers(0, 1),  # step
    ),
    min_size=1,
    max_size=8,
)


class Oracle:
    """The links of a small run, found by looking at each pair of ops."""

    def __init__(self, ops):
        self.ops = ops
        self.start = [each["start_us"] for each in ops]
        self.end = [each["start_us"] + each["duration_us"] for each in ops]
        self.before = {v: self._before(v) for v in range(len(ops))}

    def _key(self, v):
        return self.start[v], self.end[v], v

    def _before(self, v):
        """Return the ops that v came after."""
        ended = [
            u
            for u in range(len(self.ops))
            if self.ops[u]["step"] == self.ops[v]["step"]
            and self.end[u] <= self.start[v]
            and self._key(u) < self._key(v)
        ]
        inputs = {each.removeprefix("^") for each in self.ops[v]["inputs"]}
        taken = {u for u in ended if self.ops[u]["name"] in inputs}
        queue = [u for u in ended if self.ops[u]["device"] == self.ops[v]["device"]]
        last = max(queue, key=lambda u: (self.end[u], self._key(u)), default=None)
        return taken | ({last} if last is not None else set())

    def chain(self, v):
        """Return the time of the longest chain that ends with v."""
        before = max((self.chain(u) for u in self.before[v]), default=0)
        return before + self.end[v] - self.start[v]

    def step_end(self, step, late=None, late_us=0):
        """Return when ``step`` ends if the op ``late`` takes ``late_us`` longer."""
        of_step = [v for v in range(len(self.ops)) if self.ops[v]["step"] == step]
        begin = min(self.start[v] for v in of_step)
        end = {}
        for v in sorted(of_step, key=self._key):
            free = max((self.end[u] for u in self.before[v]), default=begin)
            again = max((end[u] for u in self.before[v]), default=begin)
            end[v] = again + self.end[v] - free + (late_us if v == late else 0)
        return max(end.values())


@settings(deadline=None)
@given(ran)
def test_paths_slack_and_chains_are_those_of_all_pairs_of_ops(spans):
    """A replay of the step shows each slack to be as long as told and no longer."""
    ops = [
        op(
            f"op{i}",
            on,
            start_us=start,
            duration_us=length,
            inputs=[f"{'^' if order else ''}op{n}" for n, order in inputs],
            step=step,
        )
        for i, (start, length, on, inputs, step) in enumerate(spans)
    ]
    ops.sort(key=lambda each: each["start_us"])
    oracle = Oracle(ops)
    found = find_critical_path(flow(*ops))

    if not any(each["duration_us"] for each in ops):
        assert found.waits.is_empty()
        return
    assert found.waits.height == len(ops)
    for row in found.waits.rows(named=True):
        v, slack_us = row["op"], row["slack_us"]
        latest = max((oracle.end[u] for u in oracle.before[v]), default=None)
        if latest is None:
            assert row["reason"] == "start"
        else:
            assert row["awaited"] in oracle.before[v]
            assert oracle.end[row["awaited"]] == latest
        end = oracle.step_end(row["step"])
        assert oracle.step_end(row["step"], v, slack_us) == end
        assert oracle.step_end(row["step"], v, slack_us + 1) == end + 1
    for row in found.steps.rows(named=True):
        of_step = [v for v, each in enumerate(ops) if each["step"] == row["step"]]
        assert row["chain_us"] == max(oracle.chain(v) for v in of_step)
        assert row["backward"] == sum(
            oracle.end[u] > oracle.start[v]
            for v in of_step
            for u in of_step
            for name in ops[v]["inputs"]
            if name.removeprefix("^") == ops[u]["name"] and u != v
        )
    check_laws(found)


def check_laws(found):
    """Assert what holds for each step that has a path."""
    duration = pl.col("end_us") - pl.col("start_us")
    longest = dict(found.waits.group_by("step").agg(duration.max()).iter_rows())
    assert found.waits["gap_us"].min() >= 0
    assert found.path["slack_us"].max() == 0
    for step in found.steps.rows(named=True):
        path = found.path.filter(pl.col("step") == step["step"])
        assert longest[step["step"]] <= step["chain_us"] <= step["span_us"]
        assert step["compute_us"] <= step["chain_us"]
        assert step["compute_us"] + step["wait_us"] == step["path_us"]
        assert step["afar_us"] <= step["wait_us"]
        assert (
            path.select((duration + pl.col("gap_us")).sum()).item() == (step["span_us"])
        )
        assert path["awaited"].to_list() == [None, *path["op"][:-1]]
        assert path["end_us"].is_sorted()


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_the_laws_hold_for_sample_runs(path):
    """Real steps keep them, and lose no dependency."""
    of = judged(load_run(path, cache=False))

    found = find_critical_path(of)

    check_laws(found)
    assert found.waits.height == of.executed.height
    assert found.misplaced_us <= of.colocation.summary.misplaced_us
    assert critical_path_sentences(found, of)
    assert found.steps["backward"].to_list() == [0]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for path in CORPUS.glob("*timeline*.json")
        if not path.name.startswith(("byteps", "sagemaker"))
    ),
    ids=lambda path: path.stem,
)
def test_the_laws_hold_for_timelines_of_others(path):
    """Timelines of every era keep them too, or say that they have no path."""
    of = judged(load_run(path, cache=False))

    found = find_critical_path(of)

    if of.trace.is_placed:
        check_laws(found)
    assert critical_path_sentences(found, of)
