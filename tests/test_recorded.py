"""What is recorded of sizes and memory beside the ops."""

import dataclasses

import pytest

from placement_viz import load_run, parse_run
from placement_viz.model import Recorded, recorded_tables
from placement_viz.parser.steps import Step, join_steps
from placement_viz.parser.stored import pack_run, unpack_run
from placement_viz.schema import Allocation, CopyRecord, RunSection
from tests.builders import device, op, run

SECTION = RunSection(
    schema=1,
    tensor_bytes={"a:0": 100, "b:1": 7},
    allocations={device("GPU:0"): {"bfc": (Allocation("a", 1_005, 128, 1_030),)}},
    copies=(CopyRecord("a", device("GPU:0"), "/job:w/task:1/gpu:0", 1_010, 5, 100),),
)


def recorded(origin_us=1_000):
    """Return what ``SECTION`` records, in tables."""
    return recorded_tables(
        SECTION.tensor_bytes, SECTION.allocations, SECTION.copies, origin_us
    )


def rows(found):
    """Return all rows of the three tables."""
    return [table.rows() for table in (found.tensors, found.allocations, found.copies)]


def test_times_are_those_of_the_trace_and_devices_canonical():
    """What a file records by the clock is told from the first op on."""
    assert rows(recorded()) == [
        [("a", 0, 100), ("b", 1, 7)],
        [("a", device("GPU:0"), "bfc", 5, 30, 128)],
        [("a", device("GPU:0"), "/job:w/task:1/device:GPU:0", 10, 5, 100)],
    ]


def test_a_run_file_tells_of_itself():
    """A section is read as any other record."""
    made = run(op("a"))
    trace = dataclasses.replace(made.trace, origin_us=1_000)
    made = dataclasses.replace(made, trace=trace, section=SECTION)

    assert rows(made.recorded) == rows(recorded())


def test_steps_that_are_joined_keep_what_was_recorded_of_each():
    """Times go on from step to step; a tensor has one size."""
    made = run(op("a", duration_us=50))
    steps = [
        Step(name, dataclasses.replace(made, trace=trace))
        for name, trace in (
            ("0", dataclasses.replace(made.trace, recorded=recorded())),
            ("1", dataclasses.replace(made.trace, recorded=recorded())),
        )
    ]

    found = join_steps(steps, "both").recorded

    assert found.tensors.rows() == recorded().tensors.rows()
    assert found.allocations.select("start_us", "end_us").rows() == [(5, 30), (55, 80)]
    assert found.copies["start_us"].to_list() == [10, 60]


@pytest.mark.parametrize("what", [Recorded(), recorded()], ids=["nothing", "all"])
def test_what_is_recorded_is_stored_with_the_run(what):
    """A run that is read again has the same tables."""
    made = run(op("a"))
    trace = dataclasses.replace(made.trace, recorded=what)

    again = unpack_run(pack_run(dataclasses.replace(made, trace=trace)), source="x")

    assert rows(again.recorded) == rows(what)


@pytest.mark.tensorflow
def test_a_run_metadata_tells_the_sizes_and_allocations_of_its_ops():
    """What FULL_TRACE recorded of a real step is there, without a run file."""
    tf = pytest.importorskip("tensorflow").compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [32, 32])
        product = tf.matmul(x, x, name="product")
        config = tf.ConfigProto(device_count={"CPU": 2})
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        with tf.Session(config=config) as session:
            ones = [[1.0] * 32] * 32
            session.run(product, {x: ones}, options=options, run_metadata=metadata)

    found = parse_run(metadata.SerializeToString(), source="metadata.pb")

    sizes = {(name, slot): n for name, slot, n in found.tensors.iter_rows()}
    assert sizes["product", 0] == 32 * 32 * 4
    (taken,) = found.allocations.filter(found.allocations["name"] == "product").rows()
    assert taken[1] == device("CPU:0")
    assert taken[5] >= 32 * 32 * 4
    assert 0 <= taken[3] <= found.trace.span_us


def test_a_plain_timeline_records_nothing_beside_its_ops(tmp_path):
    """Nothing is invented for a trace that says nothing of memory."""
    path = tmp_path / "timeline.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "name": "MatMul", "ts": 1, "dur": 2}]}'
    )

    assert load_run(path, cache=False).recorded.is_empty
