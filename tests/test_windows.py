"""A window shows what is there and nothing else, at every level of detail."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz.dashboard.windows import CLASSES, build_levels, coalesce

N_LINES = 3
MISPLACED = CLASSES.index("misplaced")

short_ops = st.tuples(
    st.integers(0, N_LINES - 1),
    st.integers(0, 3000),
    st.integers(0, 12) | st.integers(0, 2000),
    st.sampled_from(CLASSES),
)
op_lists = st.lists(short_ops, min_size=1, max_size=60)
windows = st.tuples(
    st.floats(-100, 5000, allow_nan=False), st.floats(0.5, 6000, allow_nan=False)
).map(lambda pair: (pair[0], pair[0] + pair[1]))


def table(ops):
    """Return ops as columns, each a line, a start, a duration and a class."""
    return pl.DataFrame(
        {
            "line": [op[0] for op in ops],
            "start_us": [op[1] for op in ops],
            "duration_us": [op[2] for op in ops],
            "op_class": [op[3].value for op in ops],
            "op": range(len(ops)),
        },
        schema_overrides={"start_us": pl.Int64, "duration_us": pl.Int64},
    )


def rows(segments):
    """Return segments as a list of line, start, end, class and op."""
    columns = (
        segments.line,
        segments.start_us,
        segments.end_us,
        segments.op_class,
        segments.op,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def pixels(start, end, window, n_pixels):
    """Return the pixels that a span touches, within the window."""
    begin, stop = window
    scale = n_pixels / (stop - begin)
    first = math.floor((start - begin) * scale)
    last = math.floor((end - begin) * scale)
    return set(range(max(first, 0), min(last, n_pixels) + 1))


def touched(spans, window, n_pixels):
    """Return the pixels of each line that spans touch, misplaced ones apart."""
    found = {}
    for line, start, end, is_misplaced in spans:
        key = line, is_misplaced
        found.setdefault(key, set()).update(pixels(start, end, window, n_pixels))
    return {key: places for key, places in found.items() if places}


def inside(ops, window):
    """Return the ops that a window touches."""
    return [op for op in ops if op[1] <= window[1] and op[1] + op[2] >= window[0]]


def true_pixels(ops, window, n_pixels):
    """Return what is touched, op by op."""
    spans = ((line, s, s + d, c.value == "misplaced") for line, s, d, c in ops)
    return touched(spans, window, n_pixels)


def drawn_pixels(segments, window, n_pixels):
    """Return what is touched by what is drawn."""
    spans = ((line, s, e, c == MISPLACED) for line, s, e, c, _ in rows(segments))
    return touched(spans, window, n_pixels)


@given(op_lists, windows, st.integers(1, 60))
def test_every_pixel_with_an_op_shows_one_and_none_without(ops, window, n_pixels):
    """Blocks hide nothing and invent nothing, also of what is misplaced."""
    segments = build_levels(table(ops), N_LINES).cut(*window, n_pixels)
    truth = true_pixels(inside(ops, window), window, n_pixels)

    assert drawn_pixels(segments, window, n_pixels) == truth
    thinned = coalesce(segments, window, n_pixels)
    assert drawn_pixels(thinned, window, n_pixels) == truth
    assert len(thinned) <= len(segments)


@given(op_lists, windows)
def test_every_op_of_a_window_is_counted(ops, window):
    """Shown and merged together are what a person would count."""
    assert build_levels(table(ops), N_LINES).count(*window) == len(inside(ops, window))


@given(op_lists, windows, st.integers(1, 60))
def test_a_single_op_is_itself(ops, window, n_pixels):
    """What has a number has the place and the class of that op."""
    segments = build_levels(table(ops), N_LINES).cut(*window, n_pixels)

    for line, start, end, op_class, op in rows(segments):
        if op >= 0:
            truth = ops[op]
            assert (line, start, end - start) == truth[:3]
            assert CLASSES[op_class] == truth[3]


@given(op_lists, windows)
def test_wide_ops_stay_single(ops, window):
    """An op of a pixel or more is never part of a block."""
    n_pixels = 40
    pixel_us = (window[1] - window[0]) / n_pixels
    wide = {
        number
        for number, op in enumerate(ops)
        if op[2] >= pixel_us and inside([op], window)
    }

    segments = build_levels(table(ops), N_LINES).cut(*window, n_pixels)

    assert wide <= set(segments.op.tolist())


def test_a_block_has_the_colour_of_most_of_its_time():
    """Many short ops of one class outweigh a longer one of another."""
    ops = [(0, 10 * i, 3, CLASSES[1]) for i in range(50)] + [(0, 500, 9, CLASSES[2])]
    window = (0.0, 100_000.0)

    (block,) = rows(
        build_levels(table([*ops, (1, 90_000, 9, CLASSES[1])]), N_LINES).cut(
            *window, 20
        )
    )[:1]

    assert block == (0, 0, 509, 1, -1)


@pytest.mark.parametrize("n_ops", [1, 2])
def test_ops_that_last_no_time_are_shown(n_ops):
    """A moment is a pixel."""
    levels = build_levels(table([(0, 7, 0, CLASSES[1])] * n_ops), N_LINES)

    assert drawn_pixels(levels.cut(0, 100, 10), (0, 100), 10) == {(0, False): {0}}
    assert levels.count(7, 8) == n_ops


def test_a_long_op_is_found_from_its_middle():
    """It began long before the window, and others ended since."""
    ops = [(0, 0, 10_000, CLASSES[1]), *((0, i, 1, CLASSES[1]) for i in range(1, 99))]
    segments = build_levels(table(ops), N_LINES).cut(5000, 5010, 10)

    assert segments.op.tolist() == [0]


def test_few_segments_are_enough_for_many_ops():
    """A window of a million pixels' worth of ops costs what its pixels cost."""
    ops = [(i % 3, i, 1, CLASSES[1]) for i in range(60_000)]
    levels = build_levels(table(ops), N_LINES)

    assert len(levels.cut(0, 60_000, 100)) <= 3 * 4 * 101
    assert len(coalesce(levels.cut(0, 60_000, 100), (0, 60_000), 100)) == 3


def test_a_timeline_of_days_is_cut_like_a_short_one():
    """Its moments need more than four bytes."""
    day_us = 86_400_000_000
    ops = [(2, number * day_us, 5, CLASSES[1]) for number in range(3)]
    levels = build_levels(table(ops), N_LINES)

    assert rows(levels.cut(day_us, day_us + 9, 10)) == [(2, day_us, day_us + 5, 1, 1)]
    assert levels.count(0, 2 * day_us) == 3
