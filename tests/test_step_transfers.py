"""What crossed between devices: each tensor once, with its size, time and need."""

import dataclasses

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.transfers import find_transfers
from placement_viz.names import short_device
from placement_viz.reports.step_transfers import transfer_sentences
from placement_viz.schema import RunSection
from tests.builders import CORPUS, SAMPLES, node, op, run

FAR = "/job:worker/replica:0/task:1/device:CPU:0"
NEAR = "/job:worker/replica:0/task:0/device:CPU:0"


def flow(*ops, sizes=None, **graph):
    """Return the flow of a judged run; ``sizes`` are bytes by tensor."""
    bare = run(*ops, **graph)
    section = RunSection(schema=1, tensor_bytes=sizes) if sizes else None
    analysis = analyze_run(dataclasses.replace(bare, section=section))
    return Flow(analysis.run, analysis.colocation)


def transfers(*ops, **rest):
    """Return what crossed in a run of ``ops``."""
    return find_transfers(flow(*ops, **rest))


def sentences(found):
    """Return what is said of the transfers of a flow."""
    return " ".join(transfer_sentences(find_transfers(found), found.trace))


def misplaced_flow(**rest):
    """Return a step whose gradients of GPU:1's mm ran on GPU:0."""
    return flow(
        op("x", op_type="_Arg", on="GPU:0", start_us=0),
        op("mm", on="GPU:1", start_us=20, inputs=["x/_3"]),
        op(
            "gradients/mm_grad/MatMul",
            on="GPU:0",
            start_us=40,
            inputs=["x", "mm/_5"],
        ),
        op(
            "gradients/mm_grad/MatMul_1",
            on="GPU:0",
            start_us=50,
            inputs=["gradients/mm_grad/MatMul", "mm/_5"],
        ),
        op(
            "update",
            op_type="ApplyAdam",
            on="GPU:0",
            start_us=70,
            inputs=["gradients/mm_grad/MatMul_1"],
        ),
        **rest,
    )


def test_a_tensor_crosses_once_to_each_device_however_many_take_it():
    """Two consumers on one device share a copy; another device needs its own."""
    found = transfers(
        op("a", start_us=0),
        op("b", on="CPU:1", start_us=20, inputs=["a/_1"]),
        op("c", on="CPU:1", start_us=30, inputs=["a/_1", "a/_1"]),
        op("d", on="CPU:2", start_us=40, inputs=["a/_3"]),
        op("e", start_us=50, inputs=["a"]),
    )

    rows = found.tensors.select("producer", "consumers", "start_us", "time_us").rows()
    assert rows == [(0, [1, 2], 10, 10), (0, [3], 10, 30)]
    assert found.tensors["is_upper_bound"].all()
    assert found.tensors["n_bytes"].null_count() == 2


def test_outputs_of_one_op_are_told_apart_by_the_graph():
    """Which output came is read from the graph, and with it its size."""
    found = transfers(
        op("split"),
        op("left", on="CPU:1", start_us=20, inputs=["split/_1"]),
        op("right", on="CPU:1", start_us=30, inputs=["split/_3"]),
        op("both", on="CPU:1", start_us=40, inputs=["split/_1", "split/_3"]),
        nodes=[
            node("split"),
            node("left", inputs=("split",)),
            node("right", inputs=("split:1",)),
            node("both", inputs=("split", "split:1")),
        ],
        sizes={"split:0": 64, "split:1": 32},
    )

    rows = found.tensors.select("slot", "consumers", "n_bytes", "bytes_from").rows()
    assert rows == [
        (None, [3], None, None),
        (0, [1], 64, "recorded"),
        (1, [2], 32, "recorded"),
    ]


def test_the_only_output_that_is_recorded_is_the_one_that_came():
    """An op with one recorded output sent that, whatever the graph leaves open."""
    found = transfers(
        op("a"),
        op("b", on="CPU:1", start_us=20, inputs=["a/_1"]),
        sizes={"a:0": 48, "b:0": 8},
    )

    assert found.tensors.select("slot", "n_bytes").rows() == [(0, 48)]


def test_a_handle_crosses_without_the_size_of_its_variable():
    """What crosses of a resource is a handle; the value crosses when it is read."""
    found = transfers(
        op("w", op_type="VarHandleOp"),
        op("read", op_type="ReadVariableOp", start_us=10, inputs=["w"]),
        op("mm", on="CPU:1", start_us=30, inputs=["read/_1"]),
        op("update", on="CPU:1", start_us=40, inputs=["w/_3", "mm"]),
        sizes={"w:0": 200, "read:0": 1024},
    )

    rows = found.tensors.select("n_bytes", "bytes_from", "is_weight").rows()
    assert rows == [(None, "handle", False), (1024, "recorded", True)]
    (pair,) = found.matrix.rows(named=True)
    assert pair["n_handles"] == 1
    assert pair["n_unknown"] == 0
    assert pair["n_bytes"] == 1024


def test_an_old_variable_crosses_as_a_weight_through_its_identity():
    """TensorFlow 1 reads a variable by an Identity that it calls read."""
    found = transfers(
        op("w", op_type="VariableV2"),
        op("w/read", op_type="Identity", start_us=10, inputs=["w"]),
        op("mm", on="CPU:1", start_us=30, inputs=["w/read/_1"]),
        op("x", op_type="Identity", start_us=40, inputs=["mm/_3"]),
    )

    assert found.tensors["is_weight"].to_list() == [True, False]


def test_control_edges_are_told_apart_and_have_no_bytes():
    """Who waited for the Identity that lands a control edge waited for its origin."""
    found = transfers(
        op("a"),
        op("a/_7", op_type="Identity", on="CPU:1", start_us=20, inputs=["a/_6"]),
        op("b", on="CPU:1", start_us=30, inputs=["^a/_7"]),
        op("c", on="CPU:1", start_us=40, inputs=["^a/_7"]),
        sizes={"a:0": 48},
    )

    assert found.tensors.is_empty()
    rows = found.control.select("producer", "consumers", "n_bytes").rows()
    assert rows == [(0, [2, 3], None)]
    assert found.matrix.select("n_tensors", "n_bytes", "n_control").rows() == [
        (0, None, 1)
    ]


def test_a_node_of_the_graph_lands_no_control_edge():
    """An Identity that the program made takes a tensor, whatever its name."""
    found = transfers(
        op("a"),
        op("a/_7", op_type="Identity", on="CPU:1", start_us=20, inputs=["a/_6"]),
        nodes=[node("a"), node("a/_7", op="Identity", inputs=("a",))],
    )

    assert found.control.is_empty()
    assert found.tensors["consumers"].to_list() == [[1]]


def test_clocks_that_differ_leave_the_wait_negative_and_are_said():
    """On two hosts a tensor may seem to be taken before it was made."""
    found = flow(
        op("a", on=NEAR, start_us=100),
        op("b", on=FAR, start_us=40, inputs=["a_S3"]),
    )

    times = find_transfers(found).tensors.select("time_us", "clocks_differ").rows()
    assert times == [(-70, True)]
    assert "the hosts' clocks differ" in sentences(found)


def test_a_run_without_times_tells_what_crossed_and_not_when():
    """A log of placements proves where ops ran; no time is invented."""
    found = flow(
        op("a", duration_us=0),
        op("b", on="CPU:1", duration_us=0, inputs=["a/_1"]),
    )

    crossed = find_transfers(found)
    assert crossed.tensors.select("start_us", "time_us").rows() == [(None, None)]
    assert crossed.hiding.is_empty()
    assert "this run has no times" in sentences(found)


def test_gradient_ops_that_come_home_take_their_tensors_along():
    """The forward op would no longer be sent, the last gradient would, x is anyway."""
    sizes = {
        "x:0": 1000,
        "mm:0": 200,
        "gradients/mm_grad/MatMul:0": 50,
        "gradients/mm_grad/MatMul_1:0": 30,
    }
    found = misplaced_flow(sizes=sizes)
    crossed = find_transfers(found)

    avoidable = crossed.avoidable
    assert avoidable.n_ops == 2
    assert crossed.tensors["producer"].to_list() == [0, 1]
    assert avoidable.gone.select("producer", "n_bytes").rows() == [(1, 200)]
    assert avoidable.added.select("producer", "n_bytes").rows() == [(3, 30)]
    assert avoidable.net_bytes == 170
    assert (
        "1 of 2 tensors (200 B of 1.2 KiB) crossed only because gradient ops were away "
        "from home; bringing the 2 home, and nothing else, would add 1 tensor (30 B): "
        "170 B less would cross."
    ) in sentences(found)


def test_bytes_that_nobody_recorded_are_not_saved():
    """Without sizes the tensors are counted and their bytes are null."""
    found = misplaced_flow()

    avoidable = find_transfers(found).avoidable
    assert avoidable.gone.height == 1
    assert avoidable.net_bytes is None
    assert "what that is in bytes is not recorded" in sentences(found)


def test_control_edges_that_would_go_are_counted():
    """A gradient op away from home waits across devices for what ran at its home."""
    found = transfers(
        op("mm", on="GPU:1", start_us=0),
        op("mm/_7", op_type="Identity", on="GPU:0", start_us=20, inputs=["mm/_6"]),
        op("gradients/mm_grad/Mul", on="GPU:0", start_us=30, inputs=["^mm/_7"]),
    )

    assert found.control.height == 1
    assert (found.avoidable.control_gone, found.avoidable.control_added) == (1, 0)


def test_ops_that_repeat_a_loop_are_counted():
    """Partitioning repeats a loop's control flow on each device that it spans."""
    found = transfers(
        op("_cloopwhile/Enter/_3", op_type="Enter"),
        op("_cloopwhile/Merge/_4", op_type="Merge", start_us=20),
        op("while/Merge", op_type="Merge", start_us=30),
    )

    assert found.n_loop_ops == 2


def test_what_came_from_ops_that_are_not_recorded_is_counted():
    """A step is fed by ops that no trace records; a pruned op of the graph is none."""
    found = transfers(
        op("a", inputs=["_recv_x_0/_3", "^gone/_4"]),
        op("b", on="CPU:1", start_us=20, inputs=["_recv_x_0/_3", "while/_9"]),
        nodes=[node("while/_9")],
    )

    assert found.n_unrecorded == 2


def test_waits_are_hidden_as_far_as_the_device_computed():
    """Of a wait of 40 µs the device computed 15, beside one op that only moves."""
    found = flow(
        op("a", start_us=0, duration_us=10),
        op("r", op_type="_Retval", on="CPU:1", start_us=10, duration_us=40),
        op("busy", on="CPU:1", start_us=5, duration_us=20),
        op("b", on="CPU:1", start_us=50, duration_us=10, inputs=["a/_1"]),
    )

    assert find_transfers(found).hiding.drop("device").rows() == [("waits", 40, 15, 25)]
    assert (
        "Of 40 µs at most that tensors were on their way to CPU:1, 15 µs (38 %) lay "
        "behind its computing and 25 µs did not."
    ) in sentences(found)


def test_the_matrix_names_pairs_in_the_order_of_devices():
    """CPU before GPU and 2 before 10, and what is unknown is counted apart."""
    found = transfers(
        op("a", on="GPU:10"),
        op("b", on="GPU:2", start_us=20, inputs=["a/_1"]),
        op("c", on="CPU:0", start_us=40, inputs=["b/_1", "a/_3"]),
        sizes={"b:0": 16},
    )

    pairs = [
        (short_device(source), short_device(destination), *rest)
        for source, destination, *rest in found.matrix.select(
            "source", "destination", "n_tensors", "n_bytes", "n_unknown"
        ).iter_rows()
    ]
    assert pairs == [
        ("GPU:2", "CPU:0", 1, 16, 0),
        ("GPU:10", "CPU:0", 1, None, 1),
        ("GPU:10", "GPU:2", 1, None, 1),
    ]


@pytest.mark.parametrize("on", ["CPU:0", "/host:CPU"])
def test_one_op_alone_sends_nothing(on):
    """A step of one op has empty tables, also where nothing proves a placement."""
    found = flow(op("a", on=on, row_kind="executor" if on == "CPU:0" else "other"))
    crossed = find_transfers(found)

    assert crossed.tensors.is_empty()
    assert crossed.matrix.is_empty()
    assert crossed.link is None
    expected = "No tensor" if on == "CPU:0" else "Which tensors crossed is not recorded"
    assert sentences(found).startswith(expected)


DEVICES = ("CPU:0", "GPU:0", "GPU:1")
NAMES = ("x", "mm", "a", "gradients/mm_grad/MatMul", "gradients/a_grad/Mul", "b")


@st.composite
def steps(draw):
    """Return ops in any order of time, on any device, each taking from any."""
    ops = []
    for i, name in enumerate(draw(st.permutations(NAMES))):
        taken = draw(st.lists(st.sampled_from(NAMES), max_size=3))
        ops.append(
            op(
                name,
                on=draw(st.sampled_from(DEVICES)),
                start_us=10 * i,
                duration_us=draw(st.integers(0, 30)),
                inputs=[draw(st.sampled_from(("", "^"))) + each for each in taken],
            )
        )
    sized = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return flow(*ops, sizes={f"{name}:0": 8 + len(name) for name in sized} or None)


def crossed_by_hand(found, places):
    """Return producer, destination and is_control of what crosses, by a plain loop."""
    return {
        (producer, places[consumer], is_control)
        for producer, consumer, _, is_control in found.edges.iter_rows()
        if places[producer] != places[consumer]
    }


def crossings(table):
    """Return producer and destination of the rows of a table."""
    return set(table.select("producer", "destination").iter_rows())


def check_laws(found):
    """Check what holds of every step with tensors of one output each."""
    crossed = find_transfers(found)
    places = found.trace.ops["device"].to_list()
    by_hand = crossed_by_hand(found, places)
    homes = list(places)
    for gradient, home in found.colocation.misplaced.select(
        "op", "expected_device"
    ).iter_rows():
        homes[gradient] = home
    at_home = crossed_by_hand(found, homes)

    for is_control, table in ((False, crossed.tensors), (True, crossed.control)):
        assert crossings(table) == {(p, d) for p, d, c in by_hand if c == is_control}
        assert table.height == len(crossings(table))
    sent = {(p, d) for p, d, c in by_hand if not c}
    sent_at_home = {(p, d) for p, d, c in at_home if not c}
    assert crossings(crossed.avoidable.gone) == sent - sent_at_home
    assert crossings(crossed.avoidable.added) == sent_at_home - sent


@given(steps())
@settings(max_examples=60, deadline=None)
def test_transfers_are_those_a_loop_over_edges_finds(found):
    """Each tensor once to a device, and the avoidable ones are a part of them."""
    check_laws(found)


def check_sums(crossed):
    """Check that the tables of one step agree."""
    matrix, tensors = crossed.matrix, crossed.tensors
    assert matrix["n_tensors"].sum() == tensors.height
    assert matrix["n_control"].sum() == crossed.control.height
    assert matrix["n_bytes"].sum() == tensors["n_bytes"].sum()
    assert matrix["n_unknown"].sum() == tensors["bytes_from"].null_count()
    assert crossings(crossed.avoidable.gone) <= crossings(tensors)
    for hiding in (crossed.hiding, crossed.weights):
        known = hiding.drop_nulls()
        whole = known["hidden_us"] + known["exposed_us"]
        assert whole.to_list() == known["total_us"].to_list()


@given(steps())
@settings(max_examples=40, deadline=None)
def test_sums_agree_with_the_table_they_are_of(found):
    """The matrix sums to the table, and hidden and exposed time to all of it."""
    check_sums(find_transfers(found))


FILES = sorted(
    [*SAMPLES.glob("*.json"), *CORPUS.glob("*timeline*.json")], key=lambda p: p.name
)
FILES = [
    path for path in FILES if "horovod" not in path.name and "mxnet" not in str(path)
]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_real_steps_agree_with_themselves(path):
    """Sample runs and public timelines keep the laws, and something is said of each."""
    analysis = analyze_run(load_run(path, cache=False))
    found = Flow(analysis.run, analysis.colocation)
    crossed = find_transfers(found)

    check_sums(crossed)
    assert transfer_sentences(crossed, found.trace)
    assert crossed.copies["op"].is_unique().all()


def test_what_would_cross_at_home_is_what_crosses_when_gradients_are_colocated():
    """The prediction for towers has each large tensor of the run that did it."""
    sizes = {}
    for how in ("auto", "colocated"):
        analysis = analyze_run(load_run(SAMPLES / f"towers-{how}.json", cache=False))
        crossed = find_transfers(Flow(analysis.run, analysis.colocation))
        tensors, avoidable = crossed.tensors, crossed.avoidable
        gone = avoidable.gone.select("producer", "destination")
        kept = tensors.join(gone, on=["producer", "destination"], how="anti")
        sizes[how] = sorted(
            size
            for size in pl.concat([kept["n_bytes"], avoidable.added["n_bytes"]])
            if size > 1000
        )

    # A shape that stays where it is still takes one activation along.
    sizes["auto"].remove(401408)
    assert sizes["auto"] == sizes["colocated"]
