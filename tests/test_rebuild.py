import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz.analysis.colocation.pairs import Pair, Rule
from placement_viz.analysis.colocation.rebuild import rebuild_colocated
from tests.builders import device, node, op, run
from tests.test_colocation import verdicts

SUM = "gradients/AddN"


def addn(name, *inputs, **fields):
    """Return a sum of gradients."""
    return node(name, op="AddN", inputs=inputs, **fields)


def towers(*devices):
    """Return for each device a forward op and, of it, a gradient that asks for none."""
    return [
        each
        for i, on in enumerate(devices)
        for each in (
            node(f"f{i}", on=on, inputs=("x",)),
            node(f"gradients/f{i}_grad/Mul", forward=f"f{i}", inputs=("seed",)),
        )
    ]


def gradient(i):
    """Return the name of the gradient of the i-th of ``towers``."""
    return f"gradients/f{i}_grad/Mul"


def rebuilt(*nodes):
    """Return the colocated graph, by name, and what each sum is called in it."""
    pairs = {
        each.name: Pair(each.forward, Rule.RECORDED, each.name.partition("/")[0])
        for each in nodes
        if each.forward
    }
    found = rebuild_colocated({each.name: each for each in nodes}, pairs)
    return {each.name: each for each in found.nodes}, found.renamed


def sums(found):
    """Return name, request and summands of the sums in a colocated graph."""
    return [
        (each.name, each.device, [source for source, _ in each.inputs])
        for each in found.values()
        if each.op == "AddN"
    ]


def test_a_gradient_is_bound_to_its_forward_op_and_asks_for_the_same():
    """That is what colocation does to a gradient op."""
    found, _ = rebuilt(*towers("CPU:1"))

    made = found[gradient(0)]

    assert made.groups == ("f0",)
    assert made.device == "/device:CPU:1"
    assert made.inputs == (("seed", 0),)


def test_a_forward_op_is_built_as_it_was():
    """Request, binding, inputs and handles."""
    forward = node(
        "f", on="CPU:1", colocate=("v",), inputs=("v:1", "^w", "x"), handles=(0,)
    )

    made = rebuilt(forward)[0]["f"]

    assert made.device == "/device:CPU:1"
    assert made.groups == ("v",)
    assert made.inputs == (("v", 1), ("x", 0))
    assert made.handles == {0}


def test_a_sum_is_split_by_the_devices_that_are_asked_for():
    """Summands of one device are added there, and the parts with the forward op."""
    nodes = towers("CPU:1", "CPU:1", "CPU:2")
    total = addn(SUM, *map(gradient, range(3)), forward="x")

    found, renamed = rebuilt(node("x", on="CPU:0"), *nodes, total)

    assert sums(found) == [
        (SUM, "/device:CPU:1", [gradient(0), gradient(1)]),
        ("gradients/AddN_1", "/device:CPU:0", [SUM, gradient(2)]),
    ]
    assert found[SUM].groups == ("f0",)
    assert found["gradients/AddN_1"].groups == ("x",)
    assert renamed == {SUM: "gradients/AddN_1"}


def test_the_parts_of_a_sum_are_made_in_the_order_of_their_devices():
    """So that their numbers are those that TensorFlow gives."""
    nodes = towers("CPU:2", "CPU:1", "CPU:2", "CPU:1")
    total = addn(SUM, *map(gradient, range(4)), forward="x")

    found, _ = rebuilt(node("x"), *nodes, total)

    assert [request for _, request, _ in sums(found)] == [
        "/device:CPU:1",
        "/device:CPU:2",
        "",
    ]


@pytest.mark.parametrize(
    "devices", [("CPU:1", "CPU:1", "CPU:1"), ("CPU:1", "CPU:2"), ("", "", "")]
)
def test_a_sum_without_parts_stays_one(devices):
    """One device for all, or one summand for each device: nothing is added first."""
    total = addn(SUM, *map(gradient, range(len(devices))), forward="x")

    found, renamed = rebuilt(node("x"), *towers(*devices), total)

    assert [name for name, _, _ in sums(found)] == [SUM]
    assert renamed == {SUM: SUM}


def test_a_sum_on_one_device_is_bound_to_its_first_summand():
    """Not to the forward op: TensorFlow adds where the gradients are."""
    total = addn(SUM, gradient(0), gradient(1), forward="x")

    found, _ = rebuilt(node("x", on="CPU:0"), *towers("CPU:1", "CPU:1"), total)

    assert found[SUM].device == "/device:CPU:1"
    assert found[SUM].groups == ("f0",)


def test_sums_after_a_split_one_have_other_numbers():
    """What was AddN_1 is AddN_2 then, and its takers follow."""
    nodes = towers("CPU:1", "CPU:1", "CPU:2")
    found, renamed = rebuilt(
        node("x"),
        *nodes,
        addn(SUM, *map(gradient, range(3)), forward="x"),
        addn("gradients/AddN_1", gradient(0), gradient(1), forward="y"),
        node("gradients/x_grad/Neg", inputs=(SUM,), forward="x"),
        node("gradients/y_grad/Neg", inputs=("gradients/AddN_1",), forward="y"),
    )

    assert renamed == {SUM: "gradients/AddN_1", "gradients/AddN_1": "gradients/AddN_2"}
    assert found["gradients/x_grad/Neg"].inputs == (("gradients/AddN_1", 0),)
    assert found["gradients/y_grad/Neg"].inputs == (("gradients/AddN_2", 0),)


def test_each_scope_numbers_its_own_sums():
    """A split in one call of tf.gradients renames nothing in another."""
    nodes = towers("CPU:1", "CPU:1", "CPU:2")
    other = addn("gradients_1/AddN", gradient(0), gradient(1), forward="x")

    _, renamed = rebuilt(
        node("x"), *nodes, addn(SUM, *map(gradient, range(3)), forward="x"), other
    )

    assert renamed["gradients_1/AddN"] == "gradients_1/AddN"


def test_a_sum_of_nothing_is_made_as_any_gradient():
    """A damaged graph has nothing to split."""
    found, renamed = rebuilt(node("x", on="CPU:1"), addn(SUM, forward="x"))

    assert found[SUM].device == "/device:CPU:1"
    assert renamed == {}


def test_a_sum_of_the_program_is_none_of_gradients():
    """An AddN of forward ops is built as it was, whatever is around it."""
    forward = addn("AddN", "f0", "f1", "f2")

    found, renamed = rebuilt(*towers("CPU:1", "CPU:1", "CPU:2"), forward)

    assert sums(found) == [("AddN", "", ["f0", "f1", "f2"])]
    assert renamed == {}


def colocated(*devices):
    """Return towers, the sum of their gradients and its taker, built colocated."""
    nodes = towers(*devices)
    total = addn(SUM, *map(gradient, range(len(devices))), forward="x")
    second = addn("gradients/AddN_1", gradient(0), gradient(1), forward="y")
    forward = {each.name: each.forward for each in (*nodes, total, second)}
    found, renamed = rebuilt(node("x", on="CPU:0"), node("y"), *nodes, total, second)
    made = [
        node(
            each.name,
            on=each.device,
            op=each.op,
            colocate=each.groups,
            inputs=tuple(name for name, _ in each.inputs),
            forward=forward.get(each.name),
        )
        for each in found.values()
    ]
    parts = {name for name, _, _ in sums(found)}
    whole = {renamed["gradients/AddN_1"]: "y"}
    return [
        node(
            each.name,
            on=each.device,
            op=each.op,
            colocate=each.colocate,
            inputs=each.inputs,
            forward=whole.get(each.name, "x") if each.name in parts else each.forward,
        )
        for each in made
    ]


@given(st.lists(st.sampled_from(["", "CPU:1", "CPU:2"]), min_size=2, max_size=7))
def test_a_colocated_graph_stays_as_it_is(devices):
    """Parts and totals are recognised and not split again."""
    nodes = colocated(*devices)

    found, renamed = rebuilt(*nodes)

    assert sums(found) == [
        (each.name, each.device, list(each.inputs))
        for each in nodes
        if each.op == "AddN"
    ]
    assert all(old == new for old, new in renamed.items())


def test_a_gate_follows_what_it_lets_through():
    """A control dependency waits for all gradients of an op and carries one."""
    gate = "gradients/x_grad/tuple/control_dependency"
    gates = node(gate, forward="x", inputs=(gradient(0), "^gradients/x_grad/tuple"))

    found, _ = rebuilt(node("x", on="CPU:0"), *towers("CPU:1"), gates)

    assert found[gate].groups == ("f0",)
    assert found[gate].device == "/device:CPU:1"


def test_a_gate_without_input_is_outside_of_every_constraint():
    """The op that only waits is bound to nothing."""
    gate = node("gradients/x_grad/tuple/group_deps", forward="x", inputs=("^a", "^b"))

    found, _ = rebuilt(node("x", on="CPU:1"), gate)

    assert (found[gate.name].groups, found[gate.name].device) == ((), "")


def test_a_device_around_the_call_no_longer_counts():
    """Colocated gradients of what asks for nothing ask for nothing."""
    backward = [
        node(f"gradients/f_grad/{i}", on="CPU:2", forward="f") for i in range(3)
    ]

    found, _ = rebuilt(node("f"), *backward)

    assert {found[each.name].device for each in backward} == {""}


def test_a_pin_of_the_gradient_function_counts_where_the_forward_op_asks_for_nothing():
    """Shape arithmetic is pinned to the CPU; a request of the forward op beats that."""
    nodes = [
        node("free"),
        node("asked", on="CPU:1"),
        *(node(f"gradients/free_grad/{i}", on="CPU:2", forward="free") for i in "abc"),
        node("gradients/free_grad/pinned", on="CPU:0", forward="free"),
        node("gradients/asked_grad/pinned", on="CPU:0", forward="asked"),
    ]

    found, _ = rebuilt(*nodes)

    assert found["gradients/free_grad/pinned"].device == "/device:CPU:0"
    assert found["gradients/asked_grad/pinned"].device == "/device:CPU:1"


def test_what_the_gradient_function_binds_stays_bound():
    """A shape is bound to its tensor, and to the forward op besides."""
    shape = node(
        "gradients/f_grad/Shape",
        op="Shape",
        colocate=("t",),
        inputs=("t",),
        forward="f",
    )

    found, _ = rebuilt(node("t", on="CPU:2"), node("f", on="CPU:1"), shape)

    assert found[shape.name].groups == ("f", "t")
    assert found[shape.name].device == "/device:CPU:2"


def test_a_second_order_gradient_inherits_the_group_of_the_first():
    """It is bound to what the gradient it differentiates is bound to."""
    second = node(f"gradients_1/{gradient(0)}_grad/Mul", forward=gradient(0))

    found, _ = rebuilt(*towers("CPU:1"), second)

    assert found[second.name].groups == ("f0",)
    assert found[second.name].device == "/device:CPU:1"


def test_a_forward_op_bound_to_others_takes_its_gradient_along():
    """The gradient joins the group, which need not be named after its forward op."""
    backward = node("gradients/f_grad/Mul", forward="f")

    found, _ = rebuilt(node("v", on="CPU:1"), node("f", colocate=("v",)), backward)

    assert found[backward.name].groups == ("v",)


@pytest.mark.parametrize("loop", ["While", "StatelessWhile"])
def test_a_handle_that_passed_a_loop_is_taken_from_before_it(loop):
    """TensorFlow takes the loop apart before it places anything."""
    found, _ = rebuilt(
        node("v", on="CPU:1", op="VarHandleOp", handles=(0,)),
        node("first", op=loop, inputs=("n", "v"), handles=(1,)),
        node("second", op=loop, inputs=("first", "first:1"), handles=(1,)),
        node("read", op="ReadVariableOp", inputs=("second:1",)),
    )

    assert found["read"].inputs == (("v", 0),)
    assert found["second"].inputs == (("first", 0), ("first", 1))


def test_a_value_that_is_no_handle_is_taken_from_the_last_loop():
    """Only a handle passes a loop; a number that comes out was computed in it."""
    found, _ = rebuilt(
        node("first", op="While", inputs=("n",)),
        node("second", op="While", inputs=("first",)),
        node("use", inputs=("second",)),
    )

    assert found["use"].inputs == (("second", 0),)


def test_a_loop_fed_by_itself_ends():
    """A damaged graph goes in circles, and the look-up does not."""
    found, _ = rebuilt(
        node("a", op="While", inputs=("b",), handles=(0,)),
        node("b", op="While", inputs=("a",), handles=(0,)),
        node("read", inputs=("a",)),
    )

    assert found["read"].inputs[0][0] in {"a", "b"}


def test_a_loop_may_take_what_is_not_there():
    """A damaged graph names an op that it lacks."""
    found, _ = rebuilt(
        node("loop", op="While", inputs=("gone",)), node("taker", inputs=("loop",))
    )

    assert found["taker"].inputs == (("loop", 0),)


def test_the_gradient_of_a_pinned_forward_op_is_judged_by_the_rebuilt_graph():
    """The verdict rests on the device after colocation, not on the one asked for."""
    found = run(
        op("f", on="CPU:1"),
        op("gradients/f_grad/Mul", on="CPU:0"),
        nodes=[
            node("v", on="CPU:1", op="VarHandleOp", handles=(0,)),
            node("f", on="CPU:0", inputs=("v",)),
            node("gradients/f_grad/Mul", inputs=("x",), forward="f"),
        ],
    )

    row = verdicts(found)["gradients/f_grad/Mul"]

    assert row["expected_device"] == device("CPU:1")
