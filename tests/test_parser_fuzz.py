import gzip
import json

from hypothesis import example, given
from hypothesis import strategies as st

from placement_viz import Run, TraceError, parse_run
from tests.builders import event, timeline

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = ["ph", "name", "pid", "tid", "ts", "dur", "cat", "args"]
events = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=8)
op_events = st.builds(
    lambda base, changes: {**base, **changes}, st.just(event("mm")), events
)


def is_run_or_trace_error(data):
    """Return whether the parser keeps its promise for ``data``."""
    try:
        run = parse_run(data, source="fuzz", limit_bytes=2**20)
    except TraceError as error:
        return "\n" not in str(error)
    return isinstance(run, Run) and run.trace.ops.height > 0


@given(st.binary(max_size=200))
@example(b"[null]")
@example(b"\n\x0a\x00")
@example(b'{"traceEvents":[{"args":[]}]}')
def test_any_bytes_give_a_run_or_a_trace_error(data):
    """Nothing but a TraceError of one line ever leaves the parser."""
    assert is_run_or_trace_error(data)


@given(json_values)
def test_any_json_gives_a_run_or_a_trace_error(value):
    """The same for every valid JSON."""
    assert is_run_or_trace_error(json.dumps(value).encode())


@given(st.lists(op_events, max_size=5), st.booleans())
def test_any_events_give_a_run_or_a_trace_error(found, is_packed):
    """The same for events that look like ops, plain and gzipped."""
    data = timeline(*found, rows=("CPU:0", "GPU:1"))

    assert is_run_or_trace_error(gzip.compress(data) if is_packed else data)


@given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_a_damaged_timeline_gives_a_run_or_a_trace_error(position, damage):
    """The same when bytes of a good file are overwritten."""
    data = bytearray(timeline(event("a"), event("b", inputs=["a"])))
    data[position : position + len(damage)] = damage

    assert is_run_or_trace_error(bytes(data))


@given(json_values)
def test_any_section_gives_a_run_or_a_trace_error(section):
    """The same for whatever stands where capture's section should."""
    assert is_run_or_trace_error(timeline(event("mm"), placement_viz=section))
