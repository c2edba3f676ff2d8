"""The sizes of tensors, from timelines that TensorFlow writes with memory."""

import json

import pytest

from placement_viz import load_run, parse_run
from placement_viz.parser.fold import Fold
from placement_viz.parser.parts import fold_in_parts
from tests.builders import event, timeline


def snapshot(name, n_bytes=None):
    """Return a tensor object of a timeline; without a size it tells none."""
    told = "dtype: DT_FLOAT\nshape {\n  dim {\n    size: 2\n  }\n}\n"
    if n_bytes is not None:
        told += f"allocation_description {{\n  requested_bytes: {n_bytes}\n}}\n"
    args = {"snapshot": {"tensor_description": told}}
    return {
        "ph": "O",
        "cat": "Tensor",
        "name": name,
        "pid": 2,
        "tid": 0,
        "ts": 1,
        "id": 7,
        "args": args,
    }


def sizes(*events):
    """Return the sizes in a timeline of ``events``."""
    return parse_run(timeline(*events), source="x").tensors.rows()


def test_a_snapshot_tells_the_size_of_its_tensor():
    """Outputs have their numbers; what tells no size, or is of no op, is left out."""
    assert sizes(
        snapshot("b:1", 12),
        snapshot("a", 40_000),
        snapshot("b"),
        snapshot("gone", 5),
        event("a", ts=100),
        event("b", ts=200),
    ) == [("a", 0, 40_000), ("b", 1, 12)]


def test_of_a_tensor_that_is_made_again_the_largest_counts():
    """The turns of a loop may differ."""
    found = sizes(snapshot("a", 4), snapshot("a", 9), snapshot("a", 6), event("a"))

    assert found == [("a", 0, 9)]


@pytest.mark.parametrize(
    "odd",
    [
        {"args": None},
        {"args": {"snapshot": None}},
        {"args": {"snapshot": "text"}},
        {"args": {"snapshot": {"tensor_description": 5}}},
        {"args": [1]},
        {"name": 5},
        {"name": None},
        {"args": {"snapshot": {"tensor_description": "requested_bytes: " + "9" * 40}}},
    ],
    ids=repr,
)
def test_an_odd_snapshot_spoils_nothing(odd):
    """Whatever stands there, the ops and the other sizes are read."""
    found = parse_run(
        timeline(snapshot("b", 1) | odd, snapshot("a", 8), event("a"), event("b")),
        source="x",
    )

    assert found.tensors.rows() == [("a", 0, 8)]
    assert found.trace.ops.height == 2


def test_parts_of_a_file_tell_what_the_whole_tells(tmp_path):
    """Sizes that another process read are the same."""
    events = [
        each
        for i in range(400)
        for each in (snapshot(f"op_{i}", i + 1), event(f"op_{i}", ts=100 + i))
    ]
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(json.loads(timeline(*events)), indent=4))
    whole = Fold()
    whole.sizes.add((e["name"] for e in events[::2]), map(told, events[::2]))

    parts, _ = fold_in_parts(path, 2, lambda _: None)

    ran = load_run(path, cache=False).trace.ops["name"]
    assert parts.sizes.of(ran).rows() == whole.sizes.of(ran).rows()
    assert parts.sizes.of(ran).rows() == [(f"op_{i}", 0, i + 1) for i in range(400)]


def told(tensor):
    """Return the description of a tensor object."""
    return tensor["args"]["snapshot"]["tensor_description"]


@pytest.mark.tensorflow
def test_what_tensorflow_writes_is_what_it_recorded():
    """A real timeline with memory tells the sizes that its step stats have."""
    tf = pytest.importorskip("tensorflow").compat.v1
    from tensorflow.python.client.timeline import Timeline

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [16, 16])
        left, _ = tf.split(tf.matmul(x, x, name="product"), 2, name="halves")
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with tf.Session() as session:
            ones = [[1.0] * 16] * 16
            session.run(left, {x: ones}, options=options, run_metadata=metadata)
    written = Timeline(metadata.step_stats).generate_chrome_trace_format(
        show_memory=True
    )

    direct = parse_run(metadata.SerializeToString(), source="metadata.pb")
    found = parse_run(written.encode(), source="timeline.json")

    sized = {(name, slot): n for name, slot, n in found.tensors.iter_rows()}
    assert sized["product", 0] == 16 * 16 * 4
    assert (
        sized.items()
        >= {(name, slot): n for name, slot, n in direct.tensors.iter_rows()}.items()
    )
