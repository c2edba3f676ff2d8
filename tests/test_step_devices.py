import dataclasses

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.devices import find_device_time
from placement_viz.analysis.step.roles import Role
from placement_viz.model import RowKind
from placement_viz.schema import DeviceRecord, RunSection
from tests.builders import CORPUS, SAMPLES, device, op, run

GPUS = sorted(CORPUS.glob("*gpu*timeline*.json")) + sorted(CORPUS.glob("*matmul*"))


def flow(*ops, section=None):
    """Return the flow of a judged run of ``ops``."""
    analysis = analyze_run(dataclasses.replace(run(*ops), section=section))
    return Flow(analysis.run, analysis.colocation)


def device_time(*ops, section=None):
    """Return how the devices of a run of ``ops`` spent it."""
    return find_device_time(flow(*ops, section=section))


def session(*devices, **fields):
    """Return the section of a run whose session had ``devices``."""
    records = tuple(DeviceRecord(device(each)) for each in devices)
    return RunSection(schema=1, devices=records, **fields)


def kernel(name, start_us, duration_us, on="/device:GPU:0", row="stream:all", **fields):
    """Return a kernel of the op ``name`` on a row of a tracer."""
    return op(
        name,
        on=on,
        row=f"/device:GPU:0/{row}",
        row_kind=RowKind.STREAM,
        start_us=start_us,
        duration_us=duration_us,
        **fields,
    )


def rows(table, *names):
    """Return the rows of some columns."""
    return table.select(names).rows()


def overlap(table):
    """Return number of busy devices to time."""
    return dict(table.iter_rows())


FEED = op("_arg_x_0", op_type="_Arg", duration_us=0)
TOWERS = (
    op("a", on="CPU:0", start_us=0, duration_us=10),
    op("b", on="CPU:1", start_us=12, duration_us=10, inputs=["a"]),
    op("gradients/b_grad/Mul", on="CPU:1", start_us=18, duration_us=6, inputs=["b"]),
    op("c", on="CPU:0", start_us=20, duration_us=20, inputs=["a"]),
)


def test_busy_and_idle_times_are_unions_that_fill_the_step():
    """Ops that overlap count once; the rest of the step is idle."""
    found = device_time(*TOWERS)

    assert found.span_us == 40
    assert rows(found.devices, "device", "ops", "busy_us", "idle_us") == [
        (device("CPU:0"), 2, 30, 10),
        (device("CPU:1"), 2, 12, 28),
    ]


def test_busy_time_counts_for_the_first_of_the_roles_that_run_at_once():
    """A gradient that runs beside a forward op takes the time of both."""
    found = device_time(*TOWERS)

    assert rows(found.roles, "device", "role", "ops", "busy_us", "share_us") == [
        (device("CPU:0"), "forward", 2, 30, 30),
        (device("CPU:1"), "gradient", 1, 6, 6),
        (device("CPU:1"), "forward", 1, 10, 6),
    ]


def test_each_number_of_busy_devices_has_its_time():
    """From 10 to 12 nothing ran, from 20 to 24 both did."""
    assert overlap(device_time(*TOWERS).overlap) == {0: 2, 1: 34, 2: 4}


def test_compute_devices_are_counted_apart_from_the_host():
    """Beside GPUs a CPU only serves: its time is no overlap of theirs."""
    found = device_time(
        op("h", on="CPU:0", start_us=0, duration_us=30),
        op("a", on="GPU:0", start_us=0, duration_us=10),
        op("b", on="GPU:1", start_us=10, duration_us=10),
    )

    assert found.devices["is_compute"].to_list() == [False, True, True]
    assert overlap(found.overlap) == {0: 0, 1: 10, 2: 20, 3: 0}
    assert overlap(found.compute_overlap) == {0: 10, 1: 20, 2: 0}


def test_kernels_keep_a_gpu_busy_and_their_launches_are_told_apart():
    """Rows of each stream repeat that of all streams; copies are no kernels."""
    found = device_time(
        op("x", on="GPU:0", start_us=0, duration_us=2),
        kernel("x", 5, 20),
        kernel("x", 5, 20, row="stream:7"),
        kernel("edge_7_x", 30, 9, row="stream:8", op_type="MEMCPYDtoH"),
    )

    columns = ("times", "ops", "busy_us", "launch_us", "kernel_us")
    assert rows(found.devices, *columns) == [("kernels", 1, 20, 2, 20)]
    assert rows(found.roles, "role", "ops") == [("forward", 1)]


def test_kernels_that_a_tracer_puts_on_one_gpu_keep_those_of_their_ops_busy():
    """Up to TensorFlow 1.13 a tracer called every GPU 0."""
    found = device_time(
        op("x", on="GPU:0", start_us=0, duration_us=2),
        op("y", on="GPU:1", start_us=0, duration_us=2),
        kernel("x", 5, 20),
        kernel("y", 6, 30),
    )

    assert rows(found.devices, "busy_us", "kernel_us") == [(20, 20), (30, 30)]


def test_kernels_of_unknown_devices_leave_only_launches():
    """A device whose kernels are lost would look idle."""
    found = device_time(
        op("x", on="GPU:0", start_us=0, duration_us=2),
        op("y", on="GPU:1", start_us=0, duration_us=3),
        kernel("x", 5, 20),
        kernel("void Eigen::scan()", 6, 30),
    )

    columns = ("times", "busy_us", "launch_us", "kernel_us")
    assert found.lost_kernels == 1
    assert rows(found.devices, *columns) == [
        ("launches", 2, 2, None),
        ("launches", 3, 3, None),
    ]


def test_a_kernel_without_an_op_belongs_to_the_only_gpu():
    """With one device of a type nothing else can have run it."""
    found = device_time(
        op("h", on="CPU:0", start_us=0, duration_us=1),
        op("x", on="GPU:0", start_us=0, duration_us=2),
        kernel("void Eigen::scan()", 6, 30),
    )

    assert found.lost_kernels == 0
    assert found.devices["kernel_us"].to_list() == [None, 30]


def test_a_trace_that_proves_no_placement_has_times_and_no_roles():
    """A tracer alone tells when its devices were busy."""
    found = device_time(kernel("x", 0, 20), kernel("y", 30, 10))

    columns = ("times", "ops", "busy_us", "launch_us", "kernel_us")
    assert rows(found.devices, *columns) == [("kernels", 2, 30, None, 30)]
    assert found.roles.is_empty()
    assert found.input is None
    assert found.unused is None


def test_without_durations_no_time_is_claimed():
    """Ops are counted; how long a device was busy or idle stays null."""
    found = device_time(
        op("a", start_us=0, duration_us=0),
        op("b", on="CPU:1", start_us=9, duration_us=0),
    )

    assert not found.is_timed
    assert rows(found.devices, "ops", "busy_us", "idle_us") == [
        (1, None, None),
        (1, None, None),
    ]
    assert found.gaps.is_empty()
    assert found.idle.is_empty()
    assert found.roles.is_empty()
    assert found.input is None


def test_a_device_of_the_session_that_ran_nothing_is_named():
    """A CPU beside GPUs is not meant to compute."""
    found = device_time(
        op("a", on="GPU:0"), section=session("CPU:0", "GPU:0", "GPU:1", "GPU:2")
    )

    assert found.unused == (device("GPU:1"), device("GPU:2"))


def test_time_between_steps_is_no_idle_time_of_a_device():
    """Each step has its span; what lies between is told apart."""
    found = device_time(
        op("a", start_us=0, duration_us=10, step=0),
        op("b", on="CPU:1", start_us=5, duration_us=10, step=0),
        op("a", start_us=100, duration_us=10, step=1),
        op("b", on="CPU:1", start_us=112, duration_us=8, step=1),
    )

    assert rows(found.steps, "step", "start_us", "span_us", "between_us") == [
        (0, 0, 15, None),
        (1, 100, 20, 85),
    ]
    assert found.span_us == 35
    assert rows(found.devices, "busy_us", "idle_us") == [(20, 15), (18, 17)]


def test_steps_that_were_joined_without_a_pause_tell_nothing_of_the_time_between():
    """What nobody traced is left out, so it is not known to be 0."""
    found = device_time(
        op("a", start_us=0, duration_us=10, step=0),
        op("a", start_us=10, duration_us=10, step=1),
    )

    assert found.steps["between_us"].to_list() == [None, None]


def test_input_costs_while_it_runs_alone_and_while_others_wait_for_it():
    """From 0 to 10 only input runs, and the GPU waits; from 22 to 30 it waits again."""
    found = device_time(
        op("next", op_type="IteratorGetNext", start_us=0, duration_us=10),
        op("a", on="GPU:0", start_us=10, duration_us=10, inputs=["next"]),
        op("h", start_us=18, duration_us=12),
        op("more", op_type="IteratorGetNext", start_us=22, duration_us=8),
        op("b", on="GPU:0", start_us=30, duration_us=10, inputs=["more"]),
    )

    assert found.input is not None
    assert (found.input.ops, found.input.feeds) == (2, 0)
    assert found.input.alone_us == 10
    assert found.input.wait_us == 10 + 10
    assert found.input.bound_us == 20


@pytest.mark.parametrize(
    ("step_times_us", "call_us", "outside_us"),
    [((), None, None), ((9, 60, 50), 50, 10), ((30,), 30, 0)],
)
def test_the_call_of_a_step_may_take_longer_than_its_ops(
    step_times_us, call_us, outside_us
):
    """The median of untraced calls is compared with the traced step."""
    section = session("CPU:0", "CPU:1", step_times_us=step_times_us)
    found = device_time(FEED, *TOWERS, section=section)

    assert found.input is not None
    assert (found.input.ops, found.input.feeds) == (1, 1)
    assert (found.input.call_us, found.input.outside_us) == (call_us, outside_us)


def test_one_op_is_a_step():
    """Nothing else ran, so nothing was idle."""
    found = device_time(op("a"))

    assert rows(found.devices, "busy_us", "idle_us") == [(10, 0)]
    assert found.idle.is_empty()
    assert overlap(found.overlap) == {0: 0, 1: 10}


TYPES = ("MatMul", "IteratorGetNext", "ResourceApplyAdam", "_Send")
OPS = st.lists(
    st.tuples(
        st.sampled_from(["CPU:0", "CPU:1", "CPU:2"]),
        st.sampled_from(TYPES),
        st.integers(0, 1),
        st.integers(0, 30),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(OPS)
def test_all_times_are_those_of_counting_microseconds(drawn):
    """Busy, idle, shares and overlap are what a clock that ticks each µs counts."""
    found_flow = flow(
        *(
            op(f"n{i}", on, op_type=kind, step=step, start_us=start + 50 * step)
            | {"duration_us": duration}
            for i, (on, kind, step, start, duration) in enumerate(drawn)
        )
    )
    found = find_device_time(found_flow)

    ops = found_flow.ops.rows(named=True)
    spans = {}
    for each in ops:
        first, last = spans.get(each["step"], (10**9, 0))
        spans[each["step"]] = (
            min(first, each["start_us"]),
            max(last, each["end_us"]),
        )
    is_timed = any(each["duration_us"] for each in ops)
    time = [m for m in range(120) if any(a <= m < b for a, b in spans.values())]
    running = {
        name: [
            {
                each["role"]
                for each in ops
                if each["device"] == name and each["start_us"] <= m < each["end_us"]
            }
            for m in time
        ]
        for name in found_flow.trace.devices
    }
    if not is_timed:
        assert found.span_us == 0
        return
    assert found.span_us == len(time)
    for name, moments in running.items():
        busy = sum(map(bool, moments))
        row = found.devices.row(by_predicate=pl.col("device") == name, named=True)
        assert (row["busy_us"], row["idle_us"]) == (busy, len(time) - busy)
        idle = found.idle.filter(pl.col("device") == name)["idle_us"].sum()
        assert idle == len(time) - busy
        first = [min(roles, key=list(Role).index) for roles in moments if roles]
        shares = rows(found.roles.filter(pl.col("device") == name), "role", "share_us")
        assert shares == [(role, first.count(role)) for role, _ in shares]
        assert sum(share for _, share in shares) == busy
    depth = [
        sum(bool(moments[i]) for moments in running.values()) for i in range(len(time))
    ]
    assert overlap(found.overlap) == {
        n: depth.count(n) for n in range(len(running) + 1)
    }


@pytest.mark.parametrize(
    "path", [*sorted(SAMPLES.glob("*.json")), *GPUS], ids=lambda path: path.stem
)
def test_the_sums_of_real_runs_agree(path):
    """Busy and idle fill the step, roles the busy and reasons the idle time."""
    analysis = analyze_run(load_run(path, cache=False))
    found = find_device_time(Flow(analysis.run, analysis.colocation))

    for row in found.devices.rows(named=True):
        is_it = pl.col("device") == row["device"]
        assert row["busy_us"] + row["idle_us"] == found.span_us
        assert found.roles.filter(is_it)["share_us"].sum() == row["busy_us"]
        assert found.idle.filter(is_it)["idle_us"].sum() == row["idle_us"]
    times = found.overlap["time_us"]
    assert times.sum() == found.span_us
    busy = (found.overlap["busy_devices"] * times).sum()
    assert busy == found.devices["busy_us"].sum()
