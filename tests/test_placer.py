import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz.analysis.placer import PlacerNode, place
from tests.builders import device

FOUR_CPUS = tuple(f"CPU:{number}" for number in range(4))
DEVICES = ("CPU:0", "CPU:1", "GPU:0", "GPU:1", "GPU:2")


def asks(name, on="", after=(), **fields):
    """Return a node that asks for ``on`` and takes the first output of ``after``."""
    return PlacerNode(
        name=name,
        device=f"/device:{on}" if on and not on.startswith("/") else on,
        inputs=tuple((each, 0) for each in after),
        **{"op": "MatMul", **fields},
    )


def variable(name, on=""):
    """Return a node that makes a resource."""
    return asks(name, on, op="VarHandleOp", handles=frozenset({0}))


def placed(*nodes, devices=DEVICES):
    """Return node to the short name of the device it is placed on."""
    found = place(nodes, map(device, devices))
    return {name: where.rpartition("/device:")[2] for name, where in found.items()}


def test_what_waits_for_a_later_node_is_placed_after_it():
    """In a loop nodes are made to wait; who comes last decides where a group goes.

    Both members of the group of ``a`` ask for a device. The second one drops the
    number, the third sets it again: in the order of creation that is ``c``.
    """
    loop = (
        asks("way in", op="Const"),
        asks("entrance", op="Merge", after=["way in", "round"]),
        asks("round", op="NextIteration", after=["entrance"]),
    )
    a, b, c = (
        asks(name, f"CPU:{number}", after=["entrance"], groups=("a",))
        for name, number in (("a", 0), ("b", 1), ("c", 2))
    )
    waiting = msgspec.structs.replace(b, after=("c",))

    assert placed(*loop, a, b, c, devices=FOUR_CPUS)["a"] == "CPU:2"
    assert placed(*loop, a, waiting, c, devices=FOUR_CPUS)["a"] == "CPU:1"


def test_nodes_that_wait_for_each_other_are_placed_all_the_same():
    """A damaged graph loses no node."""
    circle = [asks("x", "CPU:1", after=["y"]), asks("y", after=["x"])]
    loop = asks("round", op="NextIteration", after=["x"])

    assert set(placed(*circle, loop)) == {"x", "y", "round"}


def test_a_request_is_honoured():
    """What a program asks for it gets."""
    assert placed(asks("a"), asks("b", "CPU:1", after=["a"]))["b"] == "CPU:1"


@pytest.mark.parametrize(
    ("devices", "default"),
    [
        (["CPU:0", "GPU:0", "GPU:1"], "GPU:0"),
        (["GPU:10", "GPU:2", "CPU:0"], "GPU:2"),
        (["CPU:1", "CPU:0"], "CPU:0"),
    ],
)
def test_what_asks_for_nothing_goes_to_the_default_device(devices, default):
    """A GPU before a CPU, then the lowest number, however they are listed."""
    nodes = asks("a"), asks("b", after=["a"])

    assert placed(*nodes, devices=devices) == {"a": default, "b": default}


def test_the_default_task_is_the_first():
    """Of two tasks with the same devices the lower one is the default."""
    tasks = [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in (1, 0)]

    assert place([asks("a", after=["gone"])], tasks) == {"a": tasks[1]}


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        ("GPU:*", "GPU:0"),
        ("CPU:*", "CPU:0"),
        ("/job:localhost", "GPU:0"),
        ("/job:localhost/replica:0/task:0", "GPU:0"),
        ("/job:localhost/device:CPU:1", "CPU:1"),
        ("TPU:0", "GPU:0"),
        ("GPU:7", "GPU:0"),
        ("/job:elsewhere/replica:0/task:0/device:CPU:1", "GPU:0"),
    ],
)
def test_a_request_leaves_open_what_it_does_not_name(request_, where):
    """The first device that satisfies it is taken; the very first, where none does."""
    assert placed(asks("a", request_, after=["x"]))["a"] == where


def test_a_request_may_name_nothing_but_a_task():
    """A parameter server is asked for as a whole, and its CPU is what it has."""
    ps, worker = (f"/job:{job}/replica:0/task:0/device:" for job in ("ps", "worker"))
    devices = [f"{worker}GPU:0", f"{worker}CPU:0", f"{ps}CPU:0"]

    found = place([asks("v", "/job:ps/task:0", after=["x"])], devices)

    assert found == {"v": f"{ps}CPU:0"}


def test_what_takes_a_resource_is_where_the_resource_is():
    """The variable decides, also against what the taker asks for."""
    found = placed(
        variable("v", "CPU:1"),
        asks("free", after=["v"]),
        asks("bound", "GPU:1", after=["v"]),
        asks("chained", after=["bound"]),
    )

    assert found == {
        "v": "CPU:1",
        "free": "CPU:1",
        "bound": "CPU:1",
        "chained": "GPU:0",
    }


def test_a_handle_is_followed_from_op_to_op():
    """What passes a handle on binds whoever takes it."""
    found = placed(
        variable("v", "CPU:1"),
        asks("enter", after=["v"], op="Enter", handles=frozenset({0})),
        asks("read", "GPU:0", after=["enter"], op="ReadVariableOp"),
    )

    assert found["read"] == "CPU:1"


def test_only_the_output_that_is_a_handle_binds():
    """The flow of a TensorArray is a number and may be taken anywhere."""
    array = asks("array", "CPU:1", after=["size"], handles=frozenset({0}))
    taker = PlacerNode(name="flow", op="MatMul", inputs=(("array", 1),))

    assert placed(array, taker)["flow"] == "GPU:0"


@pytest.mark.parametrize(
    "op", ["While", "StatelessWhile", "If", "Case", "PartitionedCall", "IdentityN"]
)
def test_a_handle_that_goes_into_a_call_binds_nothing(op):
    """The body of a call is placed on its own."""
    found = placed(variable("v", "CPU:1"), asks("call", after=["v"], op=op))

    assert found["call"] == "GPU:0"


def test_a_group_shares_the_device_that_one_of_it_asks_for():
    """Whoever asks, and in whatever order the members come."""
    found = placed(
        asks("a", after=["x"]),
        asks("b", after=["x"], groups=("a",)),
        asks("c", "GPU:2", after=["x"], groups=("b",)),
    )

    assert set(found.values()) == {"GPU:2"}


def test_a_group_may_be_named_after_a_node_that_is_not_there():
    """A pruned node still holds together what was bound to it."""
    found = placed(
        asks("a", after=["x"], groups=("gone",)),
        asks("b", "CPU:1", after=["x"], groups=("gone",)),
    )

    assert found == {"a": "CPU:1", "b": "CPU:1"}


@pytest.mark.parametrize(
    ("requests", "where"),
    [
        (["GPU:1", "GPU:2"], "GPU:0"),
        (["GPU:1", "GPU:2", "GPU:2"], "GPU:2"),
        (["GPU:1", "GPU:2", "GPU:1"], "GPU:1"),
        (["GPU:2", "GPU:2", "GPU:1"], "GPU:0"),
        (["GPU:1", "GPU:2", ""], "GPU:0"),
        (["CPU:1", "GPU:2"], "GPU:0"),
        (["CPU:1", "GPU:2", "CPU:1"], "CPU:1"),
        (["CPU:0", "CPU:1"], "CPU:0"),
    ],
)
def test_a_clash_in_a_group_is_dropped_and_set_again_by_the_next(requests, where):
    """So where a group ends up depends on the order of its members."""
    nodes = [
        asks(f"n{i}", request, after=["x"], groups=("n0",))
        for i, request in enumerate(requests)
    ]

    assert set(placed(*nodes).values()) == {where}


def test_two_resources_stay_apart_though_one_is_bound_to_the_other():
    """Nobody overrides the device of a resource, so the wish to join is ignored."""
    other = asks("w", "GPU:1", groups=("v",), handles=frozenset({0}))

    assert placed(variable("v", "CPU:1"), other) == {"v": "CPU:1", "w": "GPU:1"}


def test_a_resource_draws_its_group_to_its_device():
    """What is bound to a variable goes where that is, against its own request."""
    bound = asks("bound", "GPU:1", after=["x"], groups=("v",))

    assert placed(variable("v", "GPU:2"), bound)["bound"] == "GPU:2"


@pytest.mark.parametrize("op", ["Shape", "Size", "Rank"])
def test_what_only_reads_a_shape_follows_its_input(op):
    """It takes no data, so it would rather not have any moved."""
    found = placed(
        asks("a", "CPU:1", after=["x"]),
        asks("shape", after=["a"], op=op),
        asks("asked", "GPU:1", after=["a"], op=op),
    )

    assert (found["shape"], found["asked"]) == ("CPU:1", "GPU:1")


def test_a_generator_goes_to_its_consumers_if_they_agree():
    """A constant is made where it is taken, and by default where takers disagree."""
    found = placed(
        asks("near", op="Const"),
        asks("shared", op="Const"),
        asks("unused", op="Const"),
        asks("asked", "GPU:1", op="Const"),
        asks("a", "CPU:1", after=["near", "shared", "asked"]),
        asks("b", "GPU:2", after=["shared"]),
        asks("c", "CPU:1", after=["near"]),
    )

    assert found["near"] == "CPU:1"
    assert found["shared"] == "GPU:0"
    assert found["unused"] == "GPU:0"
    assert found["asked"] == "GPU:1"


CPU, GPU = frozenset({"CPU"}), frozenset({"GPU"})


@pytest.mark.parametrize(
    ("request_", "kinds", "where"),
    [
        ("", CPU, "CPU:0"),
        ("", CPU | GPU, "GPU:0"),
        ("", None, "GPU:0"),
        ("CPU:1", CPU, "CPU:1"),
        ("GPU:1", CPU, "CPU:0"),
        ("GPU:1", frozenset({"TPU"}), "GPU:0"),
    ],
)
def test_an_op_goes_where_it_has_a_kernel(request_, kinds, where):
    """Soft placement drops the request first; what runs nowhere is left alone."""
    assert placed(asks("a", request_, after=["x"], kinds=kinds))["a"] == where


def test_a_group_goes_where_all_its_members_have_a_kernel():
    """One op that only runs on a CPU draws the others there."""
    found = placed(
        asks("a", after=["x"], kinds=CPU | GPU),
        asks("b", after=["x"], groups=("a",), kinds=CPU),
        asks("c", after=["x"], groups=("a",)),
    )

    assert set(found.values()) == {"CPU:0"}


def test_what_would_leave_a_group_no_device_does_not_join_it():
    """A wish to be together is dropped where no device has both kernels."""
    found = placed(
        asks("a", after=["x"], kinds=GPU),
        asks("b", after=["x"], groups=("a",), kinds=CPU),
    )

    assert found == {"a": "GPU:0", "b": "CPU:0"}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_task_and_a_device_are_wishes_that_go_together(is_first):
    """One member names the task and the other the device in it."""
    tasks = [f"/job:worker/replica:0/task:{i}/device:" for i in range(2)]
    both = ["/job:worker/replica:0/task:1", "/device:GPU:1"]
    asked = both if is_first else both[::-1]
    nodes = [
        asks(f"n{i}", request, after=["x"], groups=("n0",))
        for i, request in enumerate(asked)
    ]

    found = place(nodes, [f"{task}GPU:{i}" for task in tasks for i in range(2)])

    assert set(found.values()) == {f"{tasks[1]}GPU:1"}


def test_a_variable_stays_in_its_task():
    """What takes a parameter server's variable goes there, whoever asks for what."""
    ps, worker = (f"/job:{j}/replica:0/task:0/device:CPU:0" for j in ("ps", "worker"))
    nodes = [
        asks("enter", worker, after=["x"], handles=frozenset({0})),
        asks("other", after=["enter"]),
        asks("v", ps, handles=frozenset({0})),
        asks("taker", after=["enter", "v"]),
    ]

    assert place(nodes, [ps, worker])["v"] == ps


@st.composite
def graphs(draw):
    """Return nodes of any graph, damaged ones included."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 8)))]
    some = st.sampled_from([*names, "gone"])
    return [
        PlacerNode(
            name=name,
            op=draw(st.sampled_from(["MatMul", "Const", "Shape", "While"])),
            device=draw(
                st.sampled_from(
                    [
                        "",
                        "/device:GPU:1",
                        "/device:GPU:2",
                        "/device:CPU:*",
                        "/device:X:0",
                    ]
                )
            ),
            groups=tuple(draw(st.lists(some, max_size=2))),
            inputs=tuple(
                draw(st.lists(st.tuples(some, st.integers(0, 1)), max_size=2))
            ),
            handles=frozenset(draw(st.lists(st.integers(0, 1), max_size=1))),
        )
        for name in names
    ]


@given(graphs(), st.permutations(DEVICES))
def test_every_node_is_placed_once_and_on_a_device_of_the_session(nodes, devices):
    """Whatever the graph, and however the devices are listed."""
    found = place(nodes, map(device, devices))

    assert sorted(found) == sorted(node.name for node in nodes)
    assert set(found.values()) <= set(map(device, devices))
    assert found == place(nodes, map(device, DEVICES))


@given(graphs())
def test_names_mean_nothing_to_the_placer(nodes):
    """Other names in the same order give the same devices."""

    def renamed(name):
        return f"scope/{name}/x"

    twins = [
        PlacerNode(
            name=renamed(node.name),
            op=node.op,
            device=node.device,
            groups=tuple(map(renamed, node.groups)),
            inputs=tuple((renamed(name), slot) for name, slot in node.inputs),
            handles=node.handles,
        )
        for node in nodes
    ]

    found, expected = placed(*twins), placed(*nodes)

    assert found == {renamed(name): where for name, where in expected.items()}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", *DEVICES]), st.integers(0, 7), st.integers(0, 7)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_group_without_a_clash_is_where_it_asks_to_be(members):
    """Members share a device: the one that any of them names."""
    nodes = [
        asks(f"n{i}", on, after=["x"], groups=(f"n{one}", f"n{other}"))
        for i, (on, one, other) in enumerate(members)
    ]
    # Brute force: sets that share a name are one group.
    groups = [{node.name, *node.groups} for node in nodes]
    for _ in groups:
        groups = [set().union(*(g for g in groups if g & one)) for one in groups]

    found = placed(*nodes)

    for group in groups:
        inside = [i for i in range(len(nodes)) if f"n{i}" in group]
        assert len({found[f"n{i}"] for i in inside}) == 1
        wanted = {members[i][0] for i in inside} - {""}
        if len(wanted) == 1:
            assert {found[f"n{i}"] for i in inside} == wanted
