import gzip
import json

import pytest

from placement_viz import NoOpsError, TraceFormatError, load_run, parse_run
from placement_viz.model import RowKind
from placement_viz.schema import SCHEMA_VERSION
from tests.builders import device, event, timeline


def parse(data, **options):
    """Return the run in ``data``."""
    return parse_run(data, source="run.json", **options)


def test_an_op_is_read_with_its_node_type_and_inputs():
    """The node is in ``args``, and the event's own name is the op type."""
    (row,) = parse(timeline(event("mm", inputs=["x", "w:1"]))).trace.ops.to_dicts()

    assert row == {
        "name": "mm",
        "op_type": "MatMul",
        "device": device("CPU:0"),
        "row_kind": RowKind.EXECUTOR,
        "row": device("CPU:0"),
        "lane": 0,
        "start_us": 0,
        "duration_us": 10,
        "inputs": ["x", "w:1"],
        "step": 0,
    }


def test_times_are_relative_to_the_first_op():
    """The file's clock is kept apart, and ops are in order of start."""
    trace = parse(timeline(event("late", ts=700), event("early", ts=500))).trace

    assert trace.ops["name"].to_list() == ["early", "late"]
    assert trace.ops["start_us"].to_list() == [0, 200]
    assert trace.origin_us == 500


def test_two_rows_of_one_device_are_one_device():
    """Rows are joined by name, and their lanes do not collide."""
    data = timeline(
        event("a", pid=1, tid=0), event("b", pid=2, tid=0), rows=("CPU:0", "CPU:0")
    )

    trace = parse(data).trace

    assert trace.devices == (device("CPU:0"),)
    assert sorted(trace.ops["lane"]) == [0, 1]


def test_lanes_have_no_gaps():
    """Whatever the thread ids are, lanes count from 0."""
    data = timeline(*(event("a", tid=tid, ts=tid) for tid in (7, 900, 7, 12)))

    assert sorted(set(parse(data).trace.ops["lane"])) == [0, 1, 2]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("/job:localhost/replica:0/task:0/gpu:0", RowKind.EXECUTOR),
        ("/gpu:0/stream:all", RowKind.STREAM),
        ("/device:GPU:0/stream:12", RowKind.STREAM),
        ("/gpu:0/memcpy", RowKind.MEMCPY),
        ("/gpu:1 (Tesla V100)/context#0/stream#1:Kernel", RowKind.STREAM),
        ("/host:CPU", RowKind.OTHER),
    ],
)
def test_only_a_full_device_proves_a_placement(row, kind):
    """Rows of the GPU tracer are told from rows of the executor, in every era."""
    run = parse(timeline(event("mm"), event("k", pid=2), rows=("CPU:0", row)))

    assert dict(run.trace.ops.select("name", "row_kind").iter_rows())["k"] == kind
    assert len(run.trace.devices) == (2 if kind == RowKind.EXECUTOR else 1)


@pytest.mark.parametrize(
    ("ts", "dur"),
    [(None, 1), ("soon", 1), (1, -1), (1e300, 1), (1, None), ("1e999", 1)],
)
def test_an_op_without_a_usable_time_is_counted(ts, dur):
    """It is left out of the table and not out of the account."""
    trace = parse(timeline(event("a"), event("b", ts=ts, dur=dur))).trace

    assert trace.ops["name"].to_list() == ["a"]
    assert trace.skipped["op without a usable time"] == 1


def test_times_may_be_text_or_have_fractions():
    """Other writers put numbers in quotes or after a point."""
    trace = parse(timeline(event("a", ts="100.4", dur=2.6))).trace

    assert trace.ops["duration_us"].to_list() == [3]


def test_a_gzipped_file_is_read_whatever_its_name(tmp_path):
    """The content decides, not the name, and members are joined."""
    data = timeline(event("mm"))
    path = tmp_path / "timeline.txt"
    path.write_bytes(gzip.compress(data[:50]) + gzip.compress(data[50:]))

    assert load_run(path).trace.ops.height == 1


def test_a_bare_array_of_events_is_a_trace():
    """Chrome's format allows leaving the outer object away."""
    events = json.loads(timeline(event("mm")))["traceEvents"]

    assert parse(json.dumps(events).encode()).trace.ops.height == 1


def test_a_run_file_brings_its_graph():
    """The section that capture adds becomes the run's graph."""
    section = {
        "schema": SCHEMA_VERSION,
        "nodes": [{"name": "mm", "op": "MatMul", "source": 0}],
        "placed": {"/job:localhost/replica:0/task:0/cpu:0": ["mm"]},
        "sources": ["train.py:7"],
        "a_field_of_the_future": 1,
    }

    run = parse(timeline(event("mm"), placement_viz=section))

    assert run.evidence == ("trace", "graph")
    assert run.graph.placed == {"mm": device("CPU:0")}
    assert run.graph.source_of("mm") == "train.py:7"
    assert run.graph.source_of("other") is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "run.json: expected a TensorFlow timeline in JSON, found an empty file"),
        (b"\x89PNG", "found content that starts with b'\\x89PNG'"),
        (b'{"traceEvents": [', "run.json: byte 17: expected the rest of the JSON"),
        (b'{"traceEvents": [nope]}', "run.json: byte 21: expected JSON, found invalid"),
        (b'{"traceEvents": 1}', "traceEvents: expected array, found int"),
        (b'{"traceEvents": [null]}', "traceEvents[0]: expected object, found null"),
        (b'[{"ts": {}}]', "[0].ts: expected "),
        (b'{"a": 1}', "found JSON without traceEvents"),
        (b'[{"args":' + b"[" * 100_000, "nested deeper than the"),
        (b'{"traceEvents": [], "deviceProperties": []}', "without traceEvents"),
        (b'["\xff"]', "run.json: "),
        (
            timeline(event("mm"), placement_viz={"schema": 99}),
            "placement_viz.schema: expected 1 to 1, found 99; open it with the version",
        ),
        (
            timeline(event("mm"), placement_viz={"schema": 1, "nodes": [1]}),
            "placement_viz: nodes[0]: expected object, found int",
        ),
        (timeline(placement_viz={"schema": 1}), "no op among 1 events"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(data, message):
    """The line says where, what was expected and what was found."""
    with pytest.raises((TraceFormatError, NoOpsError)) as caught:
        parse(data)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trace_without_ops_is_an_error_of_its_own():
    """Valid JSON with no op in it is not an empty page."""
    with pytest.raises(NoOpsError, match="only a Session step run with FULL_TRACE"):
        parse(timeline())


def test_a_gzip_bomb_is_refused():
    """The limit is on the content, not on the file."""
    bomb = gzip.compress(bytes(10_000_000))

    with pytest.raises(TraceFormatError, match=r"at most 1\.0 MiB of content"):
        parse(bomb, limit_bytes=2**20)


@pytest.mark.parametrize("cut", [3, 12])
def test_gzip_data_without_content_is_named(cut):
    """A gzip file that breaks off before anything was packed says so."""
    data = gzip.compress(timeline(event("mm")))

    with pytest.raises(TraceFormatError, match="gzip data, found the end of the file"):
        parse(data[:cut])


def test_a_missing_file_is_named(tmp_path):
    """The message has the path and the system's reason."""
    with pytest.raises(TraceFormatError, match=r"gone\.json: .*no such file"):
        load_run(tmp_path / "gone.json")


def test_an_empty_folder_is_no_run(tmp_path):
    """A folder is asked for traces, and says which folders may have them."""
    (tmp_path / "auto").mkdir()

    with pytest.raises(TraceFormatError, match="no file in it but the folders auto"):
        load_run(tmp_path)


def test_received_tensors_are_no_ops():
    """What a device got from another process is a transfer on a line of its own."""
    trace = parse(
        timeline(event("RecvTensor", op="RecvTensor", ts=0), event("mm", ts=5))
    ).trace

    assert trace.ops["row_kind"].to_list() == [RowKind.RECEIVE, RowKind.EXECUTOR]
    assert trace.ops["lane"].to_list() == [0, 1]
    assert trace.executed["name"].to_list() == ["mm"]


def test_a_placement_without_times_is_a_run():
    """Every placed node is an op that takes no time, on its device."""
    section = {
        "schema": SCHEMA_VERSION,
        "function": "step",
        "nodes": [{"name": "mm", "op": "MatMul", "inputs": ["x"]}],
        "placed": {device("CPU:1"): ["mm", "made_up"], device("CPU:0"): ["x"]},
        "remarks": ["the op x calls Python code"],
    }

    run = parse(json.dumps({"traceEvents": [], "placement_viz": section}).encode())

    columns = ("name", "op_type", "device", "duration_us", "inputs")
    assert run.trace.ops.select(columns).rows() == [
        ("mm", "MatMul", device("CPU:1"), 0, ["x"]),
        ("made_up", "", device("CPU:1"), 0, []),
        ("x", "", device("CPU:0"), 0, []),
    ]
    assert run.trace.span_us == 0
    assert [notice.message for notice in run.trace.notices] == section["remarks"]


@pytest.mark.parametrize(("width", "codes"), [(8, ["narrow-link"]), (16, []), (0, [])])
def test_a_narrow_link_is_noticed(width, codes):
    """A card on fewer lanes than it has is named; one that does not tell is not."""
    gpu = {"name": "Tesla V100", "link_width": width, "max_link_width": 16}
    section = {"schema": SCHEMA_VERSION, "hardware": {"gpus": [gpu]}}

    run = parse(timeline(event("mm"), placement_viz=section))

    assert [notice.code for notice in run.trace.notices] == codes


def test_a_separator_in_a_name_is_shown_as_what_it_is():
    """A control character that no TensorFlow name has does not split an input."""
    run = parse(timeline(event("mm", inputs=["a\x1fb", "c"])))

    assert run.trace.ops["inputs"].to_list() == [["a\ufffdb", "c"]]


def test_many_inputs_are_all_read():
    """An op may have any number of inputs, and none of a gap in their numbers."""
    names = [f"x{i}" for i in range(40)]
    gap = {"name": "late", "op": "AddN", "input0": "a", "input2": "c"}

    run = parse(timeline(event("sum", inputs=names), event("late", args=gap)))

    assert run.trace.ops["inputs"].to_list() == [names, ["a"]]
