"""Large files are read while they are sent, and nobody notices but by the time."""

from __future__ import annotations

import time

import pytest

from placement_viz.dashboard.catalog import Limits
from placement_viz.dashboard.progress import Meter
from placement_viz.parser import ahead
from tests.uploads.server import MENDED, MINE, ONE, SECONDS, Clock


@pytest.fixture(autouse=True)
def started_readers(monkeypatch):
    """Read small files ahead, too; return who was started for that."""
    found = []
    start = ahead.Ahead.__init__

    def spy(self, *arguments):
        start(self, *arguments)
        found.append(self)

    monkeypatch.setattr(ahead, "_LEAST_BYTES", 0)
    monkeypatch.setattr(ahead, "n_parts_for", lambda _: 2)
    monkeypatch.setattr(ahead.Ahead, "__init__", spy)
    return found


def until_ended(reader):
    """Wait until the process of a reader is gone."""
    end = time.monotonic() + SECONDS
    while reader._process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)


def half(server, name, data):
    """Send one half of a file, in a second, and return its key."""
    key = server.begin(name, len(data)).json["id"]
    server.clock.now += 1
    assert server.put(key, 0, data[: len(data) // 2]).status_code == 200
    return key


def whole(server, name, data):
    """Send a file in two seconds and return its key."""
    key = half(server, name, data)
    server.clock.now += 1
    assert server.put(key, len(data) // 2, data[len(data) // 2 :]).status_code == 200
    return key


def test_a_file_that_is_read_ahead_becomes_the_same_run(server, started_readers):
    """The run is that of a file which is read when it is there."""
    first = server.until(whole(server, "ahead.json", ONE), "done")["label"]
    (reader,) = started_readers
    until_ended(reader)
    assert reader._is_whole
    second = server.until(server.send("after.json", ONE), "done")["label"]
    assert started_readers == [reader]

    runs = [server.catalog.load(label, MINE).run for label in (first, second)]

    assert runs[0].trace.ops.rows() == runs[1].trace.ops.rows()
    assert runs[0].trace.skipped == runs[1].trace.skipped
    assert server.files() == []


@pytest.mark.parametrize("end", ["cancel", "stale", "close"])
def test_what_nobody_sends_on_is_not_read_on(started, started_readers, end):
    """The process ends with the upload, however that ends."""
    server = started(limits=Limits(stale_s=600))
    key = half(server, "a.json", ONE)
    (reader,) = started_readers
    assert reader._process.poll() is None

    if end == "cancel":
        server.ask("DELETE", f"_uploads/{key}")
    elif end == "stale":
        server.clock.now += 601
        server.uploads.sweep()
    else:
        server.uploads.close()

    until_ended(reader)
    assert server.files() == []


def test_what_is_soon_here_is_not_read_ahead(server, started_readers):
    """In the time that a process takes to start, the file is here."""
    key = server.begin("a.json", len(ONE)).json["id"]
    server.clock.now += 0.5
    server.put(key, 0, ONE[: len(ONE) // 2])
    server.put(key, len(ONE) // 2, ONE[len(ONE) // 2 :])

    server.until(key, "done")
    assert started_readers == []


def test_two_are_read_at_once_however_they_are_sent(server, started_readers, held):
    """A file that is read ahead takes the place of one that is read."""
    whole(server, "a.json", ONE)
    assert held.is_reading.acquire(timeout=SECONDS)
    half(server, "b.json", ONE)
    half(server, "c.json", ONE)

    assert len(started_readers) == 2


def test_what_is_there_goes_before_what_is_on_its_way(server, started_readers):
    """Of two that are read ahead, the one that is further from its end makes room."""
    far, near = half(server, "a.json", ONE), half(server, "b.json", ONE)
    assert len(started_readers) == 2
    server.put(near, len(ONE) // 2, ONE[len(ONE) // 2 : -10])

    server.until(server.send("c.json", MENDED), "done")

    until_ended(started_readers[0])
    server.put(near, len(ONE) - 10, ONE[-10:])
    server.put(far, len(ONE) // 2, ONE[len(ONE) // 2 :])
    for key in (near, far):
        server.until(key, "done")
    assert len(started_readers) == 2
    assert started_readers[1]._is_whole


def test_what_was_read_before_is_no_speed():
    """A reading that begins in the middle of a file is as fast as it is from there."""
    clock = Clock()
    meter = Meter(100, clock, done=60)
    clock.now = 1.0
    meter.reach(80)

    assert meter.rate == 20
    assert meter.seconds_left == 1
