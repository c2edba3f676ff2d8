import pytest

from placement_viz.analysis.colocation.facts import gather_facts
from placement_viz.analysis.colocation.homes import Homes
from placement_viz.analysis.colocation.pairing import pair_gradients
from tests.builders import device, op, run

GONE = "gradients/gone_grad/Mul"


def expected(*ops, of=GONE):
    """Return the short name of the device where gradient op ``of`` belongs, or None."""
    facts = gather_facts(run(*ops))
    found = Homes(facts, pair_gradients(facts)).expected_device(of)
    return found and found.rpartition("/device:")[2]


def test_a_fused_op_is_where_the_op_is_that_took_what_was_read_for_it():
    """An optimiser fused the addition of a bias into a convolution."""
    found = expected(
        op("conv", on="CPU:1", inputs=["x", "gone/ReadVariableOp"]),
        op("gone/ReadVariableOp", on="CPU:2", op_type="ReadVariableOp"),
        op(GONE),
    )

    assert found == "CPU:1"


@pytest.mark.parametrize(
    "other",
    [
        op("also", on="CPU:2", inputs=["gone/ReadVariableOp"]),
        op("gradients/x_grad/Mul", on="CPU:2", inputs=["gone/ReadVariableOp"]),
        op("also", on="CPU:2", op_type="Identity", inputs=["gone/ReadVariableOp"]),
    ],
)
def test_only_forward_ops_tell_where_a_fused_op_lives_on(other):
    """A gradient op or what passes the value on says nothing; two homes are open."""
    found = expected(
        op("fused", on="CPU:1", inputs=["gone/ReadVariableOp"]),
        op("gone/ReadVariableOp", on="CPU:2", op_type="ReadVariableOp"),
        op("x"),
        other,
        op(GONE),
    )

    is_forward = other["name"] == "also" and other["op_type"] == "MatMul"
    assert found == (None if is_forward else "CPU:1")


def test_an_op_is_where_all_ops_of_its_scope_are():
    """A layer on one device has all its ops there."""
    found = expected(
        op("layer/a", on="CPU:1"),
        op("layer/b", on="CPU:1"),
        op("elsewhere/c", on="CPU:2"),
        op("gradients/layer/gone_grad/Mul"),
        of="gradients/layer/gone_grad/Mul",
    )

    assert found == "CPU:1"


def test_a_scope_on_two_devices_says_nothing():
    """Null beats a guess."""
    found = expected(
        op("layer/a", on="CPU:1"),
        op("layer/b", on="CPU:2"),
        op("gradients/layer/gone_grad/Mul"),
        of="gradients/layer/gone_grad/Mul",
    )

    assert found is None


@pytest.mark.parametrize("op_type", ["Const", "Identity", "ReadVariableOp", "Shape"])
def test_what_stays_with_its_input_is_no_evidence_for_a_scope(op_type):
    """A variable of a layer may be anywhere, and so may what is read from it."""
    found = expected(
        op("layer/a", on="CPU:1"),
        op("layer/b", on="CPU:2", op_type=op_type),
        op("gradients/layer/gone_grad/Mul"),
        of="gradients/layer/gone_grad/Mul",
    )

    assert found == "CPU:1"


def test_the_top_level_is_no_scope():
    """Ops that lie in no scope have nothing in common."""
    assert expected(op("a", on="CPU:1"), op("b", on="CPU:1"), op(GONE)) is None


def chain(before="CPU:1", after="CPU:1"):
    """Return x → gone → y with the gradients of both, where ``gone`` did not run."""
    return [
        op("x", on=before),
        op("y", on=after),
        op("gradients/y_grad/Mul", inputs=["seed"]),
        op(GONE, inputs=["gradients/y_grad/Mul", "x"]),
    ]


def test_an_op_between_two_others_on_a_device_is_there_too():
    """Its gradient takes what the op took, and the gradient of what took the op."""
    assert expected(*chain()) == "CPU:1"


def test_an_op_between_two_devices_is_open():
    """It may be on either side."""
    assert expected(*chain(before="CPU:2")) is None


def test_an_op_at_the_end_of_the_forward_pass_is_open():
    """Nothing takes it, so it may well be elsewhere than what it takes."""
    assert expected(op("x", on="CPU:1"), op(GONE, inputs=["x", "seed"])) is None


def test_several_ops_in_a_row_that_did_not_run_are_between_the_same_two():
    """An answer may rest on another that was inferred."""
    found = expected(
        op("x", on="CPU:1"),
        op("y", on="CPU:1"),
        op("gradients/y_grad/Mul"),
        op("gradients/b_grad/Mul", inputs=["gradients/y_grad/Mul", "x"]),
        op("gradients/a_grad/Mul", inputs=["gradients/b_grad/Mul", "x"]),
        of="gradients/a_grad/Mul",
    )

    assert found == "CPU:1"


def test_ops_that_only_prove_each_other_prove_nothing():
    """A damaged trace goes in circles, and an answer must not rest on itself."""
    found = expected(
        op("gradients/a_grad/Mul", inputs=["gradients/b_grad/Mul"]),
        op("gradients/b_grad/Mul", inputs=["gradients/a_grad/Mul"]),
        of="gradients/a_grad/Mul",
    )

    assert found is None


@pytest.mark.parametrize(
    "n_ops",
    [
        100,
        pytest.param(
            2000,
        ),
    ],
)
def test_a_long_row_of_ops_that_did_not_run_is_followed(n_ops):
    """A recurrent net unrolled over a text has thousands in a row."""
    row = [
        op(
            f"gradients/f{i}_grad/Mul",
            inputs=[f"gradients/f{i + 1}_grad/Mul", "x"],
        )
        for i in range(n_ops)
    ]
    last = f"f{n_ops}"

    found = expected(
        op("x", on="CPU:1"),
        op(last, on="CPU:1"),
        op(f"gradients/{last}_grad/Mul"),
        *row,
        of="gradients/f0_grad/Mul",
    )

    assert found == "CPU:1"


def loop(*devices):
    """Return what is left of a loop that was taken apart, and a gradient of it."""
    return [
        *(
            op(f"W/{part}/_{i}", on=on, op_type="LoopCond")
            for i, (part, on) in enumerate(
                zip(["LoopCond", "switch_pred", "pivot_t"], devices, strict=False)
            )
        ),
        op("gradients/W_grad/W_grad/body/_7/Mul"),
    ]


def test_a_loop_on_one_device_has_its_gradient_there():
    """What steers a loop is where the loop is."""
    name = "gradients/W_grad/W_grad/body/_7/Mul"

    assert expected(*loop("CPU:1", "CPU:1"), of=name) == "CPU:1"


def test_a_loop_over_two_devices_is_open():
    """What a loop reads elsewhere may draw its gradient there."""
    name = "gradients/W_grad/W_grad/body/_7/Mul"
    read = op("W/body/_3/ReadVariableOp", on="CPU:2", op_type="ReadVariableOp")

    assert expected(*loop("CPU:1", "CPU:2"), of=name) is None
    assert expected(*loop("CPU:1"), read, of=name) is None


def add_up(*homes, n_more=0):
    """Return forward ops on ``homes``, their gradients, their sum, and more sums.

    A home that is None is not known. The op whose gradients are summed is on CPU:0.
    """
    ops = [op("x", on="CPU:0")]
    for i, home in enumerate(homes):
        if home:
            ops.append(op(f"f{i}", on=home))
        ops.append(op(f"gradients/f{i}_grad/Mul"))
    summands = [f"gradients/f{i}_grad/Mul" for i in range(len(homes))]
    ops.append(op("gradients/AddN", op_type="AddN", inputs=summands))
    ops.append(op("gradients/x_grad/Neg", inputs=["gradients/AddN"]))
    ops.append(op("h", on="CPU:3"))
    for i in range(1, n_more + 1):
        name = f"gradients/AddN_{i}"
        ops.append(op(f"z{i}", on="CPU:3"))
        ops.append(op(name, op_type="AddN", inputs=["gradients/h_grad/Mul"] * 2))
        ops.append(op(f"gradients/z{i}_grad/Neg", inputs=[name]))
    ops.append(op("gradients/h_grad/Mul"))
    return ops


def sum_at(*homes, number=0):
    """Return where the sum of gradients of ops on ``homes`` belongs."""
    name = f"gradients/AddN_{number}" if number else "gradients/AddN"
    return expected(*add_up(*homes, n_more=number), of=name)


@pytest.mark.parametrize(
    ("homes", "where"),
    [
        (("CPU:1", "CPU:1"), "CPU:1"),
        (("CPU:1", "CPU:2"), "CPU:0"),
        (("CPU:1", "CPU:1", "CPU:1"), "CPU:1"),
        (("CPU:1", "CPU:2", "CPU:3"), "CPU:0"),
        # Split: the sum of this name is then the part that is added first.
        (("CPU:1", "CPU:2", "CPU:2"), "CPU:2"),
        (("CPU:2", "CPU:2", "CPU:1", "CPU:1"), "CPU:1"),
    ],
)
def test_a_sum_is_where_the_op_is_that_then_bears_its_name(homes, where):
    """One device: there. Several: with the forward op, or the first part."""
    assert sum_at(*homes) == where


def test_two_summands_make_one_op_whatever_is_known():
    """So a summand that is open leaves open this sum and no later one."""
    assert sum_at("CPU:1", None) is None
    assert sum_at("CPU:0", None) == "CPU:0"
    assert sum_at("CPU:1", None, number=1) == "CPU:3"


def test_an_open_summand_among_three_leaves_all_later_names_open():
    """Into how many parts that sum falls is not known, so neither are the numbers."""
    assert sum_at("CPU:1", "CPU:2", None) is None
    assert sum_at("CPU:1", "CPU:2", None, number=1) is None


def test_a_split_sum_gives_its_number_to_a_part_and_the_next_to_its_total():
    """AddN_1 is then the total of the first sum, wherever the second one was."""
    assert sum_at("CPU:1", "CPU:1", "CPU:2", number=1) == "CPU:0"
    assert sum_at("CPU:1", "CPU:1", "CPU:1", number=1) == "CPU:3"


def test_the_number_of_a_sum_may_be_anything():
    """A number larger than any model has is no reason to count up to it."""
    name = "gradients/AddN_99999999"
    found = expected(
        op("x", on="CPU:1"),
        op("gradients/x_grad/Mul"),
        op(name, op_type="AddN", inputs=["gradients/x_grad/Mul"] * 2),
        of=name,
    )

    assert found in {None, "CPU:1"}


def test_what_several_devices_are_entangled_in_is_open():
    """The stack of a loop binds forward and gradient op, which ran on two devices."""
    ops = [
        op("f", on="CPU:1"),
        op("g", on="CPU:2"),
        op("gradients/g_grad/StackV2", op_type="StackV2"),
        op(
            "gradients/g_grad/StackPushV2",
            op_type="StackPushV2",
            inputs=["gradients/g_grad/StackV2", "f"],
        ),
        op("gradients/g_grad/Mul", inputs=["gradients/g_grad/StackPushV2"]),
    ]

    assert expected(*ops, of="gradients/g_grad/Mul") is None
    assert expected(*ops[1:2], *ops[4:], of="gradients/g_grad/Mul") == "CPU:2"


def test_what_is_entangled_on_one_device_is_there():
    """Bound together and in one place: nothing moves."""
    found = expected(
        op("f", on="CPU:2"),
        op("g", on="CPU:2"),
        op(
            "gradients/g_grad/StackPushV2",
            op_type="StackPushV2",
            inputs=["gradients/g_grad/StackV2", "f"],
        ),
        op("gradients/g_grad/Mul"),
        of="gradients/g_grad/Mul",
    )

    assert found == "CPU:2"


def test_an_op_that_ran_on_several_devices_is_open():
    """An optimiser copied it, and either copy may be meant."""
    assert expected(op("gone", on="CPU:1"), op("gone", on="CPU:2"), op(GONE)) is None


def test_a_gradient_of_a_gradient_is_where_that_belongs_not_where_it_ran():
    """The first gradient would come home too, and take the second along."""
    first = "gradients/mm_grad/Mul"
    second = f"gradients_1/{first}_grad/Mul"

    found = expected(op("mm", on="CPU:1"), op(first, on="CPU:0"), op(second), of=second)

    assert device(found) == device("CPU:1")
