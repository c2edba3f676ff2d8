import polars as pl
import pytest

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.model import RowKind
from tests.builders import SAMPLES, node, op, run


def flow(*ops, **graph):
    """Return the flow of a judged run of ``ops``."""
    analysis = analyze_run(run(*ops, **graph))
    return Flow(analysis.run, analysis.colocation)


def named_edges(found):
    """Return each edge as producer@start > consumer@start, and its slot."""
    at = found.ops.select("op", at=pl.format("{}@{}", "name", "start_us"))
    edges = found.edges
    for end in ("producer", "consumer"):
        names = at.rename({"op": end, "at": f"{end}_at"})
        edges = edges.join(names, on=end, maintain_order="left")
    return [
        (f"{producer} > {consumer}", "^" if is_control else slot)
        for producer, consumer, slot, is_control in edges.select(
            "producer_at", "consumer_at", "slot", "is_control"
        ).iter_rows()
    ]


def roles(found):
    """Return name to role."""
    return dict(found.ops.select("name", "role").iter_rows())


def test_an_op_takes_from_each_input_that_ran():
    """Numbers of outputs are kept, control edges are told, what did not run is not."""
    found = flow(
        op("a", start_us=0),
        op("b", start_us=20),
        op("c", start_us=40, inputs=["a", "b:1", "^a", "gone"]),
    )

    assert named_edges(found) == [
        ("a@0 > c@40", 0),
        ("b@20 > c@40", 1),
        ("a@0 > c@40", "^"),
    ]


def test_a_copy_from_another_device_leads_to_its_origin():
    """A name with a copy's number is the op that was copied; its slot is not told."""
    found = flow(
        op("a", start_us=0),
        op("c", on="CPU:1", start_us=40, inputs=["a/_7", "a_S9"]),
        op("while/_3", start_us=50),
        op("d", start_us=60, inputs=["while/_3"]),
    )

    assert named_edges(found) == [
        ("a@0 > c@40", None),
        ("a@0 > c@40", None),
        ("while/_3@50 > d@60", 0),
    ]


def test_each_turn_of_a_loop_takes_from_the_turn_before():
    """Of several executions the last that began before is taken, and never itself."""
    found = flow(
        op("enter", start_us=0, duration_us=1),
        op("merge", start_us=1, duration_us=1, inputs=["enter", "next"]),
        op("next", start_us=2, duration_us=1, inputs=["merge"]),
        op("merge", start_us=3, duration_us=1, inputs=["enter", "next"]),
        op("next", start_us=4, duration_us=1, inputs=["merge"]),
        op("count", start_us=5, duration_us=1, inputs=["count"]),
        op("count", start_us=6, duration_us=1, inputs=["count"]),
    )

    edges = [edge for edge, _ in named_edges(found)]

    assert "next@2 > merge@3" in edges
    assert "merge@3 > next@4" in edges
    assert "count@5 > count@6" in edges
    assert "count@5 > count@5" not in edges


def test_clocks_that_differ_do_not_lose_an_edge():
    """An input that seems to begin later, on another host, is an input all the same."""
    found = flow(op("late", start_us=50), op("early", start_us=0, inputs=["late"]))

    assert named_edges(found) == [("late@50 > early@0", 0)]


def test_steps_do_not_take_from_one_another():
    """An op takes from its own step."""
    found = flow(
        op("a", start_us=0, step=0),
        op("b", start_us=10, step=0, inputs=["a"]),
        op("a", start_us=100, step=1),
        op("b", start_us=110, step=1, inputs=["a"]),
    )

    assert [edge for edge, _ in named_edges(found)] == [
        "a@0 > b@10",
        "a@100 > b@110",
    ]


def test_each_op_of_a_step_has_a_role():
    """Gradients are told from what they are of, what is made of them and input."""
    found = flow(
        op("next_batch", op_type="IteratorGetNext", start_us=0),
        op("rate", op_type="Const", start_us=1),
        op("mm", start_us=10, inputs=["next_batch"]),
        op("loss", op_type="Mean", start_us=20, inputs=["mm"]),
        op("gradients/mm_grad/MatMul", start_us=30, inputs=["mm", "next_batch"]),
        op("mean", start_us=40, inputs=["gradients/mm_grad/MatMul"]),
        op(
            "SGD/update_w",
            op_type="ResourceApplyGradientDescent",
            start_us=50,
            inputs=["w", "rate", "mean"],
        ),
        op("mm/_9", op_type="Identity", on="CPU:1", start_us=60, inputs=["mm/_8"]),
        op("_SINK", op_type="NoOp", start_us=70),
    )

    assert roles(found) == {
        "next_batch": "input",
        "rate": "optimizer",
        "mm": "forward",
        "loss": "forward",
        "gradients/mm_grad/MatMul": "gradient",
        "mean": "optimizer",
        "SGD/update_w": "optimizer",
        "mm/_9": "transfer",
        "_SINK": "other",
    }


def test_an_op_that_gradients_are_made_of_is_forward_even_after_a_gradient():
    """A penalty on gradients is part of the model."""
    found = flow(
        op("x", start_us=0),
        op("gradients/x_grad/Mul", start_us=10, inputs=["x"]),
        op("penalty", start_us=20, inputs=["gradients/x_grad/Mul"]),
        op("gradients_1/penalty_grad/Mul", start_us=30, inputs=["penalty"]),
    )

    assert roles(found)["penalty"] == "forward"


def test_a_constant_that_gradients_share_makes_no_optimizer():
    """An optimiser merges equal constants: who takes one takes no gradient by it."""
    found = flow(
        op("gradients/x_grad/axis", op_type="Const", start_us=0),
        op("loss", op_type="Mean", start_us=10, inputs=["gradients/x_grad/axis"]),
    )

    assert roles(found)["loss"] == "forward"


def test_a_kernel_has_the_role_of_the_op_it_names():
    """Rows of a tracer are told by the op that started them; copies are transfers."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    copy = {"row_kind": RowKind.MEMCPY, "row": "/device:GPU:0/memcpy"}
    found = flow(
        op("x", on="GPU:0"),
        op("gradients/x_grad/Mul", on="GPU:0", start_us=10, inputs=["x"]),
        op("gradients/x_grad/Mul", on="GPU:0", start_us=12, **stream),
        op("edge_3_x", on="GPU:0", op_type="MEMCPYHtoD", start_us=14, **copy),
    )

    assert found.ops["role"].to_list() == [
        "forward",
        "gradient",
        "gradient",
        "transfer",
    ]


def test_a_node_of_the_graph_is_no_copy_whatever_its_name():
    """Lowered control flow ends like a copy; the graph tells the two apart."""
    found = flow(
        op("while/_3", op_type="Identity"), nodes=[node("while/_3", op="Identity")]
    )

    assert roles(found) == {"while/_3": "forward"}


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_edges_of_sample_runs_are_those_a_loop_over_ops_finds(path):
    """A plain loop over the ops of a run finds the same producers, names alone."""
    analysis = analyze_run(load_run(path, cache=False))
    found = Flow(analysis.run, analysis.colocation)
    names = found.ops["name"]
    ran = set(found.executed["name"])

    expected = set()
    for consumer, inputs in found.executed.select("name", "inputs").iter_rows():
        for tensor in inputs:
            name = tensor.removeprefix("^")
            if name not in ran and name.rpartition(":")[2].isdigit():
                name = name.rpartition(":")[0]
            while name not in ran and name.rstrip("0123456789")[-2:] in {"/_", "_S"}:
                name = name.rstrip("0123456789")[:-2].removesuffix("/ctrl")
            if name in ran:
                expected.add((name, consumer))
    pairs = zip(
        names.gather(found.edges["producer"]),
        names.gather(found.edges["consumer"]),
        strict=True,
    )

    assert set(pairs) == expected
