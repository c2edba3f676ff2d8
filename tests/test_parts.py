"""Reading a file by several processes gives what one of them reads."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import load_run
from placement_viz.parser import folding, load_named, parts
from placement_viz.parser.stream import IrregularError
from tests.builders import event, timeline
from tests.many_events import EVENTS, OTHERS, ROWS, told


def in_parts(path, n_parts):
    """Return the run in a file that ``n_parts`` processes read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "n_parts_for", lambda _: n_parts)
        return load_run(path)


@pytest.fixture
def asked(monkeypatch):
    """Return a list that shows which files were read in parts to the end."""
    read = []
    fold_in_parts = folding.fold_in_parts

    def spy(path, n_parts, on_read):
        folded = fold_in_parts(path, n_parts, on_read)
        read.append(path)
        return folded

    monkeypatch.setattr(folding, "fold_in_parts", spy)
    return read


@pytest.mark.parametrize("n_parts", [2, 3, 7])
@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("n_nodes", [0, 900])
def test_parts_make_no_difference(asked, tmp_path, n_parts, indent, n_nodes):
    """Wherever the parts begin, also in the graph behind the events."""
    nodes = [{"name": f"node{i}", "op": "NoOp"} for i in range(n_nodes)]
    keys = {"placement_viz": {"schema": 1, "nodes": nodes}} if nodes else {}
    data = json.loads(timeline(*EVENTS, *OTHERS, rows=ROWS, **keys))
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(data, indent=indent))

    assert told(in_parts(path, n_parts)) == told(in_parts(path, 1))
    assert asked == [path]


def test_a_row_may_be_named_in_another_part(asked, tmp_path):
    """The label of a row may come before its events or long after."""
    *events, label = json.loads(timeline(*EVENTS))["traceEvents"][::-1]
    for name, found in (("last", [*events, label]), ("first", [label, *events])):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"traceEvents": found}))

        assert told(in_parts(path, 3)) == told(in_parts(path, 1))
    assert len(asked) == 2


def test_ops_that_start_together_stay_in_the_order_of_the_file(asked, tmp_path):
    """Whichever process has read them."""
    names = [f"op{i}" for i in range(300)]
    path = tmp_path / "timeline.json"
    path.write_bytes(timeline(*(event(name, ts=7) for name in names)))

    assert in_parts(path, 3).trace.ops["name"].to_list() == names
    assert asked == [path]


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_damaged_part_is_read_by_one_process(asked, tmp_path, where):
    """What can be read is the same, and so is what is said of the damage."""
    data = bytearray(timeline(*EVENTS, rows=ROWS))
    position = data.index(b'"ts"', int(where * len(data)))
    data[position : position + 4] = b"!!!!"
    path = tmp_path / "timeline.json"
    path.write_bytes(data)

    run = in_parts(path, 3)

    assert told(run) == told(in_parts(path, 1))
    assert [notice.code for notice in run.trace.notices] == ["unreadable-events"]
    assert asked == []


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.95])
def test_a_file_that_was_cut_off_is_read_by_one_process(tmp_path, cut):
    """The place of the cut is known to who reads the end."""
    data = timeline(*EVENTS, rows=ROWS)
    path = tmp_path / "timeline.json"
    path.write_bytes(data[: int(cut * len(data))])

    run = in_parts(path, 3)

    assert told(run) == told(in_parts(path, 1))
    assert [notice.code for notice in run.trace.notices] == ["cut-off"]


def test_progress_reaches_the_whole_file(tmp_path):
    """One process tells how far all of them are."""
    path = tmp_path / "timeline.json"
    path.write_bytes(timeline(*EVENTS * 20, rows=ROWS))
    seen = []

    parts.fold_in_parts(path, 2, seen.append)

    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size


@settings(max_examples=40)
@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_parts_begin_and_end_between_events(tmp_path_factory, n_parts, chance):
    """All parts together are the events, without the commas between them."""
    path = tmp_path_factory.mktemp("parts") / "timeline.json"
    found = [
        event("a" * chance.randrange(40), dur=chance.randrange(10**6))
        for _ in range(chance.randrange(12, 60))
    ]
    data = timeline(*found)
    path.write_bytes(data)
    try:
        ranges = parts._ranges(path, len(data), n_parts)
    except IrregularError:
        return

    texts = [data[start:stop] for start, stop in ranges]

    assert json.loads(b",".join(texts)) == json.loads(data)
    assert len(texts) == n_parts


@pytest.mark.parametrize("n_cores", [1, 2, 64])
def test_there_are_as_many_parts_as_are_worth_a_process(monkeypatch, n_cores):
    """A small file is read before another process has started."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(n_cores))

    assert parts.n_parts_for(1 << 20) == 1
    assert parts.n_parts_for(1 << 40) == min(n_cores, 4)


def test_a_file_may_have_another_name(tmp_path, asked, monkeypatch):
    """A run is called what a person calls it, and is still read in parts."""
    path = tmp_path / "timeline.json"
    path.write_bytes(timeline(*EVENTS, rows=ROWS))
    monkeypatch.setattr(folding, "n_parts_for", lambda _: 3)

    run = load_named(path, source="<my> run.json")

    assert run.source == "<my> run.json"
    assert asked == [path]


def test_reading_ends_when_progress_is_not_welcome(tmp_path, monkeypatch):
    """What ``on_progress`` raises ends the reading, and the processes with it."""
    path = tmp_path / "timeline.json"
    path.write_bytes(timeline(*EVENTS, rows=ROWS))
    monkeypatch.setattr(folding, "n_parts_for", lambda _: 3)
    started = []
    popen = parts.subprocess.Popen

    def spy(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(parts.subprocess, "Popen", spy)

    def tell(*_):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        load_run(path, on_progress=tell)

    assert len(started) == 2
    assert all(process.poll() is not None for process in started)
