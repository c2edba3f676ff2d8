from hypothesis import given
from hypothesis import strategies as st

from placement_viz import analyze_run
from placement_viz.analysis.usage import busy_us
from placement_viz.model import RowKind
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


def on(row, kind=RowKind.STREAM, gpu="/device:GPU:0", **fields):
    """Return one op on a row of a tracer."""
    return op(row, on=gpu, row=f"{gpu}/{row}", row_kind=kind, **fields)


def test_where_only_a_tracer_tells_devices_its_kernels_are_counted():
    """Copies are no kernels and have a time of their own."""
    analysis = analyze_run(
        run(
            on("stream:7", start_us=0, duration_us=10),
            on("stream:8", start_us=5, duration_us=10),
            on("memcpy", RowKind.MEMCPY, start_us=40, duration_us=5),
            on("memcpy", RowKind.MEMCPY, start_us=42, duration_us=5),
            on("memcpy", RowKind.MEMCPY, gpu="/device:GPU:1", duration_us=3),
            op("host", on="/host:CPU", row_kind=RowKind.OTHER, duration_us=90),
        )
    )

    found = [(u.device, u.ops, u.busy_us, u.copy_busy_us) for u in analysis.usage]

    assert found == [("/device:GPU:0", 2, 15, 7), ("/device:GPU:1", 0, 0, 3)]


def test_a_kernel_that_stands_on_two_rows_is_counted_once():
    """The row of all streams repeats the others of its device, if it has one."""
    analysis = analyze_run(
        run(
            on("stream:7", duration_us=10),
            on("stream:all", duration_us=10),
            on("stream:7", gpu="/device:GPU:1", duration_us=4),
        )
    )

    assert [u.ops for u in analysis.usage] == [1, 1]


def test_where_nothing_tells_devices_processes_stand_for_them():
    """They are what is known."""
    analysis = analyze_run(
        run(
            op("a", device="server", row_kind=RowKind.OTHER, duration_us=10),
            op("b", device="client", row_kind=RowKind.OTHER, duration_us=4),
        )
    )

    found = [(u.device, u.ops, u.busy_us) for u in analysis.usage]

    assert found == [("client", 1, 4), ("server", 1, 10)]
    assert not analysis.run.trace.is_placed


def test_executors_alone_tell_devices_where_there_are_any():
    """A tracer's number of a device need not be TensorFlow's."""
    analysis = analyze_run(
        run(
            op("a", on="GPU:1", duration_us=2),
            on("stream:7", duration_us=10),
            on("memcpy", RowKind.MEMCPY, duration_us=3),
        )
    )

    found = [(u.device, u.busy_us, u.copy_busy_us) for u in analysis.usage]

    assert found == [(device("GPU:1"), 2, 0)]
