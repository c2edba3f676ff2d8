import pytest

from placement_viz.analysis.colocation.facts import gather_facts
from placement_viz.analysis.colocation.pairing import pair_gradients
from placement_viz.analysis.colocation.pairs import Rule
from tests.builders import node, op, run


def pairs_of(*ops, nodes=None):
    """Return gradient op to its pair; a name alone stands for an op that ran."""
    ran = [op(each) if isinstance(each, str) else each for each in ops]
    return pair_gradients(gather_facts(run(*ran, nodes=nodes)))


def forward_of(name, *others, nodes=None):
    """Return the forward op of ``name`` among ``others``, and how it was found."""
    pair = pairs_of(*others, name, nodes=nodes)[name]
    return pair.forward_op, pair.rule


@pytest.mark.parametrize(
    ("name", "forward", "rule"),
    [
        ("gradients/mm_grad/MatMul", "mm", Rule.TRACE_NAME),
        ("gradients/layer/mm_grad/MatMul", "layer/mm", Rule.TRACE_NAME),
        ("gradients_2/mm_grad/MatMul_1", "mm", Rule.TRACE_NAME),
        ("train/gradients/mm_grad/MatMul", "mm", Rule.TRACE_NAME),
        ("train/gradients/layer/mm_grad/tuple/group_deps", "layer/mm", Rule.TRACE_NAME),
        # The same op differentiated a second time in one call.
        ("gradients/mm_grad_1/MatMul", "mm", Rule.TRACE_NAME),
        # tf.gradients(name=…), and an optimiser that passes its own.
        ("mine/mm_grad/MatMul", "mm", Rule.TRACE_NAME),
        ("a/b/c/layer/mm_grad/MatMul", "layer/mm", Rule.TRACE_NAME),
        # A scope of the program's own ends like a gradient's.
        ("gradients/my_grad/mm_grad/MatMul", "my_grad/mm", Rule.TRACE_NAME),
        ("gradients/my_grad/mm_grad/Neg_grad/x", "my_grad/mm", Rule.TRACE_NAME),
        # The forward op was pruned, fused or folded.
        ("gradients/gone_grad/MatMul", "gone", Rule.NAME_ONLY),
        ("gradients/a/gone_grad/MatMul", "a/gone", Rule.NAME_ONLY),
        # Function gradients: one op that holds all the others.
        ("gradients/W_grad/W_grad", "W", Rule.TRACE_NAME),
        ("gradients/W_grad/W_grad/body/_3/gradients/x_grad/Mul", "W", Rule.TRACE_NAME),
        ("gradients/cond_grad/cond_grad/then/_0/Neg", "cond", Rule.TRACE_NAME),
        ("gradients/call_grad/PartitionedCall/Mul", "call", Rule.TRACE_NAME),
        ("gradients/call_grad/StatefulPartitionedCall", "call", Rule.TRACE_NAME),
        # A function that was inlined: its ops bear the name of the call in front.
        (
            "StatefulPartitionedCall/gradients/inner_grad/MatMul",
            "StatefulPartitionedCall/inner",
            Rule.TRACE_NAME,
        ),
        ("gradients/out_grad/MatMul", "out_0", Rule.TRACE_NAME),
        # What adds up gradients pairwise lies in a scope of its own.
        ("gradients/mm_gradient_sum/AddN", "mm", Rule.TRACE_NAME),
        ("gradients/mm_gradient_sum_1/AddN", "mm", Rule.TRACE_NAME),
        ("gradients/layer/gone_gradient_sum/AddN", "layer/gone", Rule.NAME_ONLY),
    ],
)
def test_a_name_holds_the_forward_op(name, forward, rule):
    """The longest op that exists, in any scope, under any outer scope."""
    ran = [
        "mm",
        "layer/mm",
        "my_grad/mm",
        "my_grad",
        "W",
        "cond",
        "call",
        "StatefulPartitionedCall/inner",
        "out_0",
    ]

    assert forward_of(name, *ran) == (forward, rule)


def test_a_graph_makes_the_pair_certain():
    """The forward op need not have run."""
    nodes = [node("mm"), node("gradients/mm_grad/Mul")]

    assert forward_of("gradients/mm_grad/Mul", nodes=nodes) == ("mm", Rule.GRAPH_NAME)


def test_what_was_noted_needs_no_name():
    """A gradient op may be called anything when TensorFlow noted what it is."""
    nodes = [node("mm"), node("anything", forward="mm")]

    assert forward_of("anything", nodes=nodes) == ("mm", Rule.RECORDED)


def test_a_second_gradient_belongs_to_the_first():
    """The longest reading that exists is the gradient of a gradient."""
    first = "gradients/mm_grad/Mul"
    second = f"gradients_1/{first}_grad/Mul"

    assert forward_of(second, "mm", first) == (first, Rule.TRACE_NAME)


def test_a_scope_with_a_name_of_its_own_holds_what_has_no_forward_op_in_its_name():
    """Once an op shows that ``mine`` is a gradient scope, all in it are gradients."""
    found = pairs_of("mm", "mine/mm_grad/Mul", "mine/AddN", "mine/gone_grad/Mul")

    assert found["mine/AddN"].scope == "mine"
    assert found["mine/gone_grad/Mul"].forward_op == "gone"
    assert "mm" not in found


@pytest.mark.parametrize(
    "name",
    [
        "mm",
        "my_grad",
        "layer/my_grad/MatMul",
        "mine/gone_grad/MatMul",
        "gradients",
        "gradients_of/mm",
        "my_gradients/mm",
        "_cloopgradients/mm_grad/b_sync/_3",
        "_arg_gradients/mm_grad/x_0_0",
        "_retval_gradients/mm_grad/MatMul_0_0",
        "edge_7_gradients/mm_grad/MatMul",
        "gradients/mm_grad/MatMul/_7",
        "gradients/mm_grad/MatMul/ctrl/_8",
        "_SOURCE",
    ],
)
def test_what_only_looks_like_a_gradient_is_none(name):
    """The text alone makes no gradient op."""
    assert name not in pairs_of("mm", "gradients/mm_grad/MatMul", name)


def test_a_name_that_only_ends_like_a_copy_is_an_op_when_the_graph_has_it():
    """What control flow was lowered from really ends in a number."""
    name = "gradients/mm_grad/MatMul/_7"
    nodes = [node("mm"), node("gradients/mm_grad/MatMul"), node(name)]

    assert forward_of(name, nodes=nodes)[0] == "mm"


def test_a_scope_of_the_program_called_gradients_makes_no_gradient_op():
    """Where TensorFlow noted its gradient ops, what it did not note is none."""
    nodes = [
        node("mm"),
        node("gradients/mm_grad/Mul", forward="mm"),
        node("gradients/mine"),
    ]

    assert set(pairs_of(nodes=nodes)) == {"gradients/mm_grad/Mul"}


def test_without_notes_a_scope_called_gradients_is_taken_for_one():
    """An op with no known forward op is listed, as unknown."""
    nodes = [node("mm"), node("gradients/mine")]

    assert forward_of("gradients/mine", nodes=nodes) == (None, Rule.NONE)


def test_the_name_of_a_tape_gradient_may_hold_the_forward_op():
    """TensorFlow's Python functions open a scope that is called like their op."""
    ran = ["layer/mm", "layer/Relu"]

    assert forward_of("gradient_tape/layer/mm/MatMul_1", *ran) == (
        "layer/mm",
        Rule.TRACE_NAME,
    )


def test_the_forward_op_of_a_tape_gradient_lies_in_the_function_of_the_tape():
    """Both bear the name of the call in front."""
    name = "call/gradient_tape/mm/MatMul"

    assert forward_of(name, "call/mm", "mm") == ("call/mm", Rule.TRACE_NAME)


@pytest.mark.parametrize(
    ("op_type", "twin"),
    [
        ("ReluGrad", "layer/a"),
        ("FusedBatchNormGradV3", "layer/b"),
        ("Conv2DBackpropFilter", "layer/c"),
        ("DepthwiseConv2dNativeBackpropInput", "layer/d"),
    ],
)
def test_a_tape_gradient_is_paired_with_the_one_op_of_its_type(op_type, twin):
    """ReluGrad in the scope of a layer is the gradient of that layer's one Relu."""
    name = "gradient_tape/layer/x"
    ran = [
        op("layer/a", op_type="Relu"),
        op("layer/b", op_type="FusedBatchNorm"),
        op("layer/c", op_type="Conv2D"),
        op("layer/d", op_type="DepthwiseConv2dNative"),
    ]

    pair = pairs_of(*ran, op(name, op_type=op_type))[name]

    assert (pair.forward_op, pair.rule) == (twin, Rule.TAPE_TYPE)


def test_a_tape_gradient_with_several_twins_has_only_a_scope():
    """Two ReLUs in a layer: either may be meant, so neither is named."""
    name = "gradient_tape/layer/x"
    ran = [op(f"layer/{each}", op_type="Relu") for each in "ab"]

    pair = pairs_of(*ran, op(name, op_type="ReluGrad"))[name]

    assert (pair.forward_op, pair.rule) == (None, Rule.TAPE_SCOPE)
    assert pair.forward_scope == "layer"


def test_a_sum_beside_the_scope_of_a_tape_is_one_of_gradients():
    """It bears no mark, but it adds up what the tape made."""
    made = "gradient_tape/mm/MatMul"
    found = pairs_of(
        "mm",
        op(made),
        op("AddN", op_type="AddN", inputs=[made, made]),
        op("AddN_1", op_type="AddN", inputs=["mm", "mm"]),
        op("elsewhere/AddN", op_type="AddN", inputs=[made, made]),
    )

    assert set(found) == {made, "AddN"}


def test_a_sum_belongs_to_the_op_whose_gradient_takes_it():
    """TensorFlow adds up just before it differentiates the op."""
    found = pairs_of(
        "x",
        op("gradients/AddN", op_type="AddN"),
        op("gradients/x_grad/Mul", inputs=["gradients/AddN"]),
    )

    assert found["gradients/AddN"].forward_op == "x"
    assert found["gradients/AddN"].rule is Rule.CONSUMER


def test_of_two_takers_of_a_sum_neither_wins_by_its_place_in_the_file():
    """An addition passes its gradient on to both of its inputs."""
    base = ["a", "b", op("gradients/AddN", op_type="AddN")]
    takers = [op(f"gradients/{f}_grad/Mul", inputs=["gradients/AddN"]) for f in "ab"]

    found, other = pairs_of(*base, *takers), pairs_of(*base, *takers[::-1])

    assert found["gradients/AddN"].forward_op == other["gradients/AddN"].forward_op


def test_what_feeds_a_sum_of_its_scope_belongs_where_the_sum_does():
    """Zeros that are added up are made for the same op."""
    found = pairs_of(
        "x",
        op("gradients/zeros"),
        op("gradients/AddN", op_type="AddN", inputs=["gradients/zeros"]),
        op("gradients/x_grad/Mul", inputs=["gradients/AddN"]),
    )

    assert found["gradients/zeros"].forward_op == "x"


def test_a_taker_in_another_scope_says_nothing():
    """The gradient of a gradient takes it, and was not what it was made for."""
    found = pairs_of(
        "x",
        "gradients/x_grad/Mul",
        op("gradients/AddN", op_type="AddN"),
        op("gradients_1/x_grad/Mul", inputs=["gradients/AddN"]),
    )

    assert found["gradients/AddN"].rule is Rule.NONE


@pytest.mark.parametrize(
    "update",
    [
        "ApplyGradientDescent",
        "ResourceApplyAdam",
        "SparseApplyMomentum",
        "ResourceScatterAdd",
        "AssignSubVariableOp",
    ],
)
def test_a_sum_that_updates_a_variable_belongs_to_it(update):
    """It is the gradient of that variable."""
    found = pairs_of(
        op("w", op_type="VarHandleOp"),
        op("gradients/AddN", op_type="AddN"),
        op("train/update", op_type=update, inputs=["w", "gradients/AddN"]),
    )

    assert found["gradients/AddN"].forward_op == "w"
    assert found["gradients/AddN"].rule is Rule.UPDATE


def test_a_variable_that_is_not_in_the_trace_is_where_its_update_is():
    """The update must be where its variable is, so it stands for it."""
    found = pairs_of(
        op("gradients/AddN", op_type="AddN"),
        op("update", op_type="ApplyAdam", inputs=["gone", "gradients/AddN"]),
    )

    assert found["gradients/AddN"].forward_op == "update"


def summed(*taken_by):
    """Return the pairs where the forward ops ``f0``, ``f1``… took what is given."""
    return pairs_of(
        op("x"),
        op("y"),
        op("c", op_type="Const"),
        *(op(f"f{i}", inputs=inputs) for i, inputs in enumerate(taken_by)),
        *(op(f"gradients/f{i}_grad/Mul") for i in range(len(taken_by))),
        op(
            "gradients/AddN",
            op_type="AddN",
            inputs=[f"gradients/f{i}_grad/Mul" for i in range(len(taken_by))],
        ),
    )["gradients/AddN"]


def test_a_result_is_the_gradient_of_what_all_summands_differentiate():
    """Nothing takes it, but only one op was taken by all the forward ops."""
    pair = summed(["x", "c"], ["y", "x", "c"])

    assert (pair.forward_op, pair.rule) == ("x", Rule.SUMMANDS)


def test_a_result_of_which_two_ops_may_be_meant_is_open():
    """Both forward ops took both, so nothing is said."""
    assert summed(["x", "y"], ["y", "x"]).rule is Rule.NONE
    assert summed(["x"], ["y"]).rule is Rule.NONE


def loop(*, condition="LoopCond", is_differentiated=True):
    """Return the pairs of a v1 loop with the counter that its gradient adds."""
    ops = [
        op("while/LoopCond", op_type=condition),
        op("while/Switch", op_type="Switch", inputs=["while/Merge", "while/LoopCond"]),
        op("while/Exit", op_type="Exit", inputs=["while/Switch"]),
        op("gradients/f_count", op_type="Const"),
        op("gradients/f_count_1", op_type="Enter", inputs=["gradients/f_count"]),
        op("gradients/Merge", op_type="Merge", inputs=["gradients/f_count_1"]),
        op(
            "gradients/Switch",
            op_type="Switch",
            inputs=["gradients/Merge", "while/LoopCond"],
        ),
        op("gradients/Add", op_type="AddV2", inputs=["gradients/Switch:1"]),
        op("gradients/f_count_2", op_type="Exit", inputs=["gradients/Switch"]),
        op("gradients/unrelated", op_type="Const"),
    ]
    if is_differentiated:
        ops.append(op("gradients/while/Exit_grad/b_exit", op_type="Enter"))
    return pairs_of(*ops)


def test_the_counter_of_a_loop_belongs_to_the_exit_it_is_made_for():
    """All ops of the counter hang together, and one takes the loop's condition."""
    found = loop()

    counters = {name for name, pair in found.items() if pair.rule is Rule.LOOP}

    assert counters == {
        "gradients/f_count",
        "gradients/f_count_1",
        "gradients/Merge",
        "gradients/Switch",
        "gradients/Add",
        "gradients/f_count_2",
    }
    assert {found[name].forward_op for name in counters} == {"while/Exit"}
    assert found["gradients/unrelated"].rule is Rule.NONE


def test_a_switch_that_takes_no_condition_of_a_loop_counts_nothing():
    """The switch of a tf.cond looks the same otherwise."""
    assert not any(pair.rule is Rule.LOOP for pair in loop(condition="Less").values())


def test_a_loop_whose_gradient_was_not_taken_has_no_counter():
    """No exit has a gradient in that scope, so the ops stay open."""
    found = loop(is_differentiated=False)

    assert found["gradients/Switch"].rule is Rule.NONE


def test_pairs_are_in_the_order_of_the_graph():
    """Then come those that ran and are in no graph."""
    nodes = [node("mm"), node("gradients/mm_grad/B"), node("gradients/mm_grad/A")]

    found = pairs_of("gradients/mm_grad/C", "gradients/mm_grad/A", nodes=nodes)

    assert [name[-1] for name in found] == ["B", "A", "C"]
