"""A file that is read while it comes gives what one reading of the whole gives."""

from __future__ import annotations

import gzip
import json
import subprocess
import time

import pytest

from placement_viz.parser import ahead as module
from placement_viz.parser import folding, load_named, own_process, read_ahead
from placement_viz.parser.ahead import Ahead
from tests.builders import environment, timeline
from tests.many_events import EVENTS, OTHERS, ROWS, told

SECONDS = 30
NODES = [{"name": f"node{i}", "op": "NoOp"} for i in range(900)]
SMALL = timeline(*EVENTS, *OTHERS, rows=ROWS)
GRAPH = timeline(
    *EVENTS, *OTHERS, rows=ROWS, placement_viz={"schema": 1, "nodes": NODES}
)


def large(n_times):
    """Return a timeline in which all events come again and again."""
    block = b", ".join(json.dumps(each).encode() for each in EVENTS)
    return SMALL.removesuffix(b"]}") + (b", " + block) * n_times + b"]}"


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Let small files be read ahead, on any machine."""
    monkeypatch.setattr(module, "_LEAST_BYTES", 0)
    monkeypatch.setattr(module, "n_parts_for", lambda _: 2)


@pytest.fixture
def finished(monkeypatch):
    """Return a list of the files that were read ahead to the end."""
    found = []
    finish = Ahead.finish

    def spy(self, on_read):
        folded = finish(self, on_read)
        found.append(self.path)
        return folded

    monkeypatch.setattr(Ahead, "finish", spy)
    return found


def send(path, data, cuts=(0.1, 0.5, 0.8, 1)):
    """Write a file in slices; return who reads it meanwhile."""
    begin, reader = 0, None
    path.touch()
    for cut in cuts:
        end = int(cut * len(data))
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(data[begin:end])
        reader = reader or read_ahead(path, len(data))
        reader.reach(end)
        begin = end
    return reader


def read_at_once(path):
    """Return the run in a file that is there, read by this process alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "n_parts_for", lambda _: 1)
        return load_named(path, source="run")


def until_ended(reader):
    """Wait until the process of a reader is gone."""
    end = time.monotonic() + SECONDS
    while reader._process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("data", [SMALL, GRAPH, large(3)], ids=len)
@pytest.mark.parametrize("cuts", [(1,), (0.01, 1), (0.3, 0.31, 0.9, 0.999, 1)])
def test_reading_ahead_makes_no_difference(finished, tmp_path, data, cuts):
    """However the file comes, also with a graph behind its events."""
    path = tmp_path / "timeline.json"
    reader = send(path, data, cuts)

    run = load_named(path, source="run", ahead=reader)

    assert told(run) == told(read_at_once(path))
    assert finished == [path]


@pytest.mark.parametrize("cuts", [(0.01, 1), (0.1, 0.4, 0.7, 1)])
def test_the_rest_of_a_large_file_is_shared(finished, tmp_path, cuts):
    """What is left when the last byte comes is read by two processes."""
    path = tmp_path / "timeline.json"
    reader = send(path, large(400), cuts)
    seen = []

    run = load_named(
        path, source="run", ahead=reader, on_progress=lambda done, _: seen.append(done)
    )

    assert run.trace.ops.equals(read_at_once(path).trace.ops)
    assert finished == [path]
    assert seen == sorted(seen)


@pytest.mark.parametrize("where", [0.05, 0.5, 0.95])
def test_a_damaged_file_is_read_again(finished, tmp_path, where):
    """What can be read is the same, and so is what is said of the damage."""
    data = bytearray(SMALL)
    position = data.index(b'"ts"', int(where * len(data)))
    data[position : position + 4] = b"!!!!"
    path = tmp_path / "timeline.json"
    reader = send(path, data)

    run = load_named(path, source="run", ahead=reader)

    assert told(run) == told(read_at_once(path))
    assert [notice.code for notice in run.trace.notices] == ["unreadable-events"]
    assert finished == []


def test_a_file_that_was_cut_off_is_read_again(finished, tmp_path):
    """The place of the cut is known to who reads the end."""
    path = tmp_path / "timeline.json"
    reader = send(path, SMALL[: len(SMALL) * 2 // 3])

    run = load_named(path, source="run", ahead=reader)

    assert told(run) == told(read_at_once(path))
    assert [notice.code for notice in run.trace.notices] == ["cut-off"]
    assert finished == []


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_reader_that_ends_early_makes_no_difference(finished, tmp_path, end):
    """What it has read so far is read again."""
    path = tmp_path / "timeline.json"
    path.write_bytes(SMALL)
    reader = read_ahead(path, len(SMALL))
    reader.reach(len(SMALL) // 2)
    if end == "close":
        reader.close()
    else:
        reader._process.kill()
    until_ended(reader)
    reader.reach(len(SMALL))

    run = load_named(path, source="run", ahead=reader)

    assert told(run) == told(read_at_once(path))
    assert finished == []


def test_reading_ends_when_progress_is_not_welcome(tmp_path):
    """What ``on_progress`` raises ends the reading, and the process with it."""
    path = tmp_path / "timeline.json"
    reader = send(path, large(400), (0.01, 1))

    def tell(*_):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        load_named(path, source="run", ahead=reader, on_progress=tell)

    until_ended(reader)


def test_a_process_without_a_server_ends(tmp_path):
    """Nobody waits for the fold when standard input ends."""
    path = tmp_path / "timeline.json"
    path.write_bytes(SMALL)
    process = subprocess.run(
        own_process.command(module._PROGRAM, str(path), str(len(SMALL))),
        input=(1000).to_bytes(8, "little"),
        env=environment(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )

    assert process.returncode != 0


@pytest.mark.parametrize(
    "data",
    [gzip.compress(SMALL), b"\x0a\x05", b"", b"PK\x03\x04", b"op: (Const): /cpu"],
)
def test_only_json_is_read_ahead(tmp_path, data):
    """Of any other kind the beginning shows that."""
    path = tmp_path / "upload"
    path.write_bytes(data)

    assert read_ahead(path, 1 << 30) is None


def test_what_is_read_soon_is_not_read_ahead(tmp_path, monkeypatch):
    """A small file is there before another process has started."""
    monkeypatch.undo()
    path = tmp_path / "timeline.json"
    path.write_bytes(SMALL)

    assert read_ahead(path, len(SMALL)) is None
    monkeypatch.setattr(module, "n_parts_for", lambda _: 1)
    assert read_ahead(path, 1 << 30) is None
