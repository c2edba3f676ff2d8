"""Reading a trace piece by piece gives what reading it at once gives."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz import TraceError, parse_run
from placement_viz.parser.events import ChromeTrace, Event
from placement_viz.parser.fold import Fold
from placement_viz.parser.stream import EventStream, IrregularError
from tests.builders import device, event, timeline

#: Looks like the end of an event and the beginning of the next.
TRAP = '}, {"ph": "X"'

texts = st.sampled_from(["mm", TRAP, "\\", '"', "é", "]}", ""])
arguments = st.dictionaries(texts, texts | st.lists(texts, max_size=2), max_size=3)
trace_events = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XMsO"), "name": texts, "args": arguments}
    ),
    min_size=1,
    max_size=6,
)


def in_pieces(data, size):
    """Return ``data`` cut every ``size`` bytes, and an empty piece after each."""
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return [each for piece in pieces for each in (piece, b"")]


def folded(batches):
    """Return the columns of events, and what else is known of them."""
    fold = Fold()
    for batch in batches:
        fold.add(batch)
    rows = {pid: str(pid) for pid in (None, 0, 1, 2, "1", 1.5)}
    return fold.skipped(rows), fold.labels, fold.take_ops(rows).rows(), fold.n_events


def streamed(data, size):
    """Return the columns of the events of a stream, and what stands beside them."""
    stream = EventStream(in_pieces(data, size))
    columns = folded(stream.batches())
    stream.finish()
    return columns, stream.rest


@given(
    trace_events,
    st.integers(1, 400),
    st.sampled_from([None, 4]),
    st.sampled_from(["array", "object", "with section"]),
)
def test_pieces_make_no_difference(found, size, indent, layout):
    """Whatever the cuts, the layout and the names, every event is there once."""
    content = found if layout == "array" else {"traceEvents": found}
    if layout == "with section":
        content["placement_viz"] = {"nodes": [{"name": "a"}, {"name": TRAP}]}
    data = json.dumps(content, indent=indent).encode()

    columns, rest = streamed(data, size)

    assert columns == folded([msgspec.json.decode(json.dumps(found), type=list[Event])])
    assert rest.has_section == (layout == "with section")


HEADS = [
    b'{"displayTimeUnit": "ns", ',
    b'{"schemaVersion": 1, "deviceProperties": [{"id": 0}], ',
    b'{"says": "\\"traceEvents\\": [", "deviceProperties": [], ',
]


@pytest.mark.parametrize("tail", [b"", b', "placement_viz": {}'])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("size", [1, 9, 1000])
def test_what_stands_before_the_events_is_read(head, tail, size):
    """Profilers say first what they ran on; that is known even of a cut file."""
    data = head + b'"traceEvents": [{"ph": "X", "name": "a"}'
    whole, cut = (
        EventStream(in_pieces(data + end, size)) for end in (b"]" + tail + b"}", b"")
    )

    for stream in (whole, cut):
        assert sum(map(len, stream.batches())) == 1
        stream.finish()

    assert whole.rest.is_kineto == cut.rest.is_kineto == (b"deviceP" in head)
    assert whole.rest.has_section == bool(tail)
    assert [notice.code for notice in cut.notices] == ["cut-off"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"inside": {"traceEvents": [{"ph": "X"}]}}',
        b'{"traceEvents": [{"ph": "X"}], "traceEvents": [{"ph": "M"}]}',
        b'{"traceEvents": [{"ph": "X"}]} and more',
        b'[{"ph": "X"}] and more',
        b'[{"ph": 1}]',
    ],
)
@pytest.mark.parametrize("size", [1, 9, 1000])
def test_what_is_irregular_is_said(data, size):
    """Damage and other layouts are left to the reader of the whole text."""
    with pytest.raises(IrregularError):
        streamed(data, size)


ROW = {
    "ph": "M",
    "name": "process_name",
    "pid": 1,
    "args": {"name": f"{device('CPU:0')} Compute"},
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("head", "tail"), [("[", "]"), ('{"traceEvents": [', "]}")])
def test_a_cut_off_timeline_is_read_up_to_the_cut(head, tail, indent):
    """Wherever it is cut, what is whole is there, and the damage is named."""
    found = [ROW, *(event(f"op{i}", inputs=["a}", '"', TRAP]) for i in range(3))]
    text, ends = head, []
    for each in found:
        text += json.dumps(each, indent=indent)
        ends.append(len(text))
        text += ", "
    text = text.removesuffix(", ") + tail
    for cut in range(len(text) + 1):
        whole = [f"op{i}" for i, end in enumerate(ends[1:]) if end <= cut]
        if not whole:
            with pytest.raises(TraceError):
                parse_run(text[:cut].encode(), source="x")
            continue
        trace = parse_run(text[:cut].encode(), source="x").trace
        assert trace.ops["name"].to_list() == whole
        # An array of events may lack its end, says the format.
        is_between = any(end <= cut <= end + 2 for end in ends)
        is_complete = cut == len(text) or (head == "[" and is_between)
        assert [notice.code for notice in trace.notices] == ["cut-off"] * (
            not is_complete
        )


@pytest.mark.parametrize(
    ("damage", "n_ops"),
    [
        ('"ts": NaN', 2),
        ('"ts": -Infinity', 2),
        ('"ts": 1, "name": "a\tb"', 3),
        ('"ts": 1, "ph": 7', 2),
        ('"ts": 1, "cat": "Op', 2),
        ('"ts": {}', 2),
        ('"ts": 1 nonsense', 2),
    ],
)
def test_a_damaged_event_costs_itself_alone(damage, n_ops):
    """One event that cannot be read leaves the others, and is counted."""
    lines = [json.dumps(each) for each in (ROW, *(event(f"op{i}") for i in range(3)))]
    lines[2] = lines[2].replace('"ts": 100', damage)
    text = '{"traceEvents": [\n' + ",\n".join(lines) + "\n]}"

    trace = parse_run(text.encode(), source="x").trace

    assert trace.ops.height == n_ops
    is_noticed = [notice.code for notice in trace.notices] == ["unreadable-events"]
    is_counted = trace.skipped.get("op without a usable time") == 1
    assert is_noticed + is_counted == 3 - n_ops


@pytest.mark.parametrize("n_nodes", [0, 2000])
def test_damage_is_named_whatever_follows(n_nodes):
    """A graph that fills many pieces does not make the reader forget the damage."""
    nodes = [{"name": f"node{i}"} for i in range(n_nodes)]
    found = (event("good"), event("bad", dur={}), event("better"))
    data = timeline(*found, placement_viz={"nodes": nodes})
    stream = EventStream(in_pieces(data, 5000))

    names = folded(stream.batches())[2]
    stream.finish()

    assert [name for name, *_ in names] == ["good", "better"]
    assert [notice.code for notice in stream.notices] == ["unreadable-events"]
    assert stream.rest.has_section


def test_a_stream_holds_no_more_than_it_must():
    """Of a long trace only the events at hand are in memory."""
    data = timeline(*(event(f"op{i}") for i in range(500)))
    pieces = in_pieces(data, 2000)

    sizes = [len(batch) for batch in EventStream(pieces).batches()]

    # The first piece is larger: a trace begins with what tells its layout.
    assert max(sizes) < 70
    assert isinstance(EventStream(pieces).rest, ChromeTrace)
