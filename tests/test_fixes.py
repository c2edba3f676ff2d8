import dataclasses

import pytest

from placement_viz import analyze_run
from placement_viz.model import Graph
from placement_viz.reports.sentences import fix_sentence
from placement_viz.schema import RunSection
from tests.builders import node, op, run

LINES = ("train.py:48", "train.py:90")


def backward(i, source=0, **fields):
    """Return a gradient of the forward op ``f{i}``, built at a line."""
    return node(f"gradients/f{i}_grad/Mul", forward=f"f{i}", source=source, **fields)


def fixes(*nodes, ops=(), section=None):
    """Return the fixes of a run where ``nodes`` ran, forward ops on CPU:1."""
    ran = [
        op(each.name, on="CPU:0" if each.forward else "CPU:1", op_type=each.op)
        for each in nodes
    ]
    found = run(*ran, *ops)
    table = Graph(nodes={each.name: each for each in nodes}, sources=LINES)
    found = dataclasses.replace(found, graph=table, section=section)
    return analyze_run(found).fixes


def test_each_line_that_builds_misplaced_gradients_has_a_fix():
    """The line that brings most ops home comes first."""
    forward = [node(f"f{i}", on="CPU:1") for i in range(3)]
    found = fixes(*forward, backward(0), backward(1, source=1), backward(2, source=1))

    assert [(fix.where, fix.removes_ops, fix.removes_us) for fix in found] == [
        ("train.py:90", 2, 20),
        ("train.py:48", 1, 10),
    ]
    assert all("colocate_gradients_with_ops=True" in fix.change for fix in found)
    assert {fix.side_effects for fix in found} == {""}


def test_lines_that_bring_equally_many_home_are_in_the_order_of_the_text():
    """So that a report of a run is always the same."""
    forward = [node(f"f{i}", on="CPU:1") for i in range(2)]

    found = fixes(*forward, backward(1, source=1), backward(0))

    assert [fix.where for fix in found] == list(LINES)


def test_two_ways_of_one_line_are_in_an_order_that_lasts():
    """A tape and a call of tf.gradients, as many ops each, and no line known."""
    found = run(
        op("mm", on="CPU:1"), op("gradient_tape/mm/MatMul"), op("gradients/mm_grad/Mul")
    )

    assert len({analyze_run(found).fixes for _ in range(30)}) == 1


def test_an_op_that_was_copied_is_not_said_to_move():
    """It ran on several devices, so none of them is where it was."""
    nodes = [
        node("f", on="CPU:1"),
        node("v", on="CPU:2", op="VarHandleOp", handles=(0,)),
        node("stack", op="StackV2", handles=(0,), inputs=("n",), forward="f"),
        node("g", inputs=("x",)),
        node("push", op="StackPushV2", inputs=("stack", "g"), colocate=("g",)),
        node("gradients/f_grad/Mul", forward="f"),
    ]
    ran = [
        op("f", on="CPU:1"),
        op("g", on="CPU:0"),
        op("g", on="CPU:2"),
        op("gradients/f_grad/Mul", on="CPU:0"),
    ]

    assert "g" not in analyze_run(run(*ran, nodes=nodes)).colocation.collateral


def test_without_a_graph_there_is_one_fix_without_a_line():
    """A plain timeline does not know who built an op."""
    found = run(
        op("f", on="CPU:1"),
        op("gradients/f_grad/A", duration_us=3),
        op("gradients/f_grad/B", duration_us=4),
    )

    (fix,) = analyze_run(found).fixes

    assert (fix.where, fix.removes_ops, fix.removes_us) == (None, 2, 7)
    assert fix_sentence(fix) == (
        "pass colocate_gradients_with_ops=True to tf.gradients, compute_gradients or "
        "minimize. Brings 2 ops home, 7 µs of durations."
    )


def test_a_tape_has_another_remedy():
    """GradientTape knows no flag, so it is not told to set one."""
    found = run(
        op("mm", on="CPU:1"),
        op("gradient_tape/mm/MatMul"),
        op("gradient_tape/mm/Mul"),
        op("gradients/mm_grad/Mul"),
    )

    tape, flag = analyze_run(found).fixes

    assert tape.removes_ops == 2
    assert tape.change.startswith("GradientTape has no such flag")
    assert flag.removes_ops == 1
    assert flag.change.startswith("pass colocate_gradients_with_ops=True")


@pytest.mark.parametrize("on", ["CPU:0", "CPU:1"])
def test_a_fix_is_offered_only_where_something_is_misplaced(on):
    """Gradients at home need none."""
    found = analyze_run(run(op("f", on="CPU:1"), op("gradients/f_grad/A", on=on)))

    assert bool(found.fixes) is (on == "CPU:0")


def test_a_run_without_gradients_has_no_fix():
    """Nothing to bring home."""
    assert analyze_run(run(op("f"))).fixes == ()


def test_a_colocated_run_has_no_fix():
    """What is still away stays away with the flag: it was set already."""
    nodes = node("f", on="CPU:1"), backward(0), node("f0", on="CPU:1")

    assert fixes(*nodes, section=RunSection(schema=1, placement="as-is"))
    assert fixes(*nodes, section=RunSection(schema=1, placement="colocated")) == ()


def test_ops_that_were_placed_on_purpose_are_said_to_stay():
    """A tf.device of their own beats the flag."""
    nodes = [
        *(node(f"f{i}", on="CPU:1") for i in range(4)),
        *(backward(i) for i in range(3)),
        node("g", on="CPU:1"),
    ]
    one = node("gradients_1/f3_grad/Mul", on="CPU:0", forward="f3")
    two = node("gradients_1/f2_grad/Mul", on="CPU:0", forward="f2")

    assert fixes(*nodes, one)[0].side_effects.startswith("1 op that has a tf.device")
    assert fixes(*nodes, one, two)[0].side_effects == (
        "2 ops that have a tf.device of their own stay"
    )


def test_one_op_that_was_placed_on_purpose_is_spoken_of_as_one():
    """Verb and pronoun agree with the number."""
    nodes = [node("f0", on="CPU:1"), backward(0), node("f1", on="CPU:1")]
    pinned = node("gradients_1/f1_grad/Mul", on="CPU:0", forward="f1")

    assert fixes(*nodes, pinned)[0].side_effects == (
        "1 op that has a tf.device of its own stays"
    )


def test_ops_of_which_nothing_is_known_are_counted():
    """Nobody can say where they will be."""
    found = run(
        op("f", on="CPU:1"), op("gradients/f_grad/Mul"), op("gradients/gone_grad/Mul")
    )

    (fix,) = analyze_run(found).fixes

    assert fix.side_effects == "what becomes of 1 op is not known"
    assert fix_sentence(fix).endswith(" What becomes of 1 op is not known.")


def test_forward_ops_that_would_move_too_are_counted_with_an_example():
    """The gradient of a variable's reader draws what is bound to it along."""
    nodes = [
        node("v", on="CPU:1", op="VarHandleOp", handles=(0,)),
        node("f", on="CPU:1"),
        node("stack", op="StackV2", handles=(0,), inputs=("size",), forward="f"),
        node("g", inputs=("x",)),
        node("push", op="StackPushV2", inputs=("stack", "g"), colocate=("g",)),
        node("gradients/f_grad/Mul", forward="f", inputs=("g",)),
    ]
    ops = [
        op("v", on="CPU:1"),
        op("f", on="CPU:1"),
        op("g", on="CPU:0"),
        op("stack", on="CPU:0", op_type="StackV2"),
        op("push", on="CPU:0", op_type="StackPushV2"),
        op("gradients/f_grad/Mul", on="CPU:0"),
    ]

    found = analyze_run(run(*ops, nodes=nodes))

    assert dict(found.colocation.collateral).keys() == {"g", "push"}
    assert found.fixes[0].side_effects == "2 forward ops move too, such as g"
