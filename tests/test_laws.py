import collections
import dataclasses
import io
import json
import time

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from placement_viz import analyze_run, compare_runs, names, parse_run
from placement_viz.analysis.colocation import GRADIENTS_SCHEMA
from placement_viz.analysis.colocation.pairs import Rule
from placement_viz.analysis.colocation.verdicts import Cause, Reason, Verdict
from placement_viz.model import Graph, RowKind
from placement_viz.reports.document import (
    analysis_document,
    comparison_document,
    format_json,
)
from placement_viz.reports.sentences import explain, headline
from placement_viz.reports.text import print_analysis, print_comparison
from tests.builders import device, event, graph, node, op, run, trace

DEVICES = ("CPU:0", "CPU:1", "GPU:0", "GPU:1")
FORWARD = (
    "mm",
    "layer/a",
    "layer/b",
    "layer/a/ReadVariableOp",
    "my_grad",
    "W",
    "W/LoopCond/_3",
    "while/LoopCond",
    "while/Switch",
    "while/Exit",
    "AddN",
    "call/mm",
    "_SOURCE",
    "RecvTensor",
    "mm/_7",
)
GRADIENT = (
    "gradients/{}_grad/Mul",
    "gradients/{}_grad/tuple/control_dependency",
    "gradients/{}_grad_1/Mul",
    "gradients_1/gradients/{}_grad/Mul_grad/Neg",
    "gradients/{0}_grad/{0}_grad/body/_3/gradients/x_grad/Mul",
    "gradients/{}_gradient_sum/AddN",
    "gradients/{}_grad/Mul/_7",
    "_cloopgradients/{}_grad/Mul/_3",
    "mine/{}_grad/Mul",
    "call/gradients/{}_grad/Mul",
    "gradient_tape/{}/MatMul",
    "call/gradient_tape/{}/ReluGrad",
    "ConstantFolding/gradients/{}_grad/Mul-folded-2",
)
DIRECT = (
    "gradients/AddN",
    "gradients/AddN_1",
    "gradients/AddN_2",
    "gradients/AddN_99999999",
    "gradients_1/AddN",
    "gradients/Switch",
    "gradients/zeros",
    "mine/AddN",
    "gradients/ArithmeticOptimizer/HoistCommonFactorOutOfAggregation_Mul_AddN",
)
NAMES = (
    *FORWARD,
    *DIRECT,
    *(
        template.format(each)
        for template in GRADIENT
        for each in ("mm", "layer/a", "W")
    ),
    *(template.format("gone") for template in GRADIENT),
)
TYPES = (
    "AddN",
    "Const",
    "Enter",
    "Exit",
    "Identity",
    "LoopCond",
    "MatMul",
    "Mul",
    "ReadVariableOp",
    "Relu",
    "ReluGrad",
    "ResourceApplyAdam",
    "Shape",
    "StackPushV2",
    "StatefulPartitionedCall",
    "Switch",
    "TensorArrayGradV3",
    "VarHandleOp",
    "While",
)

#: What names of gradient ops are made of.
PIECES = (
    *("/", "a", "a_grad", "_grad", "_gradient_sum", "gradients", "gradient_tape/"),
    *("_1", "/_7", ":1", "^", "AddN", "ConstantFolding/", "/ArithmeticOptimizer/"),
)

#: A law says nothing of how long it takes to check.
unhurried = settings(deadline=None, max_examples=50)

a_name = st.sampled_from(NAMES)
a_device = st.sampled_from(DEVICES)
a_request = st.sampled_from(
    [
        "",
        "",
        "",
        "GPU:0",
        "GPU:1",
        "CPU:1",
        "CPU:*",
        "/job:localhost",
        "GPU:9",
        "/gpu:1",
    ]
)
#: The few names that a run has, so that its ops have to do with one another.
pools = st.lists(a_name, min_size=1, max_size=9, unique=True)


def tensors(pool):
    """Return a strategy of what an op takes, as traces and graphs write it."""
    decorated = st.sampled_from(["{}", "{}", "{}", "{}:1", "^{}", "{}/_9", "{}/_9:0"])
    one = st.builds(str.format, decorated, st.sampled_from([*pool, "gone"]))
    return st.lists(one, max_size=3)


@st.composite
def steps(draw, names=pools):
    """Return the ops of a step; a name has one type and the same inputs each time."""
    pool = draw(names)
    about = {
        name: {"op_type": draw(st.sampled_from(TYPES)), "inputs": draw(tensors(pool))}
        for name in pool
    }
    return [
        op(
            name,
            on=draw(a_device),
            start_us=draw(st.integers(0, 9)),
            duration_us=draw(st.integers(0, 20)),
            **about[name],
        )
        for name in draw(st.lists(st.sampled_from(pool), min_size=1, max_size=12))
    ]


@st.composite
def kernels(draw, pool):
    """Return rows of the GPU tracer, which prove nothing."""
    return [
        op(
            draw(st.sampled_from(pool)),
            on=f"/device:{draw(st.sampled_from(['GPU:0', 'GPU:1']))}",
            row_kind=draw(st.sampled_from([RowKind.STREAM, RowKind.MEMCPY])),
            start_us=draw(st.integers(0, 60)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]


@st.composite
def nodes(draw, pool):
    """Return the nodes of a graph that may be damaged in any way."""
    one = st.sampled_from([*pool, "gone"])
    return [
        node(
            name,
            on=draw(a_request),
            op=draw(st.sampled_from(TYPES)),
            colocate=tuple(draw(st.lists(one, max_size=2))),
            inputs=tuple(draw(tensors(pool))),
            forward=draw(st.none() | one),
            handles=tuple(draw(st.lists(st.integers(0, 1), max_size=1))),
            source=draw(st.none() | st.integers(-1, 2)),
        )
        for name in draw(st.permutations(pool))
        if draw(st.integers(0, 9))
    ]


@st.composite
def built_steps(draw):
    """Return ops and forward ops of a sound step, gradients built as TensorFlow does.

    An addition passes its gradient on and has no gradient op of its own.
    """
    n = draw(st.integers(2, 6))
    takes = [
        draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else () for i in range(n)
    ]
    is_addition = [draw(st.integers(0, 3)) == 0 for _ in range(n)]
    forward_of, ops, n_sums = {}, [], 0
    upstream = dict.fromkeys(range(n), "seed")  # what the gradient of each op takes

    def add(name, forward, **fields):
        forward_of[name] = forward
        # Some start at the same time, in whatever order a file has them.
        start_us = n + len(ops) // 3
        ops.append(op(name, on=draw(a_device), start_us=start_us, **fields))

    for i in reversed(range(n)):
        summands = [upstream[taker] for taker in range(n) if i in takes[taker]]
        if len(summands) > 1:
            upstream[i] = f"gradients/AddN_{n_sums}" if n_sums else "gradients/AddN"
            add(upstream[i], f"f{i}", op_type="AddN", inputs=summands)
            n_sums += 1
        elif summands:
            upstream[i] = summands[0]
        if not is_addition[i]:
            name = f"gradients/f{i}_grad/Mul"
            add(name, f"f{i}", op_type="Mul", inputs=[upstream[i]])
            upstream[i] = name
    forward = [
        op(f"f{i}", on=draw(a_device), start_us=i, inputs=[f"f{j}" for j in takes[i]])
        for i in range(n)
        if draw(st.integers(0, 3))
    ]
    everywhere = [op("_SOURCE", on=each) for each in DEVICES]
    return [*everywhere, *forward, *ops], forward_of


@st.composite
def built_runs(draw):
    """Return a run of a sound step, with the graph that was built or without."""
    ops, forward_of = draw(built_steps())
    if draw(st.booleans()):
        return run(*ops)
    of_graph = [
        node(
            each["name"],
            on=draw(a_request) if each["name"] not in forward_of else "",
            op=each["op_type"],
            inputs=tuple(each["inputs"]),
            forward=forward_of.get(each["name"]),
        )
        for each in ops[len(DEVICES) :]
    ]
    return run(*ops, nodes=of_graph)


@st.composite
def damaged_runs(draw):
    """Return any small run: with or without a graph, sound or damaged."""
    pool = draw(pools)
    found = run(*draw(steps(st.just(pool))), *draw(kernels(pool)))
    if draw(st.booleans()):
        return found
    placed = draw(st.dictionaries(st.sampled_from(pool), a_device, max_size=3))
    built = graph(*draw(nodes(pool)), placed=placed)
    kinds = st.sampled_from([{"CPU"}, {"CPU", "GPU"}]).map(frozenset)
    table = Graph(
        nodes=built.nodes,
        placed=built.placed,
        sources=("train.py:1", "train.py:2"),
        kernels=draw(st.dictionaries(st.sampled_from(TYPES), kinds, max_size=2)),
    )
    return dataclasses.replace(found, graph=table)


def runs():
    """Return a strategy of runs of both kinds."""
    return st.one_of(built_runs(), damaged_runs())


def rows(analysis):
    """Return the judged gradient ops, as dictionaries."""
    return analysis.colocation.gradients.to_dicts()


@unhurried
@given(runs())
def test_every_gradient_op_has_exactly_one_verdict(found):
    """Each time it ran, and the verdicts add up."""
    analysis = analyze_run(found)
    table, summary = analysis.colocation.gradients, analysis.colocation.summary

    assert table.schema == GRADIENTS_SCHEMA
    assert table["op"].is_unique().all()
    assert table["op"].is_sorted()
    counts = collections.Counter(table["verdict"])
    assert set(counts) <= set(Verdict)
    assert counts["misplaced"] == summary.misplaced_ops
    assert counts["colocated"] == summary.colocated_ops
    assert counts["exempt"] == summary.exempt_ops
    assert counts["unknown"] == summary.unknown_ops
    assert counts.total() == summary.gradient_ops == table.height


@unhurried
@given(runs())
def test_a_judged_op_is_an_op_of_the_trace(found):
    """Its row says the same as the trace, and every time a gradient ran is judged."""
    analysis = analyze_run(found)
    table = analysis.colocation.gradients
    ops = analysis.run.trace.executed
    fields = ["op", "name", "op_type", "device", "start_us", "duration_us", "step"]

    same = ops.filter(pl.col("name").is_in(table["name"].implode())).select(fields)

    assert table.select(fields).equals(same)


@unhurried
@given(runs())
def test_a_verdict_rests_on_what_it_says_it_rests_on(found):
    """No device without evidence, no finding without a device, no reason elsewhere."""
    for row in rows(analyze_run(found)):
        is_known = row["expected_device"] is not None
        assert is_known == (row["evidence"] is not None) == (row["confidence"] > 0)
        assert (row["verdict"] == "exempt") == (row["reason"] is not None)
        assert (row["verdict"] == "misplaced") == (row["cause"] is not None)
        assert 0 <= row["confidence"] <= 1
        assert row["rule"] in {rule.sentence for rule in Rule}
        is_at_home = row["expected_device"] == row["device"]
        assert is_at_home == (row["verdict"] == "colocated")
        if row["verdict"] == "misplaced":
            assert is_known
        if row["verdict"] == "unknown":
            assert not is_known
        if row["forward_device"] is not None:
            assert row["forward_op"] is not None


@unhurried
@given(built_runs(), st.data())
def test_where_gradients_ran_says_nothing_of_where_they_belong(found, data):
    """Only the forward pass and the graph do; sums on several devices show a plan."""
    first = analyze_run(found)
    judged = first.colocation.gradients.filter(pl.col("op_type") != "AddN")
    elsewhere = [
        {**each, "device": device(data.draw(a_device))}
        if each["name"] in set(judged["name"])
        else each
        for each in found.trace.ops.to_dicts()
    ]
    moved = dataclasses.replace(found, trace=trace(*elsewhere))
    fields = "name", "forward_op", "forward_device", "expected_device", "evidence"

    second = analyze_run(moved).colocation.gradients

    assert second.select(fields).equals(first.colocation.gradients.select(fields))


def test_a_sum_is_placed_on_evidence():
    """What is known of its summands is what its device rests on."""
    summands = [f"gradients/{each}_grad/Mul" for each in "fg"]
    found = run(
        *(op(each, on="CPU:1") for each in "fg"),
        *map(op, summands),
        op("gradients/AddN", op_type="AddN", inputs=summands),
    )

    (row,) = (r for r in rows(analyze_run(found)) if r["op_type"] == "AddN")

    assert (row["expected_device"] is None) == (row["evidence"] is None)


@unhurried
@given(runs())
def test_an_op_belongs_on_a_device_of_the_run(found):
    """Nothing is sent to a device that nobody has."""
    analysis = analyze_run(found)
    known = {*analysis.run.trace.devices, *map(device, DEVICES)}

    assert {row["expected_device"] for row in rows(analysis)} <= {*known, None}


@unhurried
@given(runs())
def test_without_a_graph_nothing_rests_on_one(found):
    """A plain timeline carries less evidence, and says so."""
    analysis = analyze_run(dataclasses.replace(found, graph=None))

    for row in rows(analysis):
        assert row["evidence"] in {"trace", "dataflow", None}
        assert (row["requested_device"], row["source"]) == (None, None)
    assert analysis.colocation.collateral == {}


@unhurried
@given(runs())
def test_an_analysis_is_the_same_each_time(found):
    """Nothing depends on the order of a set or on an earlier analysis."""
    first, second = analyze_run(found), analyze_run(found)

    assert first.colocation.gradients.equals(second.colocation.gradients)
    assert first.notices == second.notices
    assert first.fixes == second.fixes
    assert first.usage == second.usage


@unhurried
@given(runs())
def test_busy_times_are_parts_of_one_another(found):
    """Misplaced time is gradient time, that is busy time, that fits into the step."""
    analysis = analyze_run(found)
    trace, summary = analysis.run.trace, analysis.colocation.summary
    misplaced = analysis.colocation.misplaced

    for usage in analysis.usage:
        assert 0 <= usage.misplaced_busy_us <= usage.gradient_busy_us
        assert usage.gradient_busy_us <= usage.busy_us <= trace.span_us
        there = misplaced.filter(pl.col("device") == usage.device)
        spans = zip(there["start_us"], there["duration_us"], strict=True)
        covered = {t for start, length in spans for t in range(start, start + length)}
        assert usage.misplaced_busy_us == len(covered)
    assert tuple(usage.device for usage in analysis.usage) == trace.devices
    assert sum(usage.ops for usage in analysis.usage) == trace.executed.height
    assert summary.misplaced_us == sum(u.misplaced_busy_us for u in analysis.usage)
    assert summary.gradient_us == sum(u.gradient_busy_us for u in analysis.usage)


@unhurried
@given(runs())
def test_the_fixes_bring_every_misplaced_op_home(found):
    """Each op by one of them, most first."""
    analysis = analyze_run(found)
    brought = [fix.removes_ops for fix in analysis.fixes]

    assert sum(brought) == analysis.colocation.summary.misplaced_ops
    assert brought == sorted(brought, reverse=True)
    assert sum(fix.removes_us for fix in analysis.fixes) == int(
        analysis.colocation.misplaced["duration_us"].sum()
    )


@unhurried
@given(runs())
def test_a_forward_op_that_would_move_is_no_gradient_op_and_really_moves(found):
    """Before and after differ, and it ran where it is said to be before."""
    analysis = analyze_run(found)
    judged = set(analysis.colocation.gradients["name"])

    for name, (before, after) in analysis.colocation.collateral.items():
        ran_on = analysis.run.trace.executed.filter(pl.col("name") == name)["device"]
        assert before != after
        assert before in set(ran_on)
        assert after not in set(ran_on)
        assert name not in judged


@unhurried
@given(runs())
def test_every_result_can_be_told(found):
    """As JSON that any program reads, and in words for every row."""
    analysis = analyze_run(found)
    document = json.loads(format_json(analysis_document(analysis)))

    assert len(document["gradients"]) == document["summary"]["gradient_ops"]
    assert document["headline"] == headline(analysis)
    print_analysis(analysis, Console(file=io.StringIO()))
    for row in rows(analysis):
        answers = explain(row, analysis.run.trace.devices)
        assert all(isinstance(answer, str) and answer for answer in answers.values())
        assert ("What to change" in answers) == (row["verdict"] == "misplaced")


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("reason", [None, *Reason])
def test_every_cause_and_reason_has_words(cause, reason):
    """A new one cannot be forgotten in the reports."""
    row = {
        **dict.fromkeys(GRADIENTS_SCHEMA.names()),
        "device": device("CPU:0"),
        "expected_device": device("CPU:1"),
        "verdict": "exempt" if reason else "misplaced",
        "cause": None if reason else cause,
        "reason": reason,
    }

    answers = explain(row)

    assert ("Why it is exempt" in answers) == (reason is not None)
    assert ("What to change" in answers) == (reason is None)


@unhurried
@given(runs())
def test_a_run_compared_with_itself_shows_no_move(found):
    """Every op has its own twin, however often names repeat."""
    comparison = compare_runs(found, found)

    assert comparison.moves.is_empty()
    assert comparison.only_baseline.is_empty()
    assert comparison.only_candidate.is_empty()
    assert json.loads(format_json(comparison_document(comparison)))
    print_comparison(comparison, Console(file=io.StringIO()))


@unhurried
@given(runs(), runs())
def test_every_op_of_two_runs_is_matched_or_left_over(before, after):
    """Nothing is dropped, and what moved was matched."""
    comparison = compare_runs(before, after)
    back = compare_runs(after, before)

    for side, only in (
        (comparison.baseline, comparison.only_baseline),
        (comparison.candidate, comparison.only_candidate),
    ):
        ops = side.run.trace.executed.filter(
            ~pl.col("name").is_in(["_SOURCE", "_SINK"])
        )
        assert comparison.matched_ops + only.height == ops.height
    assert comparison.matched_ops == back.matched_ops
    assert comparison.moves.height == back.moves.height <= comparison.matched_ops


def as_timeline(ops, pids, shift):
    """Return ``ops`` as a file in which rows and lanes have other numbers."""
    short = [each["device"].rpartition("/device:")[2] for each in ops]
    events = [
        event(
            each["name"],
            op=each["op_type"],
            inputs=each["inputs"],
            pid=pids[on],
            tid=shift + DEVICES.index(on),
            ts=each["start_us"] + 7,
            dur=each["duration_us"],
        )
        for each, on in zip(ops, short, strict=True)
    ]
    label = {"ph": "M", "name": "process_name"}
    labels = [
        {**label, "pid": pids[on], "args": {"name": f"{device(on)} Compute"}}
        for on in pids
    ]
    return json.dumps({"traceEvents": [*labels, *events]}).encode()


def by_name(data):
    """Return what is said of each gradient op, in an order of its own."""
    table = analyze_run(parse_run(data, source="law")).colocation.gradients
    return sorted(map(repr, table.drop("op", "step").to_dicts()))


@unhurried
@given(steps(), st.data())
def test_numbers_of_rows_and_lanes_mean_nothing(ops, data):
    """They are only valid within a file, and an analysis never shows them."""
    numbers = st.lists(
        st.integers(0, 99), min_size=len(DEVICES), max_size=len(DEVICES), unique=True
    )
    plain = as_timeline(ops, {on: i for i, on in enumerate(DEVICES)}, 0)
    other = as_timeline(
        ops,
        dict(zip(data.draw(st.permutations(DEVICES)), data.draw(numbers), strict=True)),
        data.draw(st.integers(0, 9)),
    )

    assert by_name(plain) == by_name(other)


@unhurried
@given(steps() | built_steps().map(lambda step: step[0]), st.data())
def test_the_order_of_events_in_a_file_means_nothing(ops, data):
    """Writers sort as they like, also what starts at the same time."""
    pids = {on: i for i, on in enumerate(DEVICES)}

    shuffled = data.draw(st.permutations(ops))

    assert by_name(as_timeline(ops, pids, 0)) == by_name(as_timeline(shuffled, pids, 0))


@unhurried
@given(st.text(max_size=80), st.text(max_size=20))
def test_any_text_may_be_a_name(text, other):
    """No function of the grammar of names refuses anything."""
    canonical = names.canonical_device(text)
    assert names.device_order(text)
    assert names.device_matches("", text)
    assert isinstance(names.device_matches(text, other), bool)
    assert isinstance(names.is_full_device(canonical), bool)
    assert isinstance(names.short_device(text, [other]), str)
    assert isinstance(names.producer_of(text, {other}), str)
    assert (names.copied_from(text) or text) in text
    assert all(each for each in names.rewritten_from(text) if text)
    for scope, forward in names.gradient_boundaries(text):
        assert scope
        assert forward
        assert text.startswith(f"{scope}/{forward}_grad")


@unhurried
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10), st.booleans())
def test_any_name_may_be_an_op(pieces, is_in_graph):
    """Whatever it looks like, it is judged or left alone."""
    name = "".join(pieces)
    found = run(
        op("a", on="CPU:1"),
        op(name, inputs=[name, "a"]),
        nodes=[node("a"), node(name, inputs=(name,))] if is_in_graph else None,
    )

    assert analyze_run(found).colocation.gradients.height <= 2


LONG = {
    "many boundaries in a gradient": "gradients/" + "a_grad/" * 1500 + "x",
    "many boundaries of nothing": "gradients/" + "b_grad/" * 1500 + "x",
    "many scopes": "gradients/" + "a/" * 5000 + "b_grad/x",
    "many sums": "gradients/" + "a_gradient_sum/" * 700,
    "many copies": "gradients/a_grad/b" + "/_7" * 3000,
    "many tapes": "gradient_tape/" * 700 + "x",
    "many rewrites": "gradients/ArithmeticOptimizer/" + "a_" * 4000 + "AddN",
    "many foldings": "ConstantFolding/" + "gradients/a_grad/" + "_b" * 4000,
}


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            f"gradients/AddN_{DIGITS}",
        ),
        f"gradients/a_grad/Mul/_{DIGITS}",
        f"gradients_{DIGITS}/a_grad/Mul",
    ],
    ids=["sum", "copy", "scope"],
)
def test_a_number_in_a_name_may_have_any_length(name):
    """Python refuses to read numbers of more than 4,300 digits."""
    found = run(op("a", on="CPU:1"), op(name, op_type="AddN", inputs=["a", "a"]))

    assert analyze_run(found).colocation.gradients.height == 1


@pytest.mark.parametrize("part", ["/task:", "/device:GPU:"])
def test_a_number_of_a_device_may_have_any_length(part):
    """A row may be called anything."""
    assert names.device_order(f"{part}{DIGITS}")


CUBIC = {
    "many boundaries": "a_grad/" * 1500 + "x",
    "many forward ops": "gradients/" + "".join(f"b{i}_grad/" for i in range(1000)),
}


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, id=what) for what, name in LONG.items()),
        *(
            pytest.param(
                name,
                id=what,
            )
            for what, name in CUBIC.items()
        ),
    ],
)
@pytest.mark.parametrize("has_graph", [False, True])
def test_a_long_name_takes_no_long_time(name, has_graph):
    """10,000 characters are read in well under a second."""
    found = run(
        op("a", on="CPU:1"),
        op(name, inputs=[name, "a"]),
        nodes=[node("a"), node(name, inputs=(name,))] if has_graph else None,
    )
    started = time.perf_counter()

    analyze_run(found)

    assert time.perf_counter() - started < 1


N_LONG = 3000
DAMAGED = {
    "a chain of colocation": [
        node(f"n{i}", colocate=(f"n{i + 1}",)) for i in range(N_LONG)
    ],
    "a ring of inputs": [
        node(f"n{i}", inputs=(f"n{(i + 1) % N_LONG}",)) for i in range(N_LONG)
    ],
    "a chain of forward ops": [
        node(f"n{i}", forward=f"n{i + 1}") for i in range(N_LONG)
    ],
    "a ring of forward ops": [
        node(f"n{i}", forward=f"n{(i + 1) % N_LONG}") for i in range(N_LONG)
    ],
    "a chain of handles": [
        node(f"n{i}", inputs=(f"n{i + 1}",), handles=(0,)) for i in range(N_LONG)
    ],
    "a chain of loops": [
        node(f"n{i}", op="While", inputs=(f"n{i + 1}",), handles=(0,))
        for i in range(N_LONG)
    ],
    "a chain of sums": [
        node(
            f"gradients/AddN_{i}" if i else "gradients/AddN",
            op="AddN",
            inputs=(f"gradients/AddN_{i + 1}", "x"),
            forward="x",
        )
        for i in range(N_LONG)
    ],
    "itself everywhere": [
        node("n0", colocate=("n0",), inputs=("n0",), forward="n0", handles=(0,)),
        node("gradients/AddN", op="AddN", inputs=("gradients/AddN",), forward="n0"),
    ],
    "sums of nothing": [
        node("gradients/AddN", op="AddN", forward="n0"),
        node("gradients/AddN_1", op="AddN", inputs=("gone",), forward="n0"),
    ],
    "a loop of nothing": [
        node("n0", op="While", inputs=("gone", "gone:1"), handles=(0, 1)),
        node("n1", inputs=("n0:1",)),
    ],
    "outputs that have no number": [
        node("n0", inputs=("n1:out:0", "n1:x"), handles=(0,)),
        node("n1", handles=(0,)),
    ],
    "a device that is none": [node("n0", on="/nowhere"), node("n1", on="/job:")],
}


@pytest.mark.parametrize("built", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_graph_is_judged_as_far_as_it_goes(built):
    """It neither raises nor takes long."""
    ran = [op(each.name, op_type=each.op) for each in built]
    found = run(op("x", on="CPU:1"), op("gradients/n0_grad/Mul"), *ran, nodes=built)
    started = time.perf_counter()

    analysis = analyze_run(found)

    assert time.perf_counter() - started < 5
    assert format_json(analysis_document(analysis))


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(
            "sums",
        ),
        "gradients of gradients",
        "loop",
    ],
)
def test_a_long_trace_without_a_graph_is_judged(shape):
    """However deep its ops hang together."""
    ran = {
        "sums": [
            op(
                f"gradients/AddN_{i}",
                op_type="AddN",
                inputs=[f"gradients/AddN_{i + 1}", "gradients/x_grad/Mul"],
            )
            for i in range(N_LONG)
        ],
        "gradients of gradients": [
            op("gradients/" + "gradients/" * i + "x" + "_grad/y" * i) for i in range(30)
        ],
        "loop": [
            op(
                f"gradients/c{i}",
                op_type="Merge",
                inputs=[f"gradients/c{i + 1}", "while/LoopCond"],
            )
            for i in range(N_LONG)
        ],
    }[shape]
    started = time.perf_counter()

    analyze_run(run(op("x"), op("gradients/x_grad/Mul"), *ran))

    assert time.perf_counter() - started < 5
