"""What was sent, from its last byte to its verdicts."""

from __future__ import annotations

import gzip
import io
import threading
import time
import zipfile

import pytest

from placement_viz import analyze_run
from placement_viz.dashboard import readers
from placement_viz.dashboard.catalog import Limits
from placement_viz.dashboard.progress import Meter
from placement_viz.reports.sentences import headline
from tests.uploads.server import CUT_OFF, MENDED, MINE, ONE, SECONDS, Clock


def test_reading_says_how_far_it_is(server, held):
    """What the reader tells is in the state."""
    key = server.send("timeline.json", ONE)
    assert held.is_reading.acquire(timeout=SECONDS)

    state = server.state(key)

    assert (state["phase"], state["read"], state["total"]) == ("reading", 3, 10)


def test_the_rate_is_that_of_late():
    """A network that became slow is not praised for what it was."""
    clock = Clock()
    meter = Meter(10_000, clock)
    for second, done in ((1, 4000), (2, 8000), (7, 8005), (12, 8010)):
        clock.now = second
        meter.reach(done)

    assert meter.rate == 1
    assert meter.seconds_left == 1990


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("t.json.gz", gzip.compress),
        ("t.json", lambda data: data),
        ("t.zip", lambda data: zipped(a=data, b=data)),
    ],
)
def test_packed_files_are_read(server, name, pack):
    """A file is recognised by its content."""
    key = server.send(name, pack(ONE))

    label = server.until(key, "done")["label"]

    run = server.catalog.load(label, MINE).run
    assert run.source == name
    assert run.trace.ops.height == (8 if name == "t.zip" else 4)


def zipped(**members):
    """Return a zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.json", data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data", [CUT_OFF, b"", b"\x00\x01nothing known", b"PK\x03\x04"]
)
def test_a_broken_file_gives_one_line_with_its_name(server, data):
    """What cannot be read is said with the person's name of the file, not with ours."""
    key = server.send("my run.json", data)

    error = server.until(key, "failed")["error"]

    assert error.startswith("my run.json: ")
    assert "\n" not in error
    assert str(server.uploads._folder) not in error
    assert key not in error
    assert server.catalog.listing(MINE).uploads == ()
    assert server.files() == []


class Judge:
    """Judging that waits until it may go on, or fails."""

    def __init__(self, monkeypatch, error=None):
        self.may_go_on = threading.Event()
        self.error = error
        monkeypatch.setattr(readers, "judge_run", self.judge)

    def judge(self, run):
        """Judge as usual, once it may."""
        assert self.may_go_on.wait(SECONDS)
        if self.error:
            raise self.error
        return analyze_run(run)


def test_a_run_can_be_looked_at_while_it_is_judged(server, monkeypatch):
    """What ran is there at once; the verdicts take its place when they are known."""
    judge = Judge(monkeypatch)
    key = server.send("a.json", ONE)
    label = server.until(key, "judging")["label"]

    first = server.catalog.load(label, MINE)
    assert first.run.trace.ops.height == 4
    assert not first.is_judged
    assert "being found out" in headline(first)
    assert server.catalog.picture(label, MINE).ops["op_class"].unique().to_list() == [
        "forward"
    ]
    judge.may_go_on.set()
    server.until(key, "done")

    assert server.catalog.load(label, MINE).is_judged
    assert "misplaced" in server.catalog.picture(label, MINE).ops["op_class"]


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_what_cannot_be_judged_is_gone(server, monkeypatch, end):
    """Neither a cancelled nor a failed upload stays among the runs."""
    error = ZeroDivisionError() if end == "fail" else None
    judge = Judge(monkeypatch, error)
    key = server.send("a.json", ONE)
    server.until(key, "judging")
    assert server.catalog.listing(MINE).uploads == ("a.json",)

    if end == "cancel":
        server.ask("DELETE", f"_uploads/{key}")
        judge.may_go_on.set()
    else:
        judge.may_go_on.set()
        server.until(key, "failed")

    deadline = time.monotonic() + SECONDS
    while server.catalog.listing(MINE).uploads:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_fault_of_ours_ends_no_reader(server, monkeypatch, caplog):
    """An upload that breaks the reader is said, and the next one is read."""

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(readers, "load_named", broken)
    key = server.send("a.json", ONE)
    assert "a fault in placement_viz" in server.until(key, "failed")["error"]
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()

    server.until(server.send("a.json", ONE), "done")


def test_an_upload_may_not_unpack_without_end(started):
    """A small file that unpacks to more than the limit is refused."""
    server = started(limits=Limits(unpacked_bytes=1000))

    key = server.send("bomb.json.gz", gzip.compress(b" " * 100_000))

    error = server.until(key, "failed")["error"]
    assert error.startswith("bomb.json.gz: expected at most 1000 B")


def test_cancel_while_reading_ends_the_reading(server, held):
    """The file goes at once, the reader with its next piece, and no run is kept."""
    key = server.send("timeline.json", ONE)
    assert held.is_reading.acquire(timeout=SECONDS)

    server.ask("DELETE", f"_uploads/{key}")

    assert server.files() == []
    held.may_go_on.set()
    server.until(server.send("next.json", MENDED), "done")
    assert held.n_ended == 2
    assert server.catalog.listing(MINE).uploads == ("next.json",)


def test_cancel_while_judging_keeps_no_run(server, monkeypatch):
    """A run that is judged when it is cancelled is forgotten."""
    is_judging, may_go_on = threading.Event(), threading.Event()
    judge_run = readers.judge_run

    def slow(run):
        is_judging.set()
        assert may_go_on.wait(SECONDS)
        return judge_run(run)

    monkeypatch.setattr(readers, "judge_run", slow)
    key = server.send("timeline.json", ONE)
    assert is_judging.wait(SECONDS)
    assert server.state(key)["phase"] == "judging"
    assert server.files() == []

    server.ask("DELETE", f"_uploads/{key}")
    may_go_on.set()

    server.until(server.send("next.json", MENDED), "done")
    assert server.catalog.listing(MINE).uploads == ("next.json",)


def test_two_are_read_at_once_and_others_wait(server, held):
    """A third upload waits, and can be cancelled while it does."""
    first, second, third, fourth = (server.send(f"{n}.json", ONE) for n in range(4))
    for _ in range(2):
        assert held.is_reading.acquire(timeout=SECONDS)

    phases = [server.state(key)["phase"] for key in (first, second, third, fourth)]
    assert phases == ["reading", "reading", "waiting", "waiting"]
    server.ask("DELETE", f"_uploads/{third}")
    held.may_go_on.set()

    server.until(fourth, "done")
    assert "2.json" not in server.catalog.listing(MINE).uploads
    server.until_empty()


def test_a_reading_is_never_stale(server, held):
    """What is read may take as long as it takes."""
    key = server.send("timeline.json", ONE)
    assert held.is_reading.acquire(timeout=SECONDS)
    server.clock.now = 10_000.0

    server.uploads.sweep()
    held.may_go_on.set()

    server.until(key, "done")
