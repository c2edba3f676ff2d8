import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_viz.analysis.intervals import cover, covers_at_once

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)


def covered(spans):
    """Return each microsecond that one of ``spans`` holds."""
    return {
        moment for start, length in spans for moment in range(start, start + length)
    }


def moments(found):
    """Return each microsecond of a cover."""
    pairs = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    return [moment for start, end in pairs for moment in range(start, end)]


def cover_of(spans):
    """Return the cover of ``spans``, pairs of start and length."""
    return cover([start for start, _ in spans], [length for _, length in spans])


@given(SPANS)
def test_a_cover_holds_each_microsecond_once_and_in_order(spans):
    """A cover is the set of microseconds in which an interval is open."""
    found = cover_of(spans)

    assert moments(found) == sorted(covered(spans))
    assert found.total_us == len(covered(spans))
    assert (found.starts[1:] > found.ends[:-1]).all()


@given(SPANS, SPANS)
def test_covers_combine_as_sets_do(left, right):
    """And, or and without mean for covers what they mean for sets."""
    a, b = cover_of(left), cover_of(right)

    assert moments(a & b) == sorted(covered(left) & covered(right))
    assert moments(a | b) == sorted(covered(left) | covered(right))
    assert moments(a - b) == sorted(covered(left) - covered(right))


@given(st.lists(SPANS, max_size=4), st.integers(1, 4))
def test_covers_at_once_counts_how_many_are_open(many, least):
    """A moment counts when enough of the covers hold it."""
    found = covers_at_once([cover_of(spans) for spans in many], least)

    depth = [sum(at in covered(spans) for spans in many) for at in range(60)]
    assert moments(found) == [at for at, n in enumerate(depth) if n >= least]


@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_gaps_are_what_is_left_of_a_window(spans, start, length):
    """What a cover leaves free of a window are its gaps there."""
    window = set(range(start, start + length))

    found = cover_of(spans).gaps(start, start + length)

    assert moments(found) == sorted(window - covered(spans))


@given(SPANS, st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 20))))
def test_within_counts_what_lies_in_each_window(spans, windows):
    """Each window is told how much of the cover lies in it."""
    starts = np.array([start for start, _ in windows], dtype=np.int64)
    ends = starts + np.array([length for _, length in windows], dtype=np.int64)

    found = cover_of(spans).within(starts, ends)

    assert found.tolist() == [
        len(covered(spans) & set(range(start, start + length)))
        for start, length in windows
    ]
