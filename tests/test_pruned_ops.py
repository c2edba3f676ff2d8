"""Devices of forward ops that did not run, from a trace alone: the rarer rules."""

import pytest

from placement_viz.analysis.colocation.facts import gather_facts
from placement_viz.analysis.colocation.homes import Homes
from placement_viz.analysis.colocation.pairing import pair_gradients
from placement_viz.analysis.colocation.pairs import Rule
from placement_viz.analysis.colocation.verdicts import judge
from tests.builders import device, op, run
from tests.test_inference import GONE, expected

FUSED = "_MklNativeFusedMatMul"


def rule_for(*ops, of=GONE):
    """Return the sentence and the confidence of the verdict on ``of``."""
    facts = gather_facts(run(*ops))
    pairs = pair_gradients(facts)
    found = judge(of, device("CPU:0"), pairs[of], Homes(facts, pairs))
    return found.rule, found.confidence


@pytest.mark.parametrize(
    ("kind", "takes", "where"),
    [
        (FUSED, ["x", "w"], "CPU:1"),
        (FUSED, ["x"], None),
        ("_FusedConv2D", ["x", "w"], None),
        ("MatMul", ["x", "w"], None),
    ],
)
def test_an_op_is_where_the_fused_op_of_its_kind_is_that_took_the_same(
    kind, takes, where
):
    """A product, a bias and an activation are one op then, under the last name."""
    found = expected(
        op("x", on="CPU:2"),
        op("w", on="CPU:3"),
        op("relu", on="CPU:1", op_type=kind, inputs=takes),
        op(GONE, inputs=["x"]),
        op("gradients/gone_grad/Mul_1", inputs=["w"]),
    )

    assert found == where


@pytest.mark.parametrize(("gradient_of", "where"), [("relu", "CPU:1"), ("other", None)])
def test_a_fused_op_that_took_one_thing_must_pass_the_gradient_on(gradient_of, where):
    """Else it is another head on the same trunk."""
    found = expected(
        op("x", on="CPU:2"),
        op("other", on="CPU:3"),
        op("relu", on="CPU:1", op_type=FUSED, inputs=["x"]),
        op(f"gradients/{gradient_of}_grad/ReluGrad"),
        op(GONE, inputs=["x", f"gradients/{gradient_of}_grad/ReluGrad"]),
    )

    assert found == where


@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [
        ("gone/y", "Const", "CPU:2"),
        ("range", "Range", "CPU:2"),
        ("other/y", "Const", None),
        ("gone/scope/y", "Const", None),
    ],
)
def test_an_op_is_where_what_was_made_with_it_is(name, kind, where):
    """The 2 of ``x * 2`` is a constant in the scope of the product."""
    found = expected(
        op("x", on="CPU:1"),
        op(name, on="CPU:2", op_type=kind),
        op(GONE, inputs=["x", name]),
    )

    assert found == where


@pytest.mark.parametrize(
    ("ops", "where"),
    [
        ([op("exp", on="CPU:2")], "CPU:2"),
        ([op("exp", on="CPU:2"), op("log", on="CPU:1")], None),
    ],
)
def test_an_op_with_a_custom_gradient_is_where_its_function_is(ops, where):
    """Its gradient takes values that the function computed."""
    name = "gradients/IdentityN_1_grad/mul"

    assert expected(*ops, op(name, inputs=["exp", "log"]), of=name) == where


@pytest.mark.parametrize(
    ("others", "where"),
    [
        (["tower/layer/a", "tower/layer/b"], "CPU:1"),
        (["tower/loss/deep/a", "tower/loss/deep/b"], "CPU:1"),
        (["tower/layer/a"], None),
        (["elsewhere/a", "elsewhere/b"], None),
    ],
)
def test_a_scope_without_ops_is_where_the_scopes_around_and_in_it_are(others, where):
    """A tower is on one device down to its loss; one op does not make a tower."""
    name = "gradients/tower/loss/gone_grad/Mul"

    found = expected(*(op(each, on="CPU:1") for each in others), op(name), of=name)

    assert found == where


def test_a_tower_on_two_devices_says_nothing_of_its_loss():
    """Null beats a guess."""
    name = "gradients/tower/loss/gone_grad/Mul"

    found = expected(
        op("tower/a/x", on="CPU:1"), op("tower/b/x", on="CPU:2"), op(name), of=name
    )

    assert found is None


def test_the_rest_of_a_loss_is_on_the_default_device_once_it_came_back_there():
    """Nobody asked for a device for the difference, nor for what follows it."""
    ops = [
        op("net", on="CPU:2"),
        op("loss/difference", inputs=["net"]),
        op(GONE, inputs=["loss/difference"]),
    ]

    assert expected(*ops) == "CPU:0"
    assert rule_for(*ops) == (Rule.AT_END.sentence, 0.6)


@pytest.mark.parametrize(
    "ops",
    [
        # The program may compute the loss here or there.
        [op("net", on="CPU:2"), op(GONE, inputs=["net"])],
        # An input is on the default device before any device is asked for.
        [op("x"), op("net", on="CPU:2", inputs=["x"]), op(GONE, inputs=["x"])],
        # One of the two is still there.
        [
            op("net", on="CPU:2"),
            op("loss/difference", inputs=["net"]),
            op(GONE, inputs=["loss/difference", "net"]),
        ],
        # What takes it is elsewhere.
        [
            op("net", on="CPU:2"),
            op("loss/difference", inputs=["net"]),
            op("after", on="CPU:3"),
            op("gradients/after_grad/Mul"),
            op(GONE, inputs=["loss/difference", "gradients/after_grad/Mul"]),
        ],
    ],
)
def test_a_loss_that_did_not_come_back_is_open(ops):
    """Then a trace does not tell where the program computes it."""
    assert expected(*ops) is None


def test_a_shape_tells_where_the_op_is_that_it_was_read_from():
    """It was read from an op that did not run, and the trace shows another one."""
    found = expected(
        op("net", on="CPU:2"),
        op("gradients/gone_grad/Shape", op_type="Shape", inputs=["net"]),
        op(GONE, inputs=["gradients/gone_grad/Shape"]),
    )

    assert found == "CPU:0"


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (op("gradients/sum_grad/Cast"), "CPU:2"),
        (op("gradients/sum_grad/Reshape_1"), None),
        (op("gradients/y_grad/Mul", inputs=["gradients/sum_grad/Tile"]), None),
    ],
)
def test_an_op_is_where_its_shape_is_read(other, where):
    """Of an op with several inputs it may be another one's."""
    found = expected(
        op("x", on="CPU:1"),
        op("gradients/sum_grad/Shape", on="CPU:2", op_type="Shape", inputs=["x"]),
        op("gradients/sum_grad/Tile", inputs=["gradients/sum_grad/Shape"]),
        op(GONE, inputs=["gradients/sum_grad/Tile"]),
        other,
    )

    assert found == where


@pytest.mark.parametrize(("second", "where"), [("CPU:0", "CPU:0"), ("CPU:2", None)])
def test_the_top_level_is_on_the_default_device_if_all_of_it_came_back(second, where):
    """It is no scope, so any other device says nothing."""
    found = expected(
        op("net/y", on="CPU:2"),
        op("first", inputs=["net/y"]),
        op("second", on=second, inputs=["net/y"]),
        op(GONE, inputs=["net/y"]),
    )

    assert found == where


def layers(*, last_on="CPU:2"):
    """Return four products with their variables, the last one ``last_on``."""
    found = []
    for i, on in enumerate(["CPU:1", "CPU:2", "CPU:1", last_on]):
        read = f"l{i}/ReadVariableOp"
        variable_on = "CPU:2" if i == 3 else on
        found.append(op(read, on=variable_on, op_type="ReadVariableOp"))
        found.append(op(f"l{i}/MatMul", on=on, inputs=[read]))
    return found


@pytest.mark.parametrize(
    ("ops", "where"),
    [(layers(), "CPU:3"), (layers(last_on="CPU:1"), None), (layers()[:6], None)],
)
def test_an_op_is_with_its_variable_if_all_others_are(ops, where):
    """Four are enough; where variables are kept apart it is no habit."""
    found = expected(
        *ops,
        op("x", on="CPU:1"),
        op("w/ReadVariableOp", on="CPU:3", op_type="ReadVariableOp"),
        op(GONE, inputs=["x", "w/ReadVariableOp"]),
    )

    assert found == where


@pytest.mark.parametrize(
    ("second_on", "where"), [("CPU:2", "CPU:3"), ("CPU:1", None), ("CPU:0", None)]
)
def test_the_last_of_a_series_is_with_what_it_takes_if_the_others_are(second_on, where):
    """Layers made in a loop are numbered, and optimisers take the last ops away."""
    ops = [
        op("add", on="CPU:1"),
        op("add_1", on="CPU:2"),
        op("add_2", on="CPU:3"),
        op("mul", on="CPU:1"),
        op("mul_1", on=second_on),
        op("gradients/mul_grad/Mul", inputs=["add"]),
        op("gradients/mul_1_grad/Mul", inputs=["add_1"]),
        op("gradients/mul_2_grad/Mul", inputs=["add_2"]),
    ]

    assert expected(*ops, of="gradients/mul_2_grad/Mul") == where


def test_a_gradient_that_was_folded_is_a_summand():
    """It is a constant then, unlike the 2 that x + x is multiplied by."""
    summands = [f"gradients/{each}_grad/Mul" for each in ("a", "b", "c")]
    found = expected(
        op("x", on="CPU:2"),
        op("a", on="CPU:1"),
        op("b", on="CPU:1"),
        op("c", on="CPU:2"),
        op(summands[0], op_type="Const"),
        *(op(each) for each in summands[1:]),
        op("gradients/AddN", op_type="AddN", inputs=summands),
        op("gradients/x_grad/Neg", inputs=["gradients/AddN"]),
        of="gradients/AddN",
    )

    assert found == "CPU:1"


def test_what_prepares_an_update_tells_the_variable():
    """The gradient of a lookup is scaled before it is scattered."""
    name = "gradients/concat"
    found = expected(
        op("table", on="CPU:3", op_type="VarHandleOp"),
        op(name, op_type="ConcatV2"),
        op("SGD/update_table/Neg", on="CPU:3", op_type="Neg", inputs=[name]),
        of=name,
    )

    assert found == "CPU:3"


@pytest.mark.parametrize(
    ("name", "is_gradient"),
    [
        ("gradients/user/Tanh", False),
        ("gradients/zeros/Const", True),
        ("gradients/AddN_2/inputs_3", True),
        ("gradients/AddN", True),
    ],
)
def test_a_scope_of_the_programs_own_may_bear_the_usual_name(name, is_gradient):
    """TensorFlow puts nothing deeper there but in scopes of gradients."""
    facts = gather_facts(run(op(name), op("gradients_1/user_grad/Mul")))

    assert (name in pair_gradients(facts)) == is_gradient


def loop(name, *variables, on="CPU:0"):
    """Return a loop of ``while_v2``, its gradient, and what both take of variables."""
    yield op(f"{name}/LoopCond/_9", on=on, op_type="LoopCond")
    for i, (variable, device_of_it) in enumerate(variables):
        number = f"_{i}" if i else ""
        shape = f"gradients/VariableShape{number}"
        zeros = f"gradients/zeros{number}"
        gradient = f"gradients/{name}_grad/{name}_grad"
        yield op(variable, on=device_of_it, op_type="VarHandleOp")
        yield op(
            f"{name}/enter/_{i}", on=device_of_it, op_type="Enter", inputs=[variable]
        )
        yield op(shape, on=device_of_it, op_type="VariableShape", inputs=[variable])
        yield op(zeros, op_type="Fill", inputs=[shape])
        yield op(f"{gradient}/enter/_{i}", op_type="Enter", inputs=[zeros])
    yield op(f"{gradient}/body/_5/Mul", op_type="Mul")


BODY = "gradients/while_grad/while_grad/body/_5/Mul"


def test_a_loop_over_devices_goes_where_the_first_variable_is_that_it_reads():
    """Zeros of that shape are the first that is bound to it."""
    ops = list(loop("while", ("b", "CPU:2"), ("a", "CPU:1")))

    assert expected(*ops, of=BODY) == "CPU:2"
    assert rule_for(*ops, of=BODY) == (Rule.LOOP_READS.sentence, 0.7)


def test_a_variable_that_two_loops_read_does_not_tell_where_they_go():
    """The loops may have drawn it there, and then its device is not its own."""
    ops = list(loop("while", ("b", "CPU:2"), ("a", "CPU:1")))
    other = op("other/enter/_1", on="CPU:1", op_type="Enter", inputs=["a"])

    assert expected(*ops, other, of=BODY) is None


def test_an_array_is_where_the_first_value_is_that_is_written_into_it():
    """So the op that made the value belongs to the group of the array."""
    name = "gradients/value_grad/Mul"
    ops = [
        op("array", on="CPU:1", op_type="TensorArrayV3"),
        op("elsewhere", on="CPU:2", op_type="TensorArrayReadV3", inputs=["array"]),
        op("value", on="CPU:1"),
        op("write", on="CPU:1", op_type="TensorArrayWriteV3")
        | {"inputs": ["array", "index", "value", "flow"]},
        op(name),
    ]

    assert expected(*ops, of=name) is None
    assert expected(*ops[:3], op(name), of=name) == "CPU:1"
