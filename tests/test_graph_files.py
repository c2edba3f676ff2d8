import gzip
import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_viz import TraceError, TraceFormatError, load_run
from placement_viz.model import Graph
from placement_viz.parser import parse_run
from placement_viz.parser.graph_files import load_graph
from placement_viz.schema import SCHEMA_VERSION
from tests.builders import TASK, device, event, timeline
from tests.test_event_file import events, step

FORMS = ["binary", "text", "gzipped binary", "gzipped text"]


def node_list(*names):
    """Return fields of nodes, each of which takes the one before."""
    return [
        {"name": name, "op": "MatMul", "input": names[i - 1 : i]}
        for i, name in enumerate(names)
    ]


def graph_def(*names):
    """Return a GraphDef of nodes in a chain, with a library."""
    from tensorflow.core.framework import graph_pb2

    function = {"signature": {"name": "f"}, "node_def": node_list("inside")}
    return graph_pb2.GraphDef(
        node=node_list(*names),
        library={"function": [function]},
        versions={"producer": 2000},
    )


def meta_graph(*names, tags=()):
    """Return a MetaGraphDef as TensorFlow fills it in."""
    from tensorflow.core.protobuf import meta_graph_pb2

    info = {
        "tags": tags,
        "stripped_op_list": {"op": [{"name": "MatMul"}]},
        "tensorflow_version": "2.21.0",
    }
    return meta_graph_pb2.MetaGraphDef(
        meta_info_def=info,
        graph_def=graph_def(*names),
        saver_def={"filename_tensor_name": "save/Const:0"},
    )


def saved_model(*metas):
    """Return a SavedModel of MetaGraphDefs."""
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=metas)


def serialised(message, form):
    """Return a message in one of the FORMS."""
    data = str(message).encode() if "text" in form else message.SerializeToString()
    return gzip.compress(data) if "gzipped" in form else data


def load(tmp_path, data, name="graph"):
    """Return the graph in a file with ``data``."""
    path = tmp_path / name
    path.write_bytes(data)
    return load_graph(path)


def names_of(graph):
    """Return the nodes of a graph."""
    return list(graph.nodes)


@pytest.mark.tensorflow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["GraphDef", "MetaGraphDef", "SavedModel"])
@pytest.mark.parametrize("name", ["graph", "graph.pb", "graph.pbtxt"])
def test_a_graph_is_told_by_its_content(tmp_path, kind, form, name):
    """Whatever the file is called, the same graph comes out of it."""
    message = {
        "GraphDef": lambda: graph_def("x", "mm"),
        "MetaGraphDef": lambda: meta_graph("x", "mm"),
        "SavedModel": lambda: saved_model(meta_graph("x", "mm")),
    }[kind]()

    graph = load(tmp_path, serialised(message, form), name)

    assert names_of(graph) == ["x", "mm"]
    assert graph.nodes["mm"].inputs == ("x",)


@pytest.mark.tensorflow
@pytest.mark.parametrize("size", [ord("["), ord("{")])
def test_a_graph_that_begins_like_json_is_none(tmp_path, size):
    """The length of its first node, after a line feed, may be a bracket."""
    name = "n" * (size - len("..MatMul.."))
    data = graph_def(name, "next").SerializeToString()

    found = load(tmp_path, data)

    assert data.startswith(b"\n" + bytes([size]))
    assert names_of(found) == [name, "next"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("tags", "expected"),
    [(["serve", "train"], "b"), (["serve", "gpu"], "a"), (["train", "train"], "a")],
)
def test_of_several_meta_graphs_the_one_for_training_is_taken(tmp_path, tags, expected):
    """Gradients are in no other; the first where none is tagged so."""
    metas = [meta_graph(n, tags=[t]) for n, t in zip("ab", tags, strict=True)]

    graph = load(tmp_path, saved_model(*metas).SerializeToString())

    assert names_of(graph) == [expected]


@pytest.mark.tensorflow
def test_comments_in_a_text_are_no_hindrance(tmp_path):
    """Programs put a line about themselves in front."""
    data = b"# made by train.py\n" + serialised(graph_def("mm"), "text")

    assert names_of(load(tmp_path, data)) == ["mm"]


@pytest.mark.tensorflow
def test_a_real_saved_model_is_read_as_folder_and_as_file(tmp_path):
    """The ops of its functions bear the name of the call, which is in the graph."""
    import tensorflow as tf

    module = tf.Module()
    module.w = tf.Variable([[1.0]], name="w")
    spec = tf.TensorSpec((1, 1), name="x")
    module.call = tf.function(lambda x: tf.matmul(x, module.w), input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)

    graph = load_graph(tmp_path)

    assert "StatefulPartitionedCall" in graph.nodes
    assert names_of(graph) == names_of(load_graph(tmp_path / "saved_model.pb"))


@pytest.mark.tensorflow
@pytest.mark.parametrize("is_text", [False, True])
def test_real_graphs_of_a_session_are_read_alike(tmp_path, is_text):
    """What write_graph and export_meta_graph write of a program is the same graph."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        w = tf.Variable(1.0, name="w")
        with graph.colocate_with(w.op):
            tf.square(w, name="y")
        tf.io.write_graph(graph, str(tmp_path), "graph", as_text=is_text)
        tf.train.export_meta_graph(str(tmp_path / "meta"), as_text=is_text)

    plain, meta = (load_graph(tmp_path / name) for name in ("graph", "meta"))

    assert plain.nodes == meta.nodes
    assert plain.nodes["y"].colocate == ("w",)
    assert plain.nodes["y"].device == "/device:CPU:0"
    assert 0 in plain.nodes["w"].handles


@pytest.mark.tensorflow
def test_the_graph_in_an_event_file_is_read(tmp_path):
    """TensorBoard keeps it beside the steps."""
    logged = {"graph_def": graph_def("mm").SerializeToString()}

    assert names_of(load(tmp_path, events(logged))) == ["mm"]


def test_the_graph_of_a_run_file_is_read(tmp_path):
    """One capture with the graph serves a timeline that has none."""
    section = {"schema": SCHEMA_VERSION, "nodes": [{"name": "mm", "op": "MatMul"}]}

    graph = load(tmp_path, timeline(event("mm"), placement_viz=section))

    assert names_of(graph) == ["mm"]


def test_of_a_log_the_graph_is_where_nodes_were_placed(tmp_path):
    """Nothing is claimed of what the nodes take and ask for."""
    graph = load(tmp_path, f"mm: (MatMul): {TASK}/device:GPU:1\n".encode())

    assert graph.placed == {"mm": device("GPU:1")}
    assert names_of(graph) == []


@pytest.mark.tensorflow
def test_a_graph_beside_a_trace_is_its_graph(tmp_path):
    """The devices that the program asks for come with it."""
    (tmp_path / "run.json").write_bytes(timeline(event("mm")))
    (tmp_path / "meta").write_bytes(meta_graph("x", "mm").SerializeToString())

    run = load_run(tmp_path / "run.json", graph=tmp_path / "meta")

    assert names_of(run.graph) == ["x", "mm"]
    assert run.trace.notices == ()


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: b"", "found an empty file"),
        (lambda: b"\x89PNG\r\n", "found content that starts with b'.x89PNG"),
        (lambda: graph_def().SerializeToString(), "with a node, .* found content"),
        (lambda: graph_def("mm").SerializeToString()[:-1], "or damaged"),
        (lambda: saved_model().SerializeToString(), "with a node, .* found content"),
        (lambda: b"versions { producer: 9 }", "a GraphDef in text, found no node"),
        (lambda: b"meta_info_def { }", "a MetaGraphDef in text, found no node"),
        (lambda: b"meta_graphs { ", "a SavedModel in text, found damage: 1:13"),
        (lambda: b"node { attr " + b"{ a " * 5000, "a GraphDef in text, found damage"),
        (lambda: timeline(event("mm")), "expected a graph, found a file of runs"),
        (lambda: events(step("a", "mm")), "expected a graph, found a file of runs"),
    ],
)
def test_what_holds_no_graph_is_an_error(tmp_path, make, message):
    """It says in one line which file, what was expected and what was found."""
    with pytest.raises(TraceFormatError, match=message) as error:
        load(tmp_path, make())
    assert str(error.value).startswith(str(tmp_path / "graph"))
    assert "\n" not in str(error.value)


def test_a_folder_without_a_saved_model_is_an_error(tmp_path):
    """A folder is a SavedModel or nothing."""
    with pytest.raises(TraceFormatError, match="found a folder without saved_model"):
        load_graph(tmp_path)


def test_a_graph_that_is_not_there_is_an_error(tmp_path):
    """The same words as for a run."""
    with pytest.raises(TraceFormatError, match="found: no such file"):
        load_graph(tmp_path / "graph.pb")


@pytest.mark.tensorflow
def test_a_graph_that_claims_countless_outputs_is_read(tmp_path):
    """A damaged number costs neither time nor memory."""
    from tensorflow.core.framework import graph_pb2

    attributes = {"out_type": {"type": "DT_RESOURCE"}, "N": {"i": 2**60}}
    node = {"name": "a", "op": "ShapeN", "attr": attributes}
    graph = graph_pb2.GraphDef(node=[node])

    assert names_of(load(tmp_path, graph.SerializeToString())) == ["a"]


@pytest.mark.tensorflow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["GraphDef", "MetaGraphDef", "SavedModel"]),
    st.sampled_from(["binary", "text"]),
    st.integers(0, 300),
    st.binary(min_size=1, max_size=4),
)
def test_a_damaged_graph_gives_a_graph_or_a_trace_error(
    tmp_path: pathlib.Path, kind, form, position, damage
):
    """Nothing but a TraceError of one line ever leaves the reader."""
    meta = meta_graph("x", "mm")
    messages = {
        "GraphDef": meta.graph_def,
        "MetaGraphDef": meta,
        "SavedModel": saved_model(meta),
    }
    data = bytearray(serialised(messages[kind], form))
    data[position : position + len(damage)] = damage

    assert is_graph_or_trace_error(tmp_path, bytes(data))


def is_graph_or_trace_error(tmp_path, data):
    """Return whether the reader keeps its promise for ``data``."""
    try:
        graph = load(tmp_path, data)
    except TraceError as error:
        return "\n" not in str(error)
    return isinstance(graph, Graph) and bool(graph.nodes or graph.placed)


@pytest.mark.tensorflow
def test_step_stats_that_are_nested_without_end_are_an_error():
    """A text may go deeper than Python does."""
    with pytest.raises(TraceFormatError, match="found damage"):
        parse_run(b"step_stats { x " + b"{ x " * 5000, source="stats.pbtxt")
