from hypothesis import given
from hypothesis import strategies as st

from placement_viz import analyze_run
from placement_viz.analysis.usage import busy_us
from tests.builders import device, op, run

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(intervals)
def test_busy_time_counts_each_microsecond_once(spans):
    """Busy time is the size of the union of the intervals."""
    covered = {t for start, length in spans for t in range(start, start + length)}

    assert busy_us([s for s, _ in spans], [n for _, n in spans]) == len(covered)


@given(intervals)
def test_busy_time_never_exceeds_the_span(spans):
    """The union of intervals fits into the time from first start to last end."""
    starts, lengths = [s for s, _ in spans], [n for _, n in spans]
    ends = [s + n for s, n in spans]
    span = max(ends, default=0) - min(starts, default=0)

    assert busy_us(starts, lengths) <= span


def test_a_device_is_busy_once_when_ops_overlap():
    """Two ops at a time are not twice the time."""
    analysis = analyze_run(
        run(
            op("a", start_us=0, duration_us=10),
            op("b", start_us=5, duration_us=10),
            op("c", on="CPU:1", start_us=40, duration_us=1),
        )
    )

    found = [(u.device, u.ops, u.busy_us) for u in analysis.usage]

    assert found == [(device("CPU:0"), 2, 15), (device("CPU:1"), 1, 1)]
