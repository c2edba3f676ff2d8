import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import names

WORKER = "/job:worker/replica:0/task:1/device:GPU:0"
LOCAL = "/job:localhost/replica:0/task:0/device:"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("/gpu:1", "/device:GPU:1"),
        ("/cpu:*", "/device:CPU:*"),
        ("/device:gpu:0", "/device:GPU:0"),
        ("/job:localhost/replica:0/task:0/gpu:0", f"{LOCAL}GPU:0"),
        ("/job:localhost/replica:0/task:0/device:GPU:0", f"{LOCAL}GPU:0"),
        ("/job:ps/task:3", "/job:ps/task:3"),
        ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
        ("", ""),
        ("Allocators", "Allocators"),
    ],
)
def test_every_spelling_of_a_device_becomes_todays(written, canonical):
    """Old and new spellings of one device are one device."""
    assert names.canonical_device(written) == canonical


@given(st.text(max_size=60))
def test_a_canonical_device_is_stable(text):
    """Canonical text stays as it is, whatever it was made from."""
    once = names.canonical_device(text)

    assert names.canonical_device(once) == once


@pytest.mark.parametrize(
    ("request_", "matches"),
    [
        ("", True),
        ("/device:GPU:0", True),
        ("/device:GPU:*", True),
        ("/job:worker", True),
        ("/job:worker/task:1", True),
        ("/device:GPU:1", False),
        ("/device:CPU:0", False),
        ("/job:ps/device:GPU:0", False),
        ("/job:worker/task:0/device:GPU:0", False),
    ],
)
def test_a_device_must_satisfy_every_part_of_a_request(request_, matches):
    """A request leaves open what it does not name."""
    assert names.device_matches(request_, WORKER) is matches


def test_devices_sort_by_task_type_and_number():
    """GPU:10 comes after GPU:2, and CPU before GPU."""
    devices = [f"{LOCAL}{d}" for d in ("CPU:0", "GPU:0", "GPU:2", "GPU:10")]

    shuffled = [devices[i] for i in (2, 0, 3, 1)]

    assert sorted(shuffled, key=names.device_order) == devices


def test_a_device_is_as_short_as_its_company_allows():
    """The task is named only where there are several."""
    ps = "/job:ps/replica:0/task:0/device:CPU:0"

    assert names.short_device(f"{LOCAL}GPU:1", [f"{LOCAL}GPU:0"]) == "GPU:1"
    assert names.short_device(ps, [ps, WORKER]) == "ps:0/CPU:0"


@pytest.mark.parametrize(
    ("tensor", "known", "producer"),
    [
        ("mm", (), "mm"),
        ("mm:1", (), "mm"),
        ("^mm", (), "mm"),
        ("mm/_7", ("mm",), "mm"),
        ("^mm/_7:1", ("mm",), "mm"),
        ("mm/_7/_9", ("mm",), "mm"),
        ("while/body/_19", ("while/body/_19", "while/body"), "while/body/_19"),
        ("gone/_7", ("mm",), "gone/_7"),
        ("gone/_7", (), "gone"),
        ("ReadVariableOp_S33", ("ReadVariableOp",), "ReadVariableOp"),
        ("ReadVariableOp_S33", (), "ReadVariableOp_S33"),
        ("block_S1", ("block", "block_S1"), "block_S1"),
    ],
)
def test_a_tensor_leads_to_its_producer(tensor, known, producer):
    """Marks of control, output and copy are removed, and nothing else."""
    assert names.producer_of(tensor, known) == producer


@given(
    st.from_regex(r"\^?[ab](/ctrl)?(/_[12]){0,3}(:[01])?", fullmatch=True),
    st.sets(st.sampled_from(["a", "b", "a/_1", "a/ctrl", "a/_1/_2", "b/ctrl/_1"])),
)
def test_a_tensor_has_no_other_producer_than_the_possible_ones(tensor, known):
    """Whatever ops there are, the op that is found was among the candidates."""
    assert names.producer_of(tensor, known) in set(names.possible_producers(tensor))


def test_a_gradient_name_has_every_reading_longest_first():
    """A second-order name can be read as the gradient of two ops."""
    readings = list(names.gradient_boundaries("gradients/train/gradients/mm_grad/Mul"))

    assert readings == [
        ("gradients", "train/gradients/mm"),
        ("gradients/train", "gradients/mm"),
        ("gradients/train/gradients", "mm"),
    ]


@pytest.mark.parametrize("name", ["mm_grad", "mm_grad/MatMul", "a/mm_gradient/x", "mm"])
def test_a_gradient_needs_a_scope_around_it(name):
    """A user's own ``…_grad`` outside any scope is no gradient."""
    assert list(names.gradient_boundaries(name)) == []
