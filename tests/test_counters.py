"""How many devices are busy is what a person would count, one µs after another."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz.dashboard.counters import BusyDevices, HeldBytes, OpenIntervals

ops = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 20)),
    min_size=1,
    max_size=20,
)


def busy(found):
    """Return the busy devices of ops given as device, start and duration."""
    columns = ["device", "start_us", "duration_us"]
    return BusyDevices(pl.DataFrame(found, schema=columns, orient="row"))


@given(ops, st.integers(0, 50), st.integers(1, 40), st.integers(1, 8))
def test_each_part_counts_the_devices_that_had_an_op(found, start, width, n_parts):
    """Brute force over microseconds gives the same."""
    covered = {
        device: {
            t
            for name, begin, us in found
            if name == device
            for t in range(begin, begin + us)
        }
        for device in {name for name, _, _ in found}
    }
    # Parts of whole microseconds, so that counting is exact.
    window = start, start + width * n_parts

    expected = [
        sum(
            len(times & set(range(start + part * width, start + (part + 1) * width)))
            for times in covered.values()
        )
        / width
        for part in range(n_parts)
    ]

    assert busy(found).mean(*window, n_parts).tolist() == pytest.approx(expected)


@given(ops)
def test_no_more_devices_are_busy_than_there_are(found):
    """Overlapping ops of a device count once."""
    counter = busy(found)
    values = counter.mean(0, 100, 17)

    assert counter.n_devices == len({device for device, _, _ in found})
    assert values.min() >= 0
    assert values.max() <= counter.n_devices + 1e-9


def test_outside_of_the_run_nothing_is_busy():
    """A window may begin before the first op and end after the last."""
    assert busy([("a", 10, 10)]).mean(-20, 40, 6).tolist() == [0, 0, 0, 1, 0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12),
    st.integers(-5, 50),
    st.integers(1, 20),
    st.integers(1, 6),
)
def test_each_part_counts_the_intervals_that_were_open(spans, start, width, n_parts):
    """Brute force over microseconds gives the same mean number."""
    counter = OpenIntervals([at for at, _ in spans], [at + us for at, us in spans])

    found = counter.mean(start, start + width * n_parts, n_parts)

    expected = [
        sum(
            at <= moment < at + us
            for at, us in spans
            for moment in range(start + part * width, start + (part + 1) * width)
        )
        / width
        for part in range(n_parts)
    ]
    assert found.tolist() == pytest.approx(expected)
    at_once = [sum(at <= moment < at + us for at, us in spans) for moment in range(90)]
    assert counter.most == max(at_once)


@given(
    st.dictionaries(st.integers(0, 60), st.integers(0, 90), min_size=1, max_size=12),
    st.integers(-5, 50),
    st.integers(1, 20),
    st.integers(1, 6),
)
def test_each_part_tells_the_most_that_was_held_in_it(curve, start, width, n_parts):
    """Brute force over microseconds gives the same peaks."""
    moments = sorted(curve)
    counter = HeldBytes(moments, [curve[at] for at in moments])

    found = counter.most(start, start + width * n_parts, n_parts)

    def held(moment):
        before = [at for at in moments if at <= moment]
        return curve[before[-1]] if before else 0

    assert found.tolist() == [
        max(map(held, range(start + part * width, start + (part + 1) * width)))
        for part in range(n_parts)
    ]
    assert counter.peak == max(curve.values())
