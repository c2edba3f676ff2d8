"""Reading a trace piece by piece gives what reading it at once gives."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_viz.parser.events import ChromeTrace, Event
from placement_viz.parser.stream import EventStream, IrregularError
from tests.builders import event, timeline

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
    """Return ``data`` cut every ``size`` bytes."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def streamed(data, size):
    """Return the events of a stream, and what stands beside them."""
    stream = EventStream(in_pieces(data, size))
    return [event for batch in stream.batches() for event in batch], stream.rest


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

    events, rest = streamed(data, size)

    assert events == msgspec.json.decode(json.dumps(found), type=list[Event])
    assert rest.has_section == (layout == "with section")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"placement_viz": {}, "traceEvents": [{"ph": "X"}]}',
        b'{"traceEvents": [{"ph": "X"}',
        b'{"traceEvents": [{"ph": "X"}], "traceEvents": [{"ph": "M"}]}',
        b'{"traceEvents": [{"ph": "X"}]} and more',
        b'[{"ph": "X"}] and more',
        b'[{"ph": 1}]',
        b'[{"ph": "X", "ts": NaN}]',
    ],
)
@pytest.mark.parametrize("size", [1, 9, 1000])
def test_what_is_irregular_is_said(data, size):
    """Damage and other layouts are left to the reader of the whole text."""
    with pytest.raises(IrregularError):
        streamed(data, size)


def test_a_stream_holds_no_more_than_it_must():
    """Of a long trace only the events at hand are in memory."""
    data = timeline(*(event(f"op{i}") for i in range(500)))
    pieces = in_pieces(data, 2000)

    sizes = [len(batch) for batch in EventStream(pieces).batches()]

    # The first piece is larger: a trace begins with what tells its layout.
    assert max(sizes) < 70
    assert isinstance(EventStream(pieces).rest, ChromeTrace)
