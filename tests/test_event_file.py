import gzip
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import NoOpsError, Run, TraceError, TraceFormatError
from placement_viz.parser import load_run, parse_run
from placement_viz.parser.checksum import masked_crc32c
from placement_viz.parser.event_file import is_event_file, parse_event_file
from tests.builders import event, timeline


def record(data):
    """Return ``data`` as a record of an event file."""
    length = struct.pack("<Q", len(data))
    parts = ((part, struct.pack("<I", masked_crc32c(part))) for part in (length, data))
    return b"".join(each for part in parts for each in part)


def events(*found):
    """Return an event file of ``found``: the fields of an event each."""
    from tensorflow.core.util import event_pb2

    first = {"file_version": "brain.Event:2"}
    return b"".join(
        record(event_pb2.Event(**each).SerializeToString()) for each in (first, *found)
    )


def metadata(*nodes):
    """Return the RunMetadata of a step that ran ``nodes``."""
    from tensorflow.core.framework import step_stats_pb2
    from tensorflow.core.protobuf import config_pb2

    ran = [
        {
            "node_name": node,
            "timeline_label": f"{node} = MatMul(x)",
            "all_start_micros": 100,
            "op_end_rel_micros": 5,
            "all_end_rel_micros": 5,
        }
        for node in nodes
    ]
    device = {
        "device": "/job:localhost/replica:0/task:0/device:CPU:0",
        "node_stats": ran,
    }
    stats = step_stats_pb2.StepStats(dev_stats=[device])
    return config_pb2.RunMetadata(step_stats=stats).SerializeToString()


def step(tag, *nodes):
    """Return the event of a traced step."""
    return {"tagged_run_metadata": {"tag": tag, "run_metadata": metadata(*nodes)}}


def graph_def(*nodes):
    """Return a GraphDef of ``nodes``."""
    from tensorflow.core.framework import graph_pb2

    found = [{"name": node, "op": "MatMul"} for node in nodes]
    return graph_pb2.GraphDef(node=found)


def read(data):
    """Return the run in an event file."""
    return parse_run(data, source="events.out.tfevents.1")


def parse(data):
    """Return what the events say."""
    return parse_event_file(data, source="events.out.tfevents.1")


def codes(notices):
    """Return the codes of ``notices``."""
    return [notice.code for notice in notices]


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Return a folder with a real event file and the RunMetadata that is in it."""
    import tensorflow.compat.v1 as tf

    folder = tmp_path_factory.mktemp("logged")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.constant([[1.0]], name="x")
        y = tf.matmul(x, x + 1, name="mm")
        stats = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, options=options, run_metadata=stats)
        writer = tf.summary.FileWriter(str(folder / "logs"), graph)
        writer.add_run_metadata(stats, "step 1", global_step=1)
        writer.close()
    (folder / "metadata.pb").write_bytes(stats.SerializeToString())
    return folder


@pytest.mark.tensorflow
def test_a_real_event_file_is_the_run_of_its_metadata(logged):
    """TensorBoard's file holds what the program got, and the graph as well."""
    (path,) = (logged / "logs").iterdir()
    run, direct = load_run(path), load_run(logged / "metadata.pb")

    assert run.trace.ops.equals(direct.trace.ops)
    assert run.trace.origin_us == direct.trace.origin_us
    assert run.trace.notices == direct.trace.notices
    assert "mm" in run.trace.ops["name"]
    assert run.graph.nodes["mm"].inputs == ("x", "add")
    assert run.format == "tensorboard-events"


@pytest.mark.tensorflow
def test_the_steps_of_a_real_event_file_are_what_was_logged(logged):
    """Tag and message come out as they went in."""
    (path,) = (logged / "logs").iterdir()

    assert parse(path.read_bytes()).steps == (
        ("step 1", (logged / "metadata.pb").read_bytes()),
    )


@pytest.mark.tensorflow
def test_a_gzipped_event_file_is_read():
    """The content decides, not the name."""
    assert read(gzip.compress(events(step("a", "mm")))).trace.ops.height == 1


@pytest.mark.tensorflow
def test_the_steps_are_in_the_order_of_the_file():
    """Each traced step of a program is found, with its tag."""
    found = parse(events(step("b", "mm"), step("a", "mm", "add")))

    assert found.steps == (("b", metadata("mm")), ("a", metadata("mm", "add")))


@pytest.mark.tensorflow
def test_several_traced_steps_are_a_run_of_several_steps():
    """The steps of a file are one run, in the order in which they were logged."""
    trace = read(events(step("a", "mm"), step("b", "mm", "add"))).trace

    assert trace.ops["name"].to_list() == ["mm", "mm", "add"]
    assert trace.ops["step"].to_list() == [0, 1, 1]
    assert codes(trace.notices) == ["steps-joined"]


@pytest.mark.tensorflow
def test_the_graph_that_was_logged_last_is_the_run_s():
    """A program may log its graph again when it has grown."""
    graphs = [
        {"graph_def": graph_def(*nodes).SerializeToString()}
        for nodes in (["mm"], ["mm", "add"])
    ]

    assert list(read(events(*graphs, step("a", "mm"))).graph.nodes) == ["mm", "add"]


@pytest.mark.tensorflow
def test_a_meta_graph_serves_where_no_graph_was_logged():
    """An exported MetaGraph holds a graph too."""
    from tensorflow.core.protobuf import meta_graph_pb2

    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph_def("mm")).SerializeToString()

    assert list(parse(events({"meta_graph_def": meta})).graph.nodes) == ["mm"]


@pytest.mark.tensorflow
def test_other_events_are_counted():
    """Losses and pictures are no ops and are not forgotten."""
    loss = {"summary": {"value": [{"tag": "loss", "simple_value": 0.5}]}}

    skipped = read(events(loss, loss, step("a", "mm"))).trace.skipped

    assert skipped["summary event"] == 2
    assert skipped["file_version event"] == 1


@pytest.mark.tensorflow
def test_an_event_file_without_a_traced_step_says_how_to_get_one():
    """Most of them only hold losses."""
    with pytest.raises(NoOpsError, match="add_run_metadata"):
        read(events())


@pytest.mark.tensorflow
@pytest.mark.parametrize("n_lost", [1, 5, 40])
def test_a_file_that_was_cut_off_is_read_up_to_the_cut(n_lost):
    """The program may still be writing to it."""
    run = read(events(step("a", "mm"), step("b", "mm", "add"))[:-n_lost])

    assert run.trace.ops["name"].to_list() == ["mm"]
    assert codes(run.trace.notices) == ["events-damaged"]


@pytest.mark.tensorflow
def test_a_damaged_record_ends_what_is_read():
    """The checksum tells, though the message itself could still be read."""
    first, second = events(step("a", "mm")), events(step("b", "add"))
    data = first + second.replace(b"add = MatMul", b"add = MatMuk")

    found = parse(data)

    assert [tag for tag, _ in found.steps] == ["a"]
    assert codes(found.notices) == ["events-damaged"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (record(b"\xff\xff\xff"), "expected events of TensorBoard, found records"),
        (record(b"mm")[:-1], "found the end of the file in the record at byte 0"),
        (record(b"mm")[:-1] + b"\0", "found damage in the record at byte 0"),
        (b"", "expected events of TensorBoard, found"),
    ],
)
def test_a_file_without_an_event_is_an_error(data, message):
    """Other programs keep other records in the same frames."""
    with pytest.raises(TraceFormatError, match=message):
        parse(data)


def test_other_files_are_no_event_files():
    """The checksum of the first length tells them apart."""
    assert is_event_file(record(b""))
    assert not is_event_file(record(b"")[:11])
    assert not is_event_file(timeline(event("mm")))
    assert not is_event_file(b"")


def test_the_checksum_is_the_known_one():
    """The sum of the digits is the one that every description of CRC-32C gives."""
    unmasked = masked_crc32c(b"123456789") - 0xA282EAD8 & 0xFFFFFFFF

    assert (unmasked >> 17 | unmasked << 15) & 0xFFFFFFFF == 0xE3069283


@given(st.binary(min_size=1, max_size=40), st.integers(1, 500))
def test_a_checksum_depends_on_all_bytes_wherever_they_are(piece, times):
    """Long data, which is summed up in parts, gives what its description says."""
    data = piece * times
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    crc = state ^ 0xFFFFFFFF

    assert masked_crc32c(data) == (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


@pytest.mark.tensorflow
@given(st.integers(0, 400), st.binary(min_size=1, max_size=4), st.booleans())
def test_a_damaged_event_file_gives_a_run_or_a_trace_error(position, damage, is_summed):
    """Nothing but a TraceError of one line ever leaves the reader."""
    graph = graph_def("mm").SerializeToString()
    if is_summed:  # damage that the checksums do not tell
        inner = bytearray(metadata("mm"))
        inner[position : position + len(damage)] = damage
        found = {"tagged_run_metadata": {"tag": "a", "run_metadata": bytes(inner)}}
        data = events({"graph_def": graph + damage}, found)
    else:
        whole = bytearray(events({"graph_def": graph}, step("a", "mm")))
        whole[position : position + len(damage)] = damage
        data = bytes(whole)

    assert is_run_or_trace_error(data)


def is_run_or_trace_error(data):
    """Return whether the parser keeps its promise for ``data``."""
    try:
        run = read(data)
    except TraceError as error:
        return "\n" not in str(error)
    return isinstance(run, Run) and run.trace.ops.height > 0
