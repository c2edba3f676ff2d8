import dataclasses

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.memory import MemoryFrom, find_memory
from placement_viz.reports.step_memory import memory_sentences
from placement_viz.schema import Allocation, RunSection
from tests.builders import SAMPLES, device, op, run


def memory_of(*ops, **section):
    """Return the memory of a judged run of ``ops`` whose file records ``section``."""
    made = dataclasses.replace(run(*ops), section=RunSection(schema=1, **section))
    analysis = analyze_run(made)
    return find_memory(Flow(analysis.run, analysis.colocation))


def allocated(*allocations, on="CPU:0"):
    """Return what a section says of allocations on one device."""
    return {device(on): {"bfc": tuple(Allocation(*each) for each in allocations)}}


def held(found):
    """Return name, start, end and size of all that is held."""
    return found.held.select("name", "start_us", "end_us", "n_bytes").rows()


def test_allocations_are_added_up_over_time():
    """What is given back at a moment no longer counts from then on."""
    found = memory_of(
        op("a", start_us=0),
        op("b", start_us=10),
        op("c", start_us=20),
        allocations=allocated(("a", 0, 99, 10), ("b", 10, 70, 25), ("c", 20, 40, None)),
    )

    assert found.known_from is MemoryFrom.ALLOCATIONS
    assert found.curves.select("at_us", "n_bytes").rows() == [
        (0, 99),
        (10, 70),
        (20, 110),
        (25, 40),
        (30, 0),
    ]
    (peak,) = found.peaks
    assert (peak.at_us, peak.n_bytes) == (20, 110)
    assert peak.alive["name"].to_list() == ["b", "c"]


def test_memory_is_that_of_the_execution_that_took_it():
    """Of several turns of a loop the one that ran then took the memory."""
    found = memory_of(
        op("turn", start_us=0),
        op("turn", start_us=50),
        allocations=allocated(("turn", 1, 8, 10), ("turn", 52, 8, 60)),
    )

    assert found.held["op"].to_list() == [0, 1]


def test_what_misplaced_gradients_took_would_leave_the_device():
    """The peak is told with and without what misplaced gradient ops allocated."""
    found = memory_of(
        op("mm", on="CPU:1", start_us=0),
        op("other", start_us=0),
        op("gradients/mm_grad/MatMul", start_us=20, inputs=["mm"]),
        op("gradients/other_grad/MatMul", start_us=40, inputs=["other"]),
        allocations=allocated(
            ("other", 0, 30, 35),
            ("gradients/mm_grad/MatMul", 20, 100, 38),
            ("gradients/other_grad/MatMul", 40, 50, 50),
        ),
    )

    (peak,) = found.peaks
    assert (peak.n_bytes, peak.misplaced_bytes) == (130, 100)
    assert peak.without_misplaced_bytes == 50
    first, second = memory_sentences(found, (device("CPU:0"), device("CPU:1")))
    assert first == (
        "CPU:0 held most at 20 µs: 130 B in 2 pieces, the largest 100 B of "
        "gradients/mm_grad/MatMul."
    )
    assert second == (
        "100 B of that belong to misplaced gradient ops: at home these would lower the "
        "peak of CPU:0 by 80 B, to 50 B."
    )


def test_without_allocations_a_tensor_is_held_until_it_was_taken_last():
    """Sizes and the dataflow give the memory that tensors need."""
    found = memory_of(
        op("a", start_us=0),
        op("b", start_us=10, inputs=["a"]),
        op("c", start_us=30, inputs=["a", "^b"]),
        tensor_bytes={"a:0": 100, "b:0": 7},
    )

    assert found.known_from is MemoryFrom.SIZES
    assert held(found) == [("a", 0, 40, 100), ("b", 10, 20, 7)]
    assert "Allocations are not recorded" in memory_sentences(found, ())[-1]


def test_what_only_passes_a_tensor_on_takes_no_memory():
    """A reshaped tensor is its input's memory, held as long as the result is needed."""
    found = memory_of(
        op("a", start_us=0),
        op("flat", op_type="Reshape", start_us=10, inputs=["a", "shape"]),
        op("same", op_type="Identity", start_us=20, inputs=["flat"]),
        op("b", start_us=30, inputs=["same"]),
        tensor_bytes={"a:0": 100, "flat:0": 100, "same:0": 100},
    )

    assert held(found) == [("a", 0, 40, 100)]


def test_variables_and_constants_are_no_memory_of_the_step():
    """They are there before it and stay after it."""
    found = memory_of(
        op("w", op_type="VarHandleOp", start_us=0),
        op("read", op_type="ReadVariableOp", start_us=10, inputs=["w"]),
        op("one", op_type="Const", start_us=10),
        op("b", start_us=20, inputs=["read", "one"]),
        tensor_bytes={"w:0": 200, "read:0": 4000, "one:0": 4, "b:0": 8},
    )

    assert held(found) == [("b", 20, 30, 8)]


def test_a_tensor_lies_on_each_device_that_takes_it():
    """On another device it is held from the first op there that takes it."""
    found = memory_of(
        op("a", on="CPU:0", start_us=0),
        op("b", on="GPU:0", start_us=30, inputs=["a/_1"]),
        op("c", on="GPU:0", start_us=50, inputs=["a/_1"]),
        op("d", on="CPU:1", start_us=70, inputs=["a/_3"]),
        tensor_bytes={"a:0": 100},
    )

    assert found.held.select("device", "start_us", "end_us").rows() == [
        (device("CPU:0"), 0, 80),
        (device("GPU:0"), 30, 60),
    ]


def test_a_run_without_sizes_has_no_memory():
    """Nothing is invented, and it is said how to know."""
    assert memory_of(op("a")) is None
    assert "not recorded" in memory_sentences(None, ())[0]


PIECES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9), st.integers(0, 15)), min_size=1
)


@given(PIECES)
def test_the_peak_is_the_most_that_is_held_at_any_moment(pieces):
    """A plain count of each microsecond gives the same peak and the same moment."""
    found = memory_of(
        op("a", start_us=0, duration_us=60),
        allocations=allocated(
            *(("a", start, n_bytes, start + us) for start, n_bytes, us in pieces)
        ),
    )

    level = [
        sum(n for start, n, us in pieces if start <= at < start + us)
        for at in range(60)
    ]
    (peak,) = found.peaks
    assert peak.n_bytes == max(level)
    if peak.n_bytes:
        assert peak.at_us == level.index(max(level))
    assert int(peak.alive["n_bytes"].sum()) == peak.n_bytes


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_samples_hold_no_more_than_all_their_tensors(path):
    """No device of a sample run holds more than all that was made in the step."""
    analysis = analyze_run(load_run(path, cache=False))

    found = find_memory(Flow(analysis.run, analysis.colocation))

    everything = int(found.held["n_bytes"].sum())
    assert found.peaks
    for peak in found.peaks:
        assert 0 < peak.n_bytes <= everything
        assert peak.without_misplaced_bytes <= peak.n_bytes
    last = found.curves.group_by("device", maintain_order=True).last()
    assert last.filter(pl.col("n_bytes") != 0).is_empty()
