import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import NoOpsError, Run, TraceError, load_run, parse_run
from placement_viz.analysis.colocation import judge_gradients
from placement_viz.model import RowKind
from placement_viz.parser.placement_log import is_placement_log, read_placement_log
from tests.builders import TASK, device, event, timeline

LOG = f"""\
Device mapping:
{TASK}/device:GPU:0 -> device: 0, name: Tesla K80, pci bus id: 0000:00:1e.0
mm: (MatMul): {TASK}/device:GPU:0
gradients/mm_grad/MatMul: (MatMul): {TASK}/device:CPU:0
step 1, loss 0.5
""".encode()


def read(data):
    """Return the run in a log."""
    return parse_run(data, source="train.log")


def is_run_or_trace_error(reader, data):
    """Return whether a reader keeps its promise for ``data``."""
    try:
        run = reader(data, source="fuzz")
    except TraceError as error:
        return "\n" not in str(error)
    return isinstance(run, Run) and run.trace.ops.height > 0


def placements(run):
    """Return node, type and device of each op."""
    return run.trace.ops.select("name", "op_type", "device").rows()


PLACER = "2018-07-01 10:00:00.000001: I tensorflow/core/common_runtime/placer.cc:874] "


SIMPLE = "I tensorflow/core/common_runtime/simple_placer.cc:841] "
RECENT = "I0000 00:00:1790000000.1 3635 placer.cc:162] "


@pytest.mark.parametrize(
    ("line", "op_type", "short"),
    [
        (f"a/mm: (MatMul): {TASK}/device:GPU:1", "MatMul", "GPU:1"),
        (f"{RECENT}a/mm: (MatMul): {TASK}/device:CPU:1", "MatMul", "CPU:1"),
        (f"{PLACER}a/mm: (MatMul){TASK}/device:GPU:1", "MatMul", "GPU:1"),
        (f"{SIMPLE}a/mm: (MatMul){TASK}/gpu:0", "MatMul", "GPU:0"),
        (f"{SIMPLE}a/mm: {TASK}/gpu:0", "", "GPU:0"),
        (f"a/mm: {TASK}/gpu:0", "", "GPU:0"),
        (f"[1,0]<stdout>:a/mm: (MatMul): {TASK}/device:GPU:1\r", "MatMul", "GPU:1"),
    ],
)
def test_a_line_of_every_era_is_read(line, op_type, short):
    """TensorFlow changed the text several times, and launchers add to it."""
    run = read(f"{line}\n".encode())

    assert placements(run) == [("a/mm", op_type, device(short))]
    assert run.trace.devices == (device(short),)


def test_a_log_is_a_run_without_times():
    """Every op is on its device, at 0 and for no time, and the reader is told."""
    run = read(LOG)

    assert run.format == "placement-log"
    assert placements(run) == [
        ("mm", "MatMul", device("GPU:0")),
        ("gradients/mm_grad/MatMul", "MatMul", device("CPU:0")),
    ]
    assert run.trace.ops["row_kind"].unique().to_list() == [RowKind.EXECUTOR]
    assert run.trace.span_us == 0
    assert [notice.code for notice in run.trace.notices] == ["no-times"]


def test_the_rest_of_a_log_is_counted():
    """What says nothing about an op is no op and is not forgotten."""
    assert read(LOG).trace.skipped == {"other line": 3}


def test_a_misplaced_gradient_is_found_in_a_log():
    """Where a gradient op was placed can be judged without times."""
    (row,) = judge_gradients(read(LOG)).misplaced.to_dicts()

    assert row["name"] == "gradients/mm_grad/MatMul"
    assert row["expected_device"] == device("GPU:0")


def test_a_node_that_is_logged_again_is_one_op():
    """Each run of a session with new fetches logs all nodes again."""
    trace = read(LOG + LOG).trace

    assert trace.ops.height == 2
    assert trace.skipped["repeated line"] == 2


def test_a_node_on_two_devices_is_two_ops_and_proves_nothing_as_a_graph():
    """Nodes of two functions may have one name; which is meant is not known."""
    run = read(f"a: (Add): {TASK}/gpu:0\na: (Add): {TASK}/gpu:1\n".encode())

    assert run.trace.ops["device"].to_list() == [device("GPU:0"), device("GPU:1")]
    assert run.graph.placed == {}


def test_an_eager_op_is_read_each_time_it_is_executed():
    """It has no name but its type, and its own little graph is not another op."""
    lines = [
        f"a: (_Arg): {TASK}/device:CPU:0",
        f"MatMul: (MatMul): {TASK}/device:CPU:0",
        f"inner/mm: (MatMul): {TASK}/device:CPU:0",
        *[f"Executing op MatMul in device {TASK}/device:CPU:0"] * 2,
    ]

    run = read("\n".join(lines).encode())

    assert sorted(run.trace.ops["name"]) == ["MatMul", "MatMul", "a", "inner/mm"]
    assert run.graph.placed == {"inner/mm": device("CPU:0")}


def test_what_a_program_prints_is_no_placement():
    """A TensorFlow that writes types writes them on every line."""
    run = read(LOG + f"w.device: {TASK}/device:CPU:0\n".encode())

    assert "w.device" not in run.trace.ops["name"]
    assert run.trace.skipped["other line"] == 4


def test_a_log_need_not_be_text_of_one_encoding():
    """Progress bars and messages of other programs are not always UTF-8."""
    assert read(b"\xff\xfe bar \xe2\x96\n" + LOG).trace.ops.height == 2


def test_a_log_may_begin_like_json():
    """Other loggers begin a line with the time in brackets."""
    assert read(b"[2020-01-01 10:00:00] starting\n" + LOG).format == "placement-log"


def test_a_gzipped_log_is_read():
    """The content decides, not the name."""
    assert placements(read(gzip.compress(LOG))) == placements(read(LOG))


def test_a_log_without_a_placement_is_no_run():
    """A log of a program that did not ask for it says what to do."""
    with pytest.raises(NoOpsError, match="set log_device_placement"):
        read_placement_log(b"step 1, loss 0.5\n", source="train.log")
    assert not is_placement_log(b"step 1, loss 0.5\n")


def test_a_log_beside_a_trace_places_what_did_not_run(tmp_path):
    """A forward op that the step did not run is where the log says."""
    (tmp_path / "run.json").write_bytes(timeline(event("gradients/mm_grad/MatMul")))
    (tmp_path / "train.log").write_bytes(LOG)

    run = load_run(tmp_path / "run.json", graph=tmp_path / "train.log")

    assert judge_gradients(run).misplaced["forward_device"].to_list() == [
        device("GPU:0")
    ]
    assert "placed-only" in {notice.code for notice in run.trace.notices}


def test_a_log_beside_a_trace_changes_no_other_verdict(tmp_path):
    """It knows neither inputs nor requests, so it claims none."""
    names = ("mm", "gradients/mm_grad/MatMul", "gradients/AddN", "gradients/Fill")
    events = [
        event(name, pid=1 + i % 2, ts=i, inputs=names[i + 1 :])
        for i, name in enumerate(names)
    ]
    lines = [
        f"{name}: (MatMul): {TASK}/device:CPU:{i % 2}" for i, name in enumerate(names)
    ]
    (tmp_path / "run.json").write_bytes(timeline(*events, rows=("CPU:0", "CPU:1")))
    (tmp_path / "train.log").write_text("\n".join(lines))

    alone = load_run(tmp_path / "run.json")
    both = load_run(tmp_path / "run.json", graph=tmp_path / "train.log")

    assert judge_gradients(alone).gradients.height == 3
    assert judge_gradients(both).gradients.equals(judge_gradients(alone).gradients)


PROGRAM = """
    import json, pathlib
    import tensorflow.compat.v1 as tf
    from tensorflow.python.client import timeline

    tf.disable_eager_execution()
    with tf.device("/cpu:1"):
        w = tf.Variable([[1.0]], name="w")
        loss = tf.reduce_sum(tf.matmul(w, w, name="mm"))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    config = tf.ConfigProto(log_device_placement=True, device_count={"CPU": 2})
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run([step, loss], options=options, run_metadata=metadata)
    trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    pathlib.Path("timeline.json").write_text(trace)
"""


@pytest.mark.tensorflow
def test_a_real_log_says_what_the_real_trace_says(script, python, tmp_path):
    """Ops ran where the log has them, on standard output and standard error."""
    result = python(script(PROGRAM))
    traced = load_run(tmp_path / "timeline.json").trace.ops
    ran = set(traced.select("name", "device").iter_rows())

    for text in (result.stdout, result.stderr):
        logged = dict(
            read(text.encode()).trace.ops.select("name", "device").iter_rows()
        )
        common = {name: on for name, on in ran if name in logged}
        assert {"mm", "gradients/mm_grad/MatMul"} <= common.keys()
        assert {name: logged[name] for name in common} == common


EAGER = """
    import tensorflow as tf

    tf.debugging.set_log_device_placement(True)
    x = tf.ones((2, 2))
    for _ in range(3):
        x = tf.transpose(x)
"""


@pytest.mark.tensorflow
def test_a_real_eager_log_has_every_execution(script, python):
    """Ops that are executed one by one are in it as often as they were."""
    run = read(python(script(EAGER)).stderr.encode())

    assert run.trace.ops["op_type"].to_list().count("Transpose") == 3


@given(st.integers(0, len(LOG)), st.binary(min_size=1, max_size=4))
def test_a_damaged_log_gives_a_run_or_a_trace_error(position, damage):
    """Nothing but a TraceError of one line ever leaves the reader."""
    data = bytearray(LOG)
    data[position : position + len(damage)] = damage

    assert is_run_or_trace_error(parse_run, bytes(data))
    assert is_run_or_trace_error(read_placement_log, bytes(data))
