import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.controller import find_controller
from placement_viz.analysis.step.scaling import Towered, WorkFrom, find_scaling
from placement_viz.analysis.step.towers import find_towers
from placement_viz.model import RowKind
from placement_viz.reports.step_scaling import scaling_sentences
from placement_viz.reports.step_towers import controller_sentences, towers_sentences
from tests.builders import CORPUS, SAMPLES, op, run

TOWERS = {
    "towers-auto": ("tower_0", "tower_1"),
    "towers-manual": ("tower_0", "tower_1"),
    "towers-colocated": ("tower_0", "tower_1"),
    "cluster-auto": ("tower_0", "tower_1"),
    "mirrored-auto": ("", "replica_1"),
}


def judged(found):
    """Return the flow of a run."""
    analysis = analyze_run(found)
    return Flow(analysis.run, analysis.colocation)


def towered(found):
    """Return a run with its towers and its controller."""
    flow = judged(found)
    return Towered(flow, find_towers(flow), find_controller(flow))


def tower(scope, on, start_us=10, grad_us=10):
    """Return the ops of a model in ``scope``, 10 µs each and 10 µs apart."""
    prefix = f"{scope}/" if scope else ""
    mm, loss = f"{prefix}mm", f"{prefix}loss"
    gradient = f"gradients/{prefix}mm_grad/MatMul"
    return [
        op(mm, on, start_us=start_us, inputs=["batch", "w/read"]),
        op(loss, on, op_type="Mean", start_us=start_us + 10, inputs=[mm]),
        op(
            gradient, on, start_us=start_us + 30, duration_us=grad_us, inputs=[mm, loss]
        ),
    ]


def step(*scopes, lag_us=0):
    """Return a step of towers, a device each; the last takes longer by ``lag_us``."""
    ops = [op("w/read", op_type="ReadVariableOp", duration_us=5)]
    for i, scope in enumerate(scopes):
        is_last = i == len(scopes) - 1
        ops += tower(scope, f"CPU:{i}", grad_us=10 + lag_us * is_last)
    gradients = [each["name"] for each in ops if each["name"].startswith("gradients")]
    end_us = 50 + lag_us
    ops.append(op("mean", op_type="AddN", start_us=end_us, inputs=gradients))
    update = {"op_type": "ResourceApplyGradientDescent", "inputs": ["mean"]}
    ops.append(op("update_w", start_us=end_us + 10, **update))
    return run(*ops)


def scopes_of(found):
    """Return the scopes of the towers of a run."""
    return find_towers(judged(found)).scopes


@pytest.mark.parametrize(
    "scopes",
    [
        ("tower_0", "tower_1"),
        ("tower", "tower_1", "tower_2"),
        ("gpu0", "gpu1"),
        ("train/clone_1", "train/clone_2"),
        ("outer_3/worker0", "outer_3/worker1"),
        ("replica_9", "replica_10"),
    ],
)
def test_copies_of_a_model_are_towers_whatever_they_are_called(scopes):
    """What differs by a number and has the same ops is a tower, in its order."""
    assert scopes_of(step(*scopes)) == tuple(s.rpartition("/")[2] for s in scopes)


def test_the_first_tower_may_have_no_scope():
    """A replica without a prefix is told by the others."""
    found = find_towers(judged(step("", "replica_1")))

    assert found.scopes == ("", "replica_1")
    assert found.table["ops"].to_list() == [3, 3]


def test_layers_are_no_towers():
    """Layers are alike, but one feeds the next, directly or by an op between them."""
    for between in ([], [op("pool", start_us=25, inputs=["layer_1/mm"])]):
        first = tower("layer_1", "CPU:0")
        second = tower("layer_2", "CPU:0", start_us=100)
        second[0]["inputs"] = ["w/read", "pool" if between else "layer_1/loss"]
        ops = [op("w/read", op_type="ReadVariableOp"), *first, *between, *second]

        assert scopes_of(run(*ops)) == ()


def test_parts_of_a_model_are_no_towers():
    """Heads of one layer are alike and feed nothing of each other: they are a part."""
    heads = tower("head_0", "CPU:0") + tower("head_1", "CPU:0")
    rest = [op(f"dense/op{i}", start_us=60, inputs=["head_0/loss"]) for i in range(9)]

    assert scopes_of(run(*heads, *rest)) == ()


def test_scopes_with_other_contents_are_no_towers():
    """The number alone does not make a tower."""
    other = [op(f"tower_1/op{i}", start_us=10) for i in range(3)]

    assert scopes_of(run(*tower("tower_0", "CPU:0"), *other)) == ()


def test_a_constant_that_an_optimiser_shares_feeds_no_tower():
    """A merged constant of the first tower, or a cast weight, may serve the second."""
    ops = [op("w/read", op_type="ReadVariableOp"), *tower("t_0", "CPU:0")]
    ops.append(op("t_0/axis", op_type="Const", start_us=1))
    ops.append(op("t_0/cast", op_type="Cast", start_us=6, inputs=["w/read"]))
    second = tower("t_1", "CPU:1")
    second[0]["inputs"] += ["t_0/axis", "t_0/cast"]

    # Of the four ops of the first tower one is only there.
    found = find_towers(judged(run(*ops, *second, op("t_1/cast", op_type="Cast"))))

    assert found.scopes == ("t_0", "t_1")


def test_times_of_towers_are_unions_and_gaps():
    """A tower computes while an op of it runs, and waits in between."""
    found = find_towers(judged(step("tower_0", "tower_1", lag_us=7)))

    table = found.table.select("start_us", "end_us", "compute_us", "wait_us")
    assert table.rows() == [(10, 50, 30, 10), (10, 57, 37, 10)]
    assert found.together.rows() == [(0, 37, 30)]
    assert not found.is_serial


def test_what_is_taken_and_given_is_counted_by_device():
    """The weight comes from CPU:0, where tower 0 is; sizes are not recorded."""
    found = find_towers(judged(step("tower_0", "tower_1")))

    assert found.exchanges.rows() == [
        (0, "weights", 1, None, 0, 0),
        (0, "gradients", 1, None, 0, 0),
        (1, "weights", 1, None, 1, None),
        (1, "gradients", 1, None, 1, None),
    ]


def test_each_op_stands_beside_that_of_the_first_tower():
    """What takes twice as long is told, and what is only there or here."""
    extra = [op("tower_1/only", "CPU:1", start_us=15)]
    same = [
        op(f"tower_{t}/same{i}", f"CPU:{t}", start_us=15)
        for t in range(2)
        for i in range(5)
    ]
    ops = step("tower_0", "tower_1", lag_us=90).trace.ops.rows(named=True)
    found = find_towers(judged(run(*ops, *extra, *same)))

    differing = found.comparison.drop_nulls("difference")
    assert differing.select(
        "relative", "difference", "first_us", "duration_us"
    ).rows() == [
        ("gradients/mm_grad/MatMul", "slower", 10, 100),
        ("only", "extra", None, 10),
    ]
    assert found.comparison.height == 9


def test_the_controller_works_from_the_first_sum_to_the_last_update():
    """The window, who was busy in it, and gradients that were still computed."""
    ops = step("tower_0", "tower_1").trace.ops.rows(named=True)
    late = op("gradients/tower_1/b_grad/Sum", "CPU:1", start_us=55, duration_us=9)

    found = find_controller(judged(run(*ops, late)))

    (window,) = found.windows.rows(named=True)
    assert (window["start_us"], window["end_us"]) == (50, 70)
    assert (window["busy_us"], window["gradient_us"], window["step_us"]) == (20, 9, 70)
    assert found.meanwhile["is_controller"].to_list() == [True, False]
    assert found.meanwhile["busy_us"].to_list() == [20, 9]


def test_losses_add_up_to_what_the_step_is_longer():
    """Two towers at twice the input: 7 µs are lost as one of them is slower."""
    one, two = step("tower_0"), step("tower_0", "tower_1", lag_us=7)

    found = find_scaling(towered(one), towered(two))

    assert (found.baseline_us, found.candidate_us, found.work) == (70, 77, 2)
    assert found.work_from is WorkFrom.TOWERS
    assert found.speed_up == pytest.approx(2 * 70 / 77)
    assert found.efficiency == pytest.approx(70 / 77)
    assert found.parts["lost_us"].sum() == found.traced_loss_us == found.loss_us == 7
    assert "7 µs longer" in " ".join(scaling_sentences(found))


def test_towers_on_one_device_are_told_to_be_serial():
    """Towers that share their device gain nothing, and it is said."""
    ops = [op("w/read", op_type="ReadVariableOp")]
    both = ops + tower("t_0", "CPU:0") + tower("t_1", "CPU:0", start_us=60)

    found = find_scaling(
        towered(run(*ops, *tower("t_0", "CPU:0"))), towered(run(*both))
    )

    assert found.is_serial
    assert any("All towers ran on one device" in s for s in scaling_sentences(found))


def test_what_is_not_known_is_said_to_be_so():
    """Runs without times or placement get an answer, and nothing invented."""
    still = [
        each | {"duration_us": 0}
        for each in step("t_0", "t_1").trace.ops.rows(named=True)
    ]
    found = towered(run(*still))
    kernel = towered(run(op("a", row_kind=RowKind.STREAM)))

    assert found.towers.table["compute_us"].to_list() == [None, None]
    assert found.controller.windows["start_us"].to_list() == [None]
    said = towers_sentences(found.towers, found.flow.trace)
    assert sum("times are not recorded" in sentence for sentence in said) == 3
    assert find_scaling(kernel, found) is None
    (told,) = towers_sentences(kernel.towers, kernel.flow.trace)
    assert "nothing proves" in told
    assert controller_sentences(kernel.controller, kernel.flow.trace)


@settings(max_examples=25, deadline=None)
@given(
    st.text(string.ascii_letters, min_size=1, max_size=8).filter(
        lambda name: name not in {"gradients", "w"}
    ),
    st.integers(2, 5),
)
def test_towers_do_not_depend_on_their_name_and_share_no_op(prefix, n):
    """Any prefix gives the same towers, and an op is in one at most."""
    named, plain = (
        find_towers(judged(step(*(f"{name}_{i}" for i in range(n)))))
        for name in (prefix, "tower")
    )

    assert named.scopes == tuple(f"{prefix}_{i}" for i in range(n))
    assert named.members.equals(plain.members)
    assert named.members["op"].is_unique().all()
    assert named.table.drop("scope").equals(plain.table.drop("scope"))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_sample_runs_have_the_towers_of_their_program(path):
    """Towers and replicas are found, and layers and parts of a loss are none."""
    found = towered(load_run(path, cache=False))

    assert found.towers.scopes == TOWERS.get(path.stem, ())
    assert found.towers.members["op"].is_unique().all()
    for row in found.towers.table.iter_rows(named=True):
        length = row["end_us"] - row["start_us"]
        assert row["compute_us"] + row["wait_us"] == length
    assert towers_sentences(found.towers, found.flow.trace)
    assert controller_sentences(found.controller, found.flow.trace)


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("*timeline_0*.json")), ids=lambda p: p.stem
)
def test_public_runs_on_one_device_have_no_towers(path):
    """Layers and random inputs of strangers' programs are not taken for towers."""
    assert scopes_of(load_run(path, cache=False)) == ()


def test_towers_may_exchange_values_in_both_directions():
    """A mean over all batches, taken by every tower, makes none of them a layer."""
    ops = [op("w/read", op_type="ReadVariableOp")]
    for i in range(2):
        model = tower(f"tower_{i}", f"CPU:{i}")
        model[1]["inputs"] += ["mean"]
        ops += model
    mean = op("mean", start_us=21, inputs=["tower_0/mm", "tower_1/mm"])

    assert scopes_of(run(*ops, mean)) == ("tower_0", "tower_1")


def test_each_step_has_its_own_times():
    """A tower is told once for each step, and so is the controller's window."""
    first = step("t_0", "t_1").trace.ops.rows(named=True)
    second = [
        each | {"step": 1, "start_us": each["start_us"] + 1000}
        for each in step("t_0", "t_1", lag_us=4).trace.ops.rows(named=True)
    ]

    found = towered(run(*first, *second))

    assert found.towers.table.select("step", "tower", "start_us", "end_us").rows() == [
        (0, 0, 10, 50),
        (0, 1, 10, 50),
        (1, 0, 1010, 1050),
        (1, 1, 1010, 1054),
    ]
    windows = found.controller.windows.select("step", "start_us", "end_us").rows()
    assert windows == [(0, 50, 70), (1, 1054, 1074)]


def test_a_fused_op_of_another_type_is_the_same_op():
    """An optimiser that rewrites one tower's op does not take the tower away."""
    ops = step("tower_0", "tower_1").trace.ops.rows(named=True)
    for each in ops:
        if each["name"] == "tower_1/mm":
            each["op_type"] = "_FusedMatMul"

    assert scopes_of(run(*ops)) == ("tower_0", "tower_1")


def test_kernels_of_a_tower_count_as_its_compute():
    """On a device that works behind the executor, the kernels tell how long."""
    ops = step("tower_0", "tower_1").trace.ops.rows(named=True)
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:all"}
    kernel = op("tower_0/mm", "GPU:0", start_us=15, duration_us=30, **stream)

    table = find_towers(judged(run(*ops, kernel))).table

    assert table["compute_us"].to_list() == [40, 30]
    assert table["ops"].to_list() == [3, 3]


def test_a_step_of_one_op_has_no_towers():
    """The smallest run gets an answer as well."""
    found = towered(run(op("a")))

    assert found.towers.scopes == ()
    assert found.controller.windows.is_empty()
    assert find_scaling(found, towered(step("t_0", "t_1"))).candidate_towers == 2
