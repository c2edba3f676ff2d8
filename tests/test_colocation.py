import pytest

from placement_viz import analyze_run
from placement_viz.model import RowKind
from tests.builders import device, node, op, run

BACKWARD = "gradients/mm_grad/MatMul"


def verdicts(found):
    """Return name to the judged row, of the gradient ops of a run."""
    table = analyze_run(found).colocation.gradients
    return {row["name"]: row for row in table.iter_rows(named=True)}


def test_a_gradient_away_from_its_forward_op_is_misplaced():
    """The forward op ran, so the trace alone is enough."""
    (row,) = verdicts(run(op("mm", on="CPU:1"), op(BACKWARD, on="CPU:0"))).values()

    assert row["verdict"] == "misplaced"
    assert row["forward_op"] == "mm"
    assert row["expected_device"] == device("CPU:1")
    assert row["evidence"] == "trace"
    assert row["cause"] == "unconstrained"


def test_a_gradient_with_its_forward_op_is_colocated():
    """Same device, no finding."""
    (row,) = verdicts(run(op("mm", on="CPU:1"), op(BACKWARD, on="CPU:1"))).values()

    assert row["verdict"] == "colocated"
    assert row["cause"] is None


def test_a_pruned_forward_op_is_placed_by_the_graph():
    """A forward op the step did not run still has a requested device."""
    found = run(
        op("x", on="CPU:1"),
        op(BACKWARD, on="CPU:0"),
        nodes=[node("mm", on="CPU:1"), node(BACKWARD)],
    )

    row = verdicts(found)[BACKWARD]

    assert row["expected_device"] == device("CPU:1")
    assert row["evidence"] == "graph"
    assert row["verdict"] == "misplaced"


def test_what_tensorflow_noted_beats_the_name():
    """A recorded pair is used even where the name says something else."""
    found = run(
        op("mm", on="CPU:0"),
        op("other", on="CPU:1"),
        op(BACKWARD, on="CPU:0"),
        nodes=[node("mm"), node("other", on="CPU:1"), node(BACKWARD, forward="other")],
    )

    assert verdicts(found)[BACKWARD]["forward_op"] == "other"
    assert verdicts(found)[BACKWARD]["expected_device"] == device("CPU:1")


def test_an_explicit_device_is_exempt():
    """A program that asks for a device and gets it made a choice, not a mistake."""
    found = run(
        op("mm", on="CPU:0"),
        op(BACKWARD, on="CPU:1"),
        nodes=[node("mm", on="CPU:0"), node(BACKWARD, on="CPU:1")],
    )

    row = verdicts(found)[BACKWARD]

    assert (row["verdict"], row["reason"]) == ("exempt", "explicit")
    assert row["expected_device"] == device("CPU:0")


def test_an_op_without_a_kernel_on_its_device_is_exempt():
    """Soft placement moved it, so colocation would move it too."""
    found = run(
        op("mm", on="GPU:0"),
        op(BACKWARD, on="CPU:0"),
        nodes=[node("mm", on="GPU:0"), node(BACKWARD, on="GPU:0")],
    )

    assert verdicts(found)[BACKWARD]["reason"] == "no-kernel"


@pytest.mark.parametrize(
    ("op_type", "reason"),
    [("Const", "no-compute"), ("Identity", "no-compute"), ("ShapeN", "shape")],
)
def test_an_op_that_computes_nothing_is_exempt(op_type, reason):
    """It costs nothing where it is."""
    found = run(op("mm", on="CPU:1"), op(BACKWARD, on="CPU:0", op_type=op_type))

    assert verdicts(found)[BACKWARD]["reason"] == reason


def test_nothing_known_is_unknown():
    """No guess is made for a forward op that neither ran nor is in a graph."""
    row = verdicts(run(op("x"), op("gradients/gone_grad/MatMul")))[
        "gradients/gone_grad/MatMul"
    ]

    assert row["verdict"] == "unknown"
    assert row["expected_device"] is None
    assert row["evidence"] is None
    assert row["confidence"] == 0


def test_a_sum_belongs_to_the_op_whose_gradient_takes_it():
    """AddN has no forward op in its name; its consumer has."""
    found = run(
        op("x", on="CPU:1"),
        op("gradients/AddN", on="CPU:0", op_type="AddN"),
        op("gradients/x_grad/Mul", on="CPU:0", inputs=["gradients/AddN"]),
    )

    row = verdicts(found)["gradients/AddN"]

    assert row["forward_op"] == "x"
    assert row["verdict"] == "misplaced"


def test_a_gradient_scope_may_have_any_name():
    """``tf.gradients(name=…)`` is recognised by the forward op in the name."""
    found = run(
        op("tower/mm", on="CPU:1"),
        op("mine/tower/mm_grad/MatMul"),
        op("mine/AddN", op_type="AddN"),
    )

    assert set(verdicts(found)) == {"mine/tower/mm_grad/MatMul", "mine/AddN"}


@pytest.mark.parametrize(
    "name",
    [
        "my_grad",
        "layer/my_grad/MatMul",
        "_cloopgradients/mm_grad/b_sync/_3",
        "gradients_of_love/mm",
        "average_gradients/AddN",
        "_retval_gradients/mm_grad/MatMul_0_0",
        "gradients/mm_grad/MatMul/_7",
        "gradients/mm_grad/MatMul/ctrl/_8",
    ],
)
def test_what_only_looks_like_a_gradient_is_none(name):
    """The text alone makes no gradient op."""
    assert name not in verdicts(run(op("mm"), op(name), op(BACKWARD)))


def test_a_second_order_gradient_belongs_to_the_gradient_it_differentiates():
    """The longest forward op that exists wins."""
    first = "gradients/mm_grad/MatMul"
    second = f"gradients_1/{first}_grad/MatMul"
    found = run(op("mm", on="CPU:0"), op(first, on="CPU:1"), op(second, on="CPU:0"))

    assert verdicts(found)[second]["forward_op"] == first


def test_tracer_rows_prove_no_placement():
    """A kernel on a stream row is neither a gradient op nor a forward op."""
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    found = run(
        op("mm", on="CPU:1"),
        op("mm", on="GPU:0", **stream),
        op(BACKWARD, on="CPU:1"),
        op(BACKWARD, on="GPU:0", **stream),
    )

    (row,) = verdicts(found).values()

    assert row["device"] == device("CPU:1")
    assert row["verdict"] == "colocated"


def test_a_trace_with_nothing_but_tracer_rows_says_so():
    """Without executor rows there is no verdict, only a notice."""
    found = analyze_run(run(op("mm", row_kind=RowKind.STREAM)))

    assert found.colocation.gradients.is_empty()
    assert [notice.code for notice in found.notices] == ["no-executor-rows"]


def test_stream_rows_that_all_name_one_gpu_are_reported():
    """Up to TensorFlow 1.13 every stream was called GPU:0's."""
    found = analyze_run(
        run(
            op("a", on="GPU:0"),
            op("b", on="GPU:1"),
            op("b", on="/device:GPU:0", row_kind=RowKind.STREAM),
        )
    )

    assert "stream-rows-mislabelled" in [notice.code for notice in found.notices]


def test_each_verdict_is_counted_once():
    """The verdicts of the summary add up to the gradient ops."""
    summary = analyze_run(
        run(
            op("mm", on="CPU:1"),
            op("gradients/mm_grad/A", on="CPU:0", start_us=0, duration_us=10),
            op("gradients/mm_grad/B", on="CPU:0", start_us=5, duration_us=10),
            op("gradients/mm_grad/C", on="CPU:1", start_us=90),
            op("gradients/mm_grad/D", on="CPU:0", op_type="Const"),
            op("gradients/gone_grad/E", on="CPU:0", start_us=50),
        )
    ).colocation.summary

    assert summary.gradient_ops == 5
    assert summary.misplaced_ops == 2
    assert summary.colocated_ops == 1
    assert summary.exempt_ops == 1
    assert summary.unknown_ops == 1
    assert summary.misplaced_us == 15
