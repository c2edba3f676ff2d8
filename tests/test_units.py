import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placement_viz.units import format_bytes, format_count, format_share, format_us


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0, "0 µs"),
        (540, "540 µs"),
        (999, "999 µs"),
        (1_000, "1.0 ms"),
        (8_080, "8.1 ms"),
        (127_300, "127 ms"),
        (999_960, "1.0 s"),
        (999_400, "999 ms"),
        (-2_500, "-2.5 ms"),
    ],
)
def test_a_time_is_in_the_unit_a_person_would_choose(duration_us, text):
    """A duration has one unit and at most one decimal."""
    assert format_us(duration_us) == text


@given(st.integers(-(10**12), 10**12))
@example(999_500)
def test_a_time_never_says_a_thousand_of_a_unit(duration_us):
    """What would round to 1000 ms is a second; there is nothing above seconds."""
    number, unit = format_us(duration_us).split()

    assert unit == "s" or number.lstrip("-") not in {"1000", "1000.0"}


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(512, "512 B"), (1536, "1.5 KiB"), (4_300_000, "4.1 MiB"), (2**31, "2.0 GiB")],
)
def test_a_size_is_in_binary_units(n_bytes, text):
    """A size is given in units of 1024."""
    assert format_bytes(n_bytes) == text


def test_a_count_agrees_with_its_noun():
    """One op, two ops, a thousand with a separator."""
    assert format_count(1, "op") == "1 op"
    assert format_count(0, "op") == "0 ops"
    assert format_count(1204, "op") == "1,204 ops"
    assert format_count(2, "entry", "entries") == "2 entries"


def test_a_share_of_nothing_is_no_number():
    """There is no per cent of nothing."""
    assert format_share(1, 4) == "25 %"
    assert format_share(0, 0) == "–"
