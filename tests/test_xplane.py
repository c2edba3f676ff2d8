import gzip
import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import NoOpsError, Run, TraceError, TraceFormatError, parse_run
from placement_viz.parser.xplane import is_xplane, read_xplane
from tests.builders import CORPUS, event, timeline

PS = 1_000_000  # in a microsecond
GPU, GPU_1, HOST = "/device:GPU:0", "/device:GPU:1", "/host:CPU"
STREAM = "Stream #7(Kernel)"

REAL = [
    CORPUS / "openxla-xprof-34_83_195_179_6003.xplane.pb",
    CORPUS / "tracelens-jax-tw003.xplane.pb",
]
is_here = pytest.mark.skipif(not REAL[0].exists(), reason="the corpus is not here")


def happened(label, start_us=0, duration_us=10, display="", **stats):
    """Return an event: label, times in ps, short name, stats; ``@…`` is a reference."""
    return label, start_us * PS, duration_us * PS, display, stats


def plane(name, lines, *, timestamp_ns=0, number=1):
    """Return an XPlane of lines with events, by name of the line."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    message = xplane_pb2.XPlane(name=name, id=number)
    ids = {}

    def stat_id(text):
        key = ids.setdefault(("stat", text), len(ids) + 1)
        message.stat_metadata[key].name = text
        return key

    for i, (line_name, events) in enumerate(lines.items()):
        line = message.lines.add(id=i, name=line_name, timestamp_ns=timestamp_ns)
        for label, offset_ps, duration_ps, display, stats in events:
            key = ids.setdefault(("event", label), len(ids) + 1)
            message.event_metadata[key].name = label
            message.event_metadata[key].display_name = display
            added = line.events.add(
                metadata_id=key, offset_ps=offset_ps, duration_ps=duration_ps
            )
            for stat, value in stats.items():
                if isinstance(value, int):
                    fields = {"int64_value": value}
                elif value.startswith("@"):
                    fields = {"ref_value": stat_id(value[1:])}
                else:
                    fields = {"str_value": value}
                added.stats.add(metadata_id=stat_id(stat), **fields)
    return message


def space(*planes):
    """Return the bytes of an XSpace."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2.XSpace(planes=planes).SerializeToString()


def run_of(*planes):
    """Return the run in an XSpace of some planes."""
    return read_xplane(space(*planes), source="run.xplane.pb")


def ops_of(*planes):
    """Return the ops in an XSpace as dictionaries."""
    return run_of(*planes).trace.ops.to_dicts()


def two_steps():
    """Return an XSpace with a bit of everything."""
    return space(
        plane(
            GPU,
            {
                STREAM: [
                    happened("gemm", 10, 20, tf_op="@a/mm:MatMul", group_id=4),
                    happened("MemcpyH2D", 40, 5, tf_op="a/x:_HostRecv"),
                    happened("tanh", 60, 20, tf_op="a/t:Tanh", group_id=5),
                ],
                "Steps": [
                    happened("0", 10, 40, group_id=4),
                    happened("1", 55, 30, group_id=5),
                ],
            },
        ),
        plane(HOST, {"tf_Compute/1": [happened("a/mm:MatMul"), happened("$call")]}),
    )


@pytest.mark.tensorflow
@pytest.mark.parametrize("number", [0, 1, 300, -1])
@pytest.mark.parametrize("name", [HOST, GPU, "/device:TPU:3", "Task Environment"])
def test_an_xspace_is_known_by_its_first_plane(name, number):
    """Whichever plane comes first, and also where planes without a content do."""
    data = space(plane(name, {STREAM: [happened("a")]}, number=number))

    assert is_xplane(data)
    assert is_xplane(data[:40])
    assert is_xplane(b"\n\x00" + data)


@pytest.mark.tensorflow
def test_messages_of_other_kinds_are_no_xspace():
    """RunMetadata, StepStats, GraphDef and SavedModel are left to their readers."""
    from tensorflow.core.framework import graph_pb2, step_stats_pb2
    from tensorflow.core.protobuf import config_pb2, saved_model_pb2

    stats = step_stats_pb2.StepStats()
    stats.dev_stats.add(device=HOST).node_stats.add(node_name=GPU)
    others = [
        stats,
        config_pb2.RunMetadata(step_stats=stats),
        graph_pb2.GraphDef(node=[{"name": HOST, "op": GPU, "device": GPU}]),
        graph_pb2.GraphDef(node=[{"op": "MatMul", "device": GPU}]),
        saved_model_pb2.SavedModel(saved_model_schema_version=1),
    ]

    assert not any(is_xplane(each.SerializeToString()) for each in others)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"\n\x12/host:CPU", b"/device:GPU:0", bytes(range(256)), b"\x08\x01"],
)
def test_what_only_looks_like_an_xspace_is_none(data):
    """Nor is a timeline, nor a text with the name of a device."""
    assert not is_xplane(data)
    assert not is_xplane(b"\n" + timeline(event("a")))


@pytest.mark.tensorflow
def test_an_xspace_is_recognised_by_its_content():
    """Plain or packed it is the same run, which says that it proves no placement."""
    plain = parse_run(two_steps(), source="profile")
    packed = parse_run(gzip.compress(two_steps()), source="profile")

    assert plain.format == packed.format == "xplane"
    assert plain.trace.ops.equals(packed.trace.ops)
    assert [notice.code for notice in plain.trace.notices] == ["no-placement"]
    assert not plain.trace.is_placed


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({"tf_op": "a/mm:MatMul"}, ("a/mm", "MatMul")),
        ({"tf_op": "@a/mm:MatMul"}, ("a/mm", "MatMul")),
        ({"tf_op": "jit(f)/dot:dot_general"}, ("jit(f)/dot", "dot_general")),
        ({"tf_op": "jit(f)/add"}, ("jit(f)/add", "")),
        ({"tf_op": "a:0/b c"}, ("a:0/b c", "")),
        ({"level 0": "a/mm:MatMul"}, ("a/mm", "MatMul")),
        ({"level 0": "b:B", "tf_op": "a:A", "hlo_op": "c"}, ("a", "A")),
        ({"tf_op": "XlaModule:", "hlo_op": "fusion.1"}, ("fusion.1", "")),
        ({"tf_op": ":MatMul"}, ("gemm", "")),
        ({"other": "a/mm:MatMul"}, ("gemm", "")),
        ({}, ("gemm", "")),
    ],
)
def test_a_kernel_is_called_after_the_op_that_it_ran_for(stats, expected):
    """By the best that is known, and by its own name where no op is."""
    (op,) = ops_of(plane(GPU, {STREAM: [happened("gemm", **stats)]}))

    assert (op["name"], op["op_type"]) == expected
    assert (op["row"], op["row_kind"]) == ("/device:GPU:0/stream:7", "stream")
    assert op["device"] == GPU


@pytest.mark.tensorflow
def test_stats_that_all_events_of_a_kind_share_count_too():
    """The op of an XLA op is in its metadata; what the event itself says wins."""
    message = plane(GPU, {STREAM: [happened("k"), happened("k", 20, tf_op="b:B")]})
    for metadata in message.event_metadata.values():
        (key,) = (k for k, s in message.stat_metadata.items() if s.name == "tf_op")
        metadata.stats.add(metadata_id=key, str_value="a:A")

    assert [op["name"] for op in ops_of(message)] == ["a", "b"]


@pytest.mark.tensorflow
def test_copies_and_memsets_are_rows_of_their_own():
    """From whichever stream, their type is the kind of copy and their name the op's."""
    lines = {
        STREAM: [happened("gemm"), happened("Memset", 20)],
        "Stream #8(MemcpyH2D,Memset)": [happened("MemcpyH2D", 30, tf_op="x:_HostRecv")],
        "Stream #9(MemcpyD2H)": [happened("odd name", 40)],
    }

    ops = ops_of(plane(GPU, lines))

    assert [(op["name"], op["op_type"], op["row_kind"]) for op in ops] == [
        ("gemm", "", "stream"),
        ("Memset", "Memset", "memcpy"),
        ("x", "MemcpyH2D", "memcpy"),
        ("odd name", "odd name", "memcpy"),
    ]
    assert {op["row"] for op in ops[1:]} == {"/device:GPU:0/memcpy"}
    assert [op["lane"] for op in ops[1:]] == [0, 1, 2]


@pytest.mark.tensorflow
def test_what_repeats_the_streams_is_counted_and_not_shown():
    """Lines made of others, under any name, would count each kernel again."""
    derived = ["Steps", "XLA Modules", "XLA Ops", "TensorFlow Ops", "Some new line"]
    lines = {name: [happened(name), happened("more")] for name in derived}

    trace = run_of(plane(GPU, {STREAM: [happened("gemm")], **lines})).trace

    assert trace.ops["name"].to_list() == ["gemm"]
    assert trace.skipped == {"derived event": 2 * len(derived)}


@pytest.mark.tensorflow
def test_a_device_without_streams_shows_its_ops_of_xla():
    """As a TPU does; an op is called by its short name, not by its whole text."""
    lines = {
        "XLA Modules": [happened("jit_f", 0, 100)],
        "Some new line": [happened("jit_f", 0, 100)],
        "XLA Ops": [happened("%add.1 = f32[2] add(…)", 5, display="add.1")],
    }

    (op,) = ops_of(plane("/device:TPU:1", lines))

    assert (op["name"], op["row_kind"]) == ("add.1", "stream")
    assert op["row"] == "/device:TPU:1/XLA Ops"


@pytest.mark.tensorflow
def test_a_device_with_lines_of_its_own_shows_them():
    """A line that no profiler that we know derives from others is kept as it is."""
    lines = {
        "queue": [happened("a")],
        "": [happened("b", 20)],
        "Steps": [happened("0")],
    }

    ops = ops_of(plane("/device:CUSTOM:NPU", lines))

    assert [op["row"] for op in ops] == [
        "/device:CUSTOM:NPU/queue",
        "/device:CUSTOM:NPU/1",
    ]
    assert {op["row_kind"] for op in ops} == {"other"}


@pytest.mark.tensorflow
def test_the_host_shows_its_ops_and_counts_the_rest():
    """Calls of Python, of the runtime and of the driver are no ops."""
    threads = {
        "tf_Compute/1": [
            happened("a/mm:MatMul", 0),
            happened("a/x/_3:_Send", 20, display="_Send"),
            happened("ExecutorState::Process", 20),
        ],
        "python": [happened("$script.py:3 train"), happened("EagerExecute: f")],
        "Host Threads/4": [happened("hipLaunchKernel", tf_op="a:A", hlo_op="dot")],
        "tf_XLAEigen/5": [happened("dot.1", 40, hlo_op="@dot.1")],
    }

    trace = run_of(plane(HOST, threads)).trace

    assert trace.ops.select("name", "op_type").rows() == [
        ("a/mm", "MatMul"),
        ("a/x/_3", "_Send"),
        ("dot.1", ""),
    ]
    assert trace.ops["row_kind"].unique().to_list() == ["other"]
    assert trace.ops["device"].unique().to_list() == [HOST]
    assert trace.ops["lane"].to_list() == [0, 0, 1]
    assert trace.skipped == {"host event": 4}


@pytest.mark.tensorflow
def test_planes_that_are_neither_a_device_nor_the_host_are_counted():
    """Whatever they hold, it ran nowhere that has a row."""
    other = plane("#Chip1 Misc", {STREAM: [happened("a"), happened("b")]})

    trace = run_of(other, plane(GPU, {STREAM: [happened("gemm")]})).trace

    assert trace.ops.height == 1
    assert trace.skipped == {"other": 2}


@pytest.mark.tensorflow
def test_an_op_within_another_has_a_lane_of_its_own():
    """And ops that follow each other share one."""
    events = [happened("a", 0, 30), happened("b", 5, 10), happened("c", 15, 5)]

    ops = ops_of(plane(GPU, {STREAM: [*events, happened("d", 30, 5)]}))

    assert [op["lane"] for op in ops] == [0, 1, 1, 0]


@pytest.mark.tensorflow
def test_planes_of_one_name_are_one_device():
    """Rows that are called the same are one row, with lanes for each."""
    same = plane(GPU, {STREAM: [happened("a", 0, 50)]})

    ops = ops_of(same, same)

    assert len({(op["device"], op["row"]) for op in ops}) == 1
    assert [op["lane"] for op in ops] == [0, 1]


@pytest.mark.tensorflow
@given(
    st.lists(st.integers(0, 3 * PS), min_size=1, max_size=20),
    st.integers(0, 2**63 - 1),
)
@settings(deadline=None)
def test_ops_that_follow_each_other_still_do_in_microseconds(durations_ps, origin_ns):
    """However short they are and whatever the clock, without a gap or an overlap."""
    offsets = itertools.accumulate(durations_ps, initial=0)
    events = [
        (f"k{i}", offset, duration, "", {})
        for i, (offset, duration) in enumerate(zip(offsets, durations_ps, strict=False))
    ]

    trace = run_of(plane(GPU, {STREAM: events}, timestamp_ns=origin_ns)).trace

    ends = (trace.ops["start_us"] + trace.ops["duration_us"]).to_list()
    assert trace.ops["start_us"].to_list() == [0, *ends[:-1]]
    assert abs(ends[-1] * PS - sum(durations_ps)) <= PS
    assert abs(trace.origin_us * 1000 - origin_ns) <= 500


@pytest.mark.tensorflow
def test_steps_of_the_devices_are_numbered_in_order_of_time():
    """A step is the same on all devices though it starts earlier on one of them."""
    steps = {
        GPU_1: [happened("9", 140, group_id=6), happened("8", 90, group_id=3)],
        GPU: [
            happened("9", 80, group_id=6),
            happened("8", 50, group_id=3),
            happened("7", 0, group_id=9),
        ],
    }
    kernels = {
        GPU: [happened("a", 10), happened("b", 49), happened("c", 50)],
        GPU_1: [happened("d", 60), happened("e", 139), happened("f", 300)],
    }

    ops = ops_of(*(plane(d, {STREAM: kernels[d], "Steps": steps[d]}) for d in steps))

    found = {op["name"]: op["step"] for op in ops}
    # Before GPU 1 has started a step, its first step is the nearest.
    assert found == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 1, "f": 2}


@pytest.mark.tensorflow
def test_an_event_of_a_group_belongs_to_the_step_of_this_group():
    """Also when the next step has already started; other groups go by time."""
    kernels = [
        happened("late", 60, group_id=4),
        happened("next", 61, group_id=5),
        happened("foreign", 62, group_id=77),
        happened("early", 5, group_id=4),
    ]
    steps = [happened("0", 0, 70, group_id=4), happened("1", 55, group_id=5)]

    ops = ops_of(plane(GPU, {STREAM: kernels, "Steps": steps}))

    found = {op["name"]: op["step"] for op in ops}
    assert found == {"early": 0, "late": 0, "next": 1, "foreign": 1}


@pytest.mark.tensorflow
def test_steps_that_the_program_counted_hold_for_all_planes():
    """Where no device has steps; a count that starts again is another step."""
    counted = [
        happened("train", start, 30, step_num=count)
        for start, count in [(0, 0), (1, 0), (100, 1), (200, 0)]
    ]
    kernels = [happened(f"k{start}", start) for start in (0, 10, 90, 150, 250)]

    ops = ops_of(plane(GPU, {STREAM: kernels}), plane(HOST, {"python": counted}))

    assert [op["step"] for op in ops] == [0, 0, 0, 1, 2]


@pytest.mark.tensorflow
def test_steps_in_which_nothing_ran_leave_no_gap():
    """Steps of a run are 0, 1, … also where the first ones had no op."""
    counted = [happened("train", 100 * i, step_num=i) for i in range(4)]
    kernels = [happened("a", 150), happened("b", 350)]

    ops = ops_of(plane(GPU, {STREAM: kernels}), plane(HOST, {"python": counted}))

    assert [op["step"] for op in ops] == [0, 1]


@pytest.mark.tensorflow
def test_what_lost_its_name_or_its_time_is_not_lost_silently():
    """An event without metadata is unknown, one without a time is counted."""
    message = plane(GPU, {STREAM: [happened("k", tf_op="a:A"), happened("b", -10, 5)]})
    message.lines[0].events.add(metadata_id=99, offset_ps=20 * PS)
    message.lines[0].events.add(metadata_id=98, duration_ps=-1)
    message.lines[0].events.add(metadata_id=97, num_occurrences=3)
    message.lines[0].events[0].stats.add(metadata_id=96, ref_value=95)
    (tf_op,) = message.stat_metadata
    message.lines[0].events[1].stats.add(metadata_id=tf_op, ref_value=95)

    trace = run_of(message).trace

    assert trace.ops["name"].to_list() == ["b", "a", "unknown"]
    assert trace.ops["start_us"].to_list() == [0, 10, 30]
    assert trace.skipped == {"op without a usable time": 2}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "planes",
    [
        [],
        [(GPU, {})],
        [(GPU, {"Steps": [happened("0")]})],
        [(HOST, {"python": [happened("$f")]}), (GPU, {STREAM: []})],
    ],
)
def test_a_profile_in_which_no_op_ran_is_said_to_be_one(planes):
    """In one line that says how many events there were and what to do."""
    with pytest.raises(NoOpsError, match=r"^run.xplane.pb: no op among \d events? of"):
        run_of(*(plane(name, lines) for name, lines in planes))


@pytest.mark.tensorflow
def test_a_damaged_xspace_is_said_to_be_damaged():
    """As is one that was cut off."""
    with pytest.raises(TraceFormatError, match=r"^cut: expected a profiler's xplane, "):
        parse_run(two_steps()[:-3], source="cut")


@pytest.mark.tensorflow
def test_without_tensorflow_it_is_said_what_is_missing(monkeypatch):
    """And not that the file is damaged."""
    data = two_steps()
    monkeypatch.setitem(sys.modules, "tensorflow.tsl.profiler.protobuf", None)

    with pytest.raises(TraceFormatError, match="install tensorflow"):
        read_xplane(data, source="run.xplane.pb")


def is_run_or_trace_error(data):
    """Return whether the reader keeps its promise for ``data``."""
    try:
        run = read_xplane(data, source="fuzz")
    except TraceError as error:
        return "\n" not in str(error)
    return isinstance(run, Run) and run.trace.ops.height > 0


edits = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6
)


@pytest.mark.tensorflow
@given(edits)
@settings(deadline=None, max_examples=300)
def test_a_damaged_xspace_gives_a_run_or_a_trace_error(edits):
    """Whatever bytes are changed, nothing else leaves the reader."""
    data = bytearray(two_steps())
    for position, byte in edits:
        data[position % len(data)] = byte

    assert is_run_or_trace_error(bytes(data))


numbers = st.sampled_from([0, 1, -1, 5, 2**62, 2**63 - 1, -(2**63)]) | st.integers(
    -(2**63), 2**63 - 1
)
texts = st.sampled_from(["", "Steps", STREAM, "MemcpyH2D", "a:A", GPU, HOST, "\x1f\n"])
odd_events = st.builds(
    lambda label, start, duration, tf_op, group: (
        label,
        start,
        duration,
        "",
        {"tf_op": tf_op, "group_id": group, "step_num": group},
    ),
    *(texts, numbers, numbers, texts | numbers, texts | numbers),
)
lines = st.dictionaries(
    st.sampled_from([STREAM, "Steps", "", "XLA Ops", "memcpy"]),
    st.lists(odd_events, max_size=4),
    max_size=3,
)


@pytest.mark.tensorflow
@given(
    st.lists(st.tuples(st.sampled_from([GPU, HOST, "#"]), lines, numbers), max_size=3)
)
@settings(deadline=None)
def test_any_values_in_an_xspace_give_a_run_or_a_trace_error(planes):
    """Also at the ends of what its fields can hold."""
    data = space(
        *(
            plane(name, lines, timestamp_ns=timestamp_ns)
            for name, lines, timestamp_ns in planes
        )
    )

    assert is_run_or_trace_error(data)


def independent_reading(path):
    """Return starts and ends in µs of what ran, by device and kind.

    Copies are apart. On the host, TensorFlow's profiler gives the ops a second,
    shorter name, which is their type; only tensors sent to other tasks have none.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    message = xplane_pb2.XSpace.FromString(path.read_bytes())
    found = {}
    for each, line in ((p, line) for p in message.planes for line in p.lines):
        is_stream = line.name.startswith("Stream #")
        for op in line.events:
            metadata = each.event_metadata[op.metadata_id]
            op_type = metadata.display_name or "_Send"
            is_op = metadata.name.endswith(f":{op_type}")
            if is_stream if each.name.startswith("/device") else is_op:
                kind = "memcpy" if metadata.name.startswith("Mem") else "op"
                start = line.timestamp_ns / 1e3 + op.offset_ps / 1e6
                ops = found.setdefault((each.name, kind), [])
                ops.append((start, start + op.duration_ps / 1e6))
    return found


@is_here
@pytest.mark.tensorflow
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_every_op_of_a_real_profile_is_there(path):
    """Counts and times agree with a plain walk over the message."""
    from placement_viz import load_run

    trace = load_run(path).trace
    found = {}
    for op in trace.ops.iter_rows(named=True):
        kind = "memcpy" if op["row_kind"] == "memcpy" else "op"
        start = trace.origin_us + op["start_us"]
        ops = found.setdefault((op["device"], kind), [])
        ops.append((start, start + op["duration_us"]))

    expected = independent_reading(path)
    assert {key: len(ops) for key, ops in found.items()} == {
        key: len(ops) for key, ops in expected.items()
    }
    for key, ops in found.items():
        for which in (0, 1):
            times = sorted(op[which] for op in ops)
            others = sorted(op[which] for op in expected[key])
            assert times == pytest.approx(others, abs=0.51)


@is_here
@pytest.mark.tensorflow
def test_real_profiles_name_the_ops_behind_the_kernels():
    """TensorFlow's by their nodes, JAX's by the ops of XLA."""
    from placement_viz import load_run

    tensorflow, jax = (load_run(path).trace.ops for path in REAL)

    kernels = tensorflow.filter(row_kind="stream")
    assert kernels["op_type"].min() == "BroadcastTo"
    assert kernels["name"].str.contains("(^|/)replica_[46]/").all()
    assert "input_transpose_fusion.1" in jax["name"].to_list()
    assert "XlaModule" not in jax["name"].to_list()


TRAIN = """
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    weights = tf.Variable(tf.ones((64, 64)))

    @tf.function
    def train(x):
        with tf.GradientTape() as tape:
            with tf.device("/CPU:1"):
                y = tf.matmul(x, weights, name="layer")
            loss = tf.reduce_sum(tf.tanh(y))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))

    x = tf.ones((64, 64))
    train(x)
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
    tf.profiler.experimental.start("profile", options)
    for step in range(3):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            train(x)
    tf.profiler.experimental.stop()
"""


@pytest.mark.tensorflow
def test_a_profile_that_tensorflow_makes_now_shows_its_steps(script, python, tmp_path):
    """Each of three steps has the ops of the model and what it sent to a device."""
    from placement_viz import load_run

    done = python(script(TRAIN))
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("profile/**/*.xplane.pb")

    run = load_run(path)

    assert run.format == "xplane"
    assert run.trace.skipped["host event"] > 0
    steps = run.trace.ops.partition_by("step", as_dict=True)
    assert sorted(steps) == [(0,), (1,), (2,)]
    for ops in steps.values():
        assert {"layer", "Tanh", "gradient_tape/layer/MatMul"} <= set(ops["name"]), ops
        assert "_Send" in set(ops["op_type"])
