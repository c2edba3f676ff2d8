"""Files in slices: what the server takes from whom, and that it keeps none of it."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zipfile

import flask
import pytest

from placement_viz import analyze_run, load_run
from placement_viz.dashboard import create_app, readers, upload_routes
from placement_viz.dashboard.catalog import Catalog, Limits
from placement_viz.dashboard.progress import Meter
from placement_viz.dashboard.sessions import COOKIE, protect_server
from placement_viz.dashboard.upload import SLICE_BYTES
from placement_viz.dashboard.uploads import Uploads
from placement_viz.parser import load_named
from placement_viz.reports.sentences import headline
from tests.builders import ROOT, TRACES

ONE = (TRACES / "one_misplaced_gradient.json").read_bytes()
MENDED = (TRACES / "same_step_colocated.json").read_bytes()
CUT_OFF = (TRACES / "cut_off.json").read_bytes()

MINE, THEIRS = "m" * 43, "t" * 43
HERE = {"Sec-Fetch-Site": "same-origin"}
SECONDS = 20


class Clock:
    """A clock that stands still until somebody moves it."""

    now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now


class Server:
    """A server of uploads alone, and the browsers that use it."""

    def __init__(self, limits=None, prefix="/"):
        self.catalog = Catalog(limits=limits)
        self.clock = Clock()
        self.uploads = Uploads(self.catalog, self.clock)
        self.prefix = prefix
        self.flask = flask.Flask("test")
        upload_routes.add_upload_routes(
            self.flask, self.uploads, self.catalog, self.prefix
        )
        protect_server(self.flask, ())

    def ask(self, method, path, session=MINE, headers=HERE, **content):
        """Return the answer to one request of a browser."""
        client = self.flask.test_client()
        if session:
            client.set_cookie(COOKIE, session)
        path = self.prefix + path
        return client.open(path, method=method, headers=headers, **content)

    def begin(self, name, size, **asker):
        """Return the answer to a new upload."""
        content = {"name": name, "size": size}
        return self.ask("POST", "_uploads", json=content, **asker)

    def put(self, key, offset, data, **asker):
        """Return the answer to a slice."""
        path = f"_uploads/{key}?offset={offset}"
        kind = "application/octet-stream"
        return self.ask("PUT", path, data=data, content_type=kind, **asker)

    def state(self, key, **asker):
        """Return the state of an upload."""
        answer = self.ask("GET", f"_uploads/{key}", **asker)
        assert answer.status_code == 200
        return answer.json

    def send(self, name, data, n_slices=1, **asker):
        """Send a file and return its key."""
        key = self.begin(name, len(data), **asker).json["id"]
        step = -(-len(data) // n_slices) or 1
        for offset in range(0, len(data), step):
            piece = data[offset : offset + step]
            assert self.put(key, offset, piece, **asker).status_code == 200
        return key

    def until(self, key, phase, **asker):
        """Wait for a phase and return the state."""
        end = time.monotonic() + SECONDS
        while (state := self.state(key, **asker))["phase"] != phase:
            assert state["phase"] not in {"done", "failed"}, state
            assert time.monotonic() < end, state
            time.sleep(0.01)
        return state

    def files(self):
        """Return the files that lie on the disk."""
        folder = self.uploads._folder
        return sorted(folder.iterdir()) if folder and folder.exists() else []

    def until_empty(self):
        """Wait until no file lies on the disk."""
        end = time.monotonic() + SECONDS
        while self.files():
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def started():
    """Return a function that starts a server, and end what it started."""
    servers = []

    def start(**options):
        servers.append(Server(**options))
        return servers[-1]

    yield start
    for server in servers:
        server.uploads.close()
        assert server.files() == []


@pytest.fixture
def server(started):
    """Return a server with the usual limits."""
    return started()


class Held:
    """A reading that waits in its middle, until it is told to go on."""

    def __init__(self, monkeypatch):
        self.is_reading = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.n_ended = 0
        monkeypatch.setattr(readers, "load_named", self.load_named)

    def load_named(self, path, *, on_progress, **options):
        """Read as usual, once it may."""
        on_progress(3, 10)
        self.is_reading.release()
        assert self.may_go_on.wait(SECONDS)
        try:
            on_progress(4, 10)
        finally:
            self.n_ended += 1
        return load_named(path, on_progress=on_progress, **options)


@pytest.fixture
def held(monkeypatch):
    """Make readings wait in their middle."""
    held = Held(monkeypatch)
    yield held
    held.may_go_on.set()


def test_a_file_in_slices_becomes_a_run(server):
    """The last slice makes a run of the file, and the file goes."""
    key = server.send("timeline.json", ONE, n_slices=3)

    state = server.until(key, "done")

    assert state["label"] == "timeline.json"
    analysis = server.catalog.load("timeline.json", MINE)
    assert analysis.run.source == "timeline.json"
    assert analysis.run.trace.ops.height == 4
    assert server.files() == []


def test_the_state_says_how_far_it_is(server):
    """Bytes, rate and time left follow from what came when."""
    key = server.begin("timeline.json", 4000).json["id"]
    server.clock.now = 1.0
    server.put(key, 0, b"x" * 1000)

    state = server.state(key)

    assert (state["phase"], state["sent"], state["size"]) == ("sending", 1000, 4000)
    assert (state["rate"], state["seconds_left"]) == (1000, 3)


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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ("two\nlines\x00\u202e.json", "two lines .json"),
        ("", "upload"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_a_name_is_only_text(server, name, shown):
    """No file is ever called what the browser says."""
    key = server.begin(name, len(ONE)).json["id"]
    assert [path.name for path in server.files()] == [key]
    assert server.files()[0].stat().st_mode & 0o077 == 0
    assert server.uploads._folder.stat().st_mode & 0o077 == 0
    server.put(key, 0, ONE)

    state = server.until(key, "done")

    assert (state["name"], state["label"]) == (shown, shown)
    assert server.catalog.load(shown, MINE).run.source == shown


def test_a_slice_at_the_wrong_place_is_refused(server):
    """The server says where to go on, and takes the right slice after that."""
    key = server.begin("timeline.json", len(ONE)).json["id"]
    assert server.put(key, 0, ONE[:100]).json["sent"] == 100

    for offset in (0, 99, 101, -1, "x"):
        answer = server.put(key, offset, ONE[100:])
        assert answer.status_code == 409
        assert "from byte 100" in answer.json["error"]

    assert server.state(key)["sent"] == 100
    assert server.put(key, 100, ONE[100:]).status_code == 200
    server.until(key, "done")


def test_more_than_declared_is_refused(server):
    """A file may not grow beyond the size it was announced with."""
    key = server.begin("timeline.json", 100).json["id"]

    answer = server.put(key, 0, ONE[:101])

    assert answer.status_code == 400
    assert "100 bytes, as was declared" in answer.json["error"]
    assert server.state(key)["sent"] == 0


def test_a_slice_is_bounded(server):
    """Neither nothing nor too much is a slice."""
    key = server.begin("timeline.json", 2 * SLICE_BYTES).json["id"]

    assert server.put(key, 0, b"").status_code == 411
    assert server.put(key, 0, bytes(SLICE_BYTES + 1)).status_code == 413
    assert server.put(key, 0, bytes(SLICE_BYTES)).status_code == 200


def test_a_slice_that_breaks_off_does_not_count(server):
    """Only whole slices count, so that the next one begins where it should."""
    upload = server.uploads.create("t.json", len(ONE), MINE)

    with pytest.raises(Exception, match="expected 100 bytes in this slice, found 40"):
        server.uploads.write(upload, 0, 100, [ONE[:40]])

    assert upload.sent == 0
    server.uploads.write(upload, 0, len(ONE), [ONE])
    server.until(upload.key, "done")


def test_nothing_follows_the_last_slice(server):
    """A file that is complete takes no more."""
    key = server.send("timeline.json", ONE)
    server.until(key, "done")

    assert server.put(key, len(ONE), b"more").status_code == 409


def test_large_files_are_refused_before_they_are_sent(started):
    """The declared size decides."""
    server = started(limits=Limits(file_bytes=2**20))

    answer = server.begin("big.json", 2**20 + 1)

    assert answer.status_code == 413
    assert answer.json["error"].startswith("big.json: expected at most 1.0 MiB")
    assert server.files() == []


def test_an_upload_may_not_unpack_without_end(started):
    """A small file that unpacks to more than the limit is refused."""
    server = started(limits=Limits(unpacked_bytes=1000))

    key = server.send("bomb.json.gz", gzip.compress(b" " * 100_000))

    error = server.until(key, "failed")["error"]
    assert error.startswith("bomb.json.gz: expected at most 1000 B")


def test_a_session_has_few_uploads_at_a_time(started, held):
    """What is not open yet is counted, for each session apart."""
    server = started(limits=Limits(pending=2))
    server.begin("a.json", 10)
    key = server.send("b.json", ONE)

    answer = server.begin("c.json", 10)

    assert answer.status_code == 429
    assert "at most 2 uploads at a time" in answer.json["error"]
    assert server.begin("c.json", 10, session=THEIRS).status_code == 201
    held.may_go_on.set()
    server.until(key, "done")
    assert server.begin("c.json", 10).status_code == 201


def test_the_disk_is_shared(started):
    """All files together have a limit, and what is over makes room."""
    server = started(limits=Limits(disk_bytes=1000))
    key = server.begin("a.json", 600).json["id"]

    answer = server.begin("b.json", 600, session=THEIRS)

    assert answer.status_code == 507
    assert "try again later" in answer.json["error"]
    server.ask("DELETE", f"_uploads/{key}")
    assert server.begin("b.json", 600, session=THEIRS).status_code == 201


def test_what_is_over_is_not_remembered_for_ever(started):
    """The oldest end makes room for a new upload; one on its way does not."""
    server = started(limits=Limits(uploads=2))
    first = server.send("a.json", ONE)
    server.until(first, "done")
    server.begin("b.json", 10)

    assert server.begin("c.json", 10).status_code == 201
    assert server.ask("GET", f"_uploads/{first}").status_code == 404
    assert server.begin("d.json", 10).status_code == 429
    assert server.catalog.listing(MINE).uploads == ("a.json",)


def test_sessions_do_not_see_each_others_uploads(server):
    """An upload of another session is as unknown as one that never was."""
    key = server.begin("timeline.json", len(ONE)).json["id"]

    answers = [
        server.ask("GET", f"_uploads/{key}", session=THEIRS),
        server.put(key, 0, ONE, session=THEIRS),
        server.ask("DELETE", f"_uploads/{key}", session=THEIRS),
        server.ask("GET", "_uploads/" + "x" * 43),
    ]

    assert [answer.status_code for answer in answers] == [404] * 4
    assert len({answer.data for answer in answers}) == 1
    assert server.state(key)["sent"] == 0


def test_two_sessions_send_at_once(server):
    """Slices of two files may come in any order."""
    mine = server.begin("t.json", len(ONE)).json["id"]
    theirs = server.begin("t.json", len(MENDED), session=THEIRS).json["id"]
    server.put(mine, 0, ONE[:100])
    server.put(theirs, 0, MENDED[:200], session=THEIRS)
    server.put(mine, 100, ONE[100:])
    server.put(theirs, 200, MENDED[200:], session=THEIRS)

    labels = [
        server.until(mine, "done")["label"],
        server.until(theirs, "done", session=THEIRS)["label"],
    ]

    assert labels == ["t.json", "t.json"]
    first, second = (server.catalog.load("t.json", s) for s in (MINE, THEIRS))
    assert first.run.trace.ops.rows() != second.run.trace.ops.rows()


def test_a_browser_that_is_not_known_is_refused(server):
    """Without a cookie a run would belong to nobody."""
    answer = server.begin("timeline.json", 10, session=None)

    assert answer.status_code == 403
    assert "cookie" in answer.json["error"]


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "http://localhost:8050"}, False),
        ({"Origin": "https://elsewhere.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://[broken"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, False),
        ({}, False),
    ],
)
def test_other_pages_may_not_send(server, headers, is_taken):
    """Only our own page may begin an upload."""
    answer = server.begin("timeline.json", 10, headers=headers)

    assert answer.status_code == (201 if is_taken else 403)
    assert bool(server.files()) == is_taken


def test_forms_of_other_pages_are_not_understood(server):
    """Only the types that no form can send are taken."""
    key = server.begin("timeline.json", 10).json["id"]

    text = server.ask("POST", "_uploads", data='{"name": "a", "size": 1}')
    form = server.ask("PUT", f"_uploads/{key}?offset=0", data={"a": "b"})

    assert (text.status_code, form.status_code) == (415, 415)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"name": "a"}',
        '{"name": "a", "size": -1}',
        '{"name": "a", "size": 1.5}',
        '{"name": "a", "size": true}',
        '{"name": ["a"], "size": 1}',
        '{"name": "a", "size": 1e300}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_odd_requests_are_refused(server, body):
    """What is no name with a size begins nothing."""
    kind = "application/json"
    answer = server.ask("POST", "_uploads", data=body, content_type=kind)

    assert answer.status_code == 400
    assert "name and the size" in answer.json["error"]


def test_cancel_while_sending_frees_at_once(server):
    """A cancelled upload is gone, with its file."""
    key = server.begin("timeline.json", len(ONE)).json["id"]
    server.put(key, 0, ONE[:100])

    assert server.ask("DELETE", f"_uploads/{key}").status_code == 204

    assert server.files() == []
    assert server.put(key, 100, ONE[100:]).status_code == 404


def test_cancel_in_the_middle_of_a_slice(server):
    """A slice that is being written when it is cancelled leaves nothing."""
    upload = server.uploads.create("t.json", len(ONE), MINE)

    def pieces():
        yield ONE[:100]
        server.uploads.cancel(upload)
        yield ONE[100:]

    with pytest.raises(Exception, match="was cancelled"):
        server.uploads.write(upload, 0, len(ONE), pieces())

    assert server.files() == []
    assert server.catalog.listing(MINE).uploads == ()


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


def test_stale_uploads_are_removed(started):
    """An upload of which no slice comes for long is forgotten, others are not."""
    server = started(limits=Limits(stale_s=600))
    idle, alive = (server.begin(name, 1000).json["id"] for name in "ab")
    done = server.send("c.json", ONE)
    server.until(done, "done")
    server.clock.now = 599.0
    server.put(alive, 0, b"x")
    server.uploads.sweep()
    assert len(server.files()) == 2

    server.clock.now = 601.0
    server.uploads.sweep()

    assert [path.name for path in server.files()] == [alive]
    assert server.ask("GET", f"_uploads/{idle}").status_code == 404
    assert server.ask("GET", f"_uploads/{done}").status_code == 404
    assert server.catalog.listing(MINE).uploads == ("c.json",)


def test_a_reading_is_never_stale(server, held):
    """What is read may take as long as it takes."""
    key = server.send("timeline.json", ONE)
    assert held.is_reading.acquire(timeout=SECONDS)
    server.clock.now = 10_000.0

    server.uploads.sweep()
    held.may_go_on.set()

    server.until(key, "done")


def test_a_full_disk_is_said(server, monkeypatch):
    """The person learns that it is not the file."""
    key = server.begin("timeline.json", len(ONE)).json["id"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("placement_viz.dashboard.uploads._write", full)
    answer = server.put(key, 0, ONE)

    assert answer.status_code == 507
    assert "no space left on device" in answer.json["error"]


def test_closing_leaves_nothing(server, held):
    """When the server ends, its folder goes with all that is in it."""
    server.begin("a.json", 1000)
    server.send("b.json", ONE)
    assert held.is_reading.acquire(timeout=SECONDS)
    folder = server.uploads._folder

    server.uploads.close()

    assert not folder.exists()


def test_a_server_that_is_stopped_leaves_nothing(tmp_path):
    """What was half sent goes with the server, also when it is asked to stop."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "placement_viz", "serve", "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {"Cookie": f"{COOKIE}={MINE}", "Content-Type": "application/json"}
        body = json.dumps({"name": "a.json", "size": 10})
        connection.request("POST", "/_uploads", body, headers | HERE)
        assert connection.getresponse().status == 201
        connection.close()
        assert len(list(tmp_path.iterdir())) == 1

        process.terminate()

        assert process.wait(SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_app_works_below_a_prefix(started):
    """The addresses begin where the app does."""
    server = started(prefix="/tools/viz/")

    key = server.send("timeline.json", ONE)

    assert server.until(key, "done")["label"] == "timeline.json"


def test_the_app_has_the_routes_and_a_small_limit():
    """The page's server takes slices, and nothing larger from anybody."""
    server = create_app().server
    client = server.test_client()
    client.set_cookie(COOKIE, MINE)

    answer = client.post("/_uploads", json={"name": "a", "size": 0}, headers=HERE)

    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert server.config["MAX_CONTENT_LENGTH"] == SLICE_BYTES


def test_files_of_the_server_say_how_far_they_are_read(monkeypatch):
    """A session is told of what it opened itself, as long as it is read."""
    import placement_viz.dashboard.server_files as module

    seen = []
    catalog = Catalog(samples=[TRACES / "one_misplaced_gradient.json"])

    def slow(path, *, on_progress, **_):
        on_progress(3, 10)
        (mine,) = catalog.readings(MINE)
        seen.append((mine.label, mine.meter.done, mine.meter.total, mine.is_judging))
        seen.append(catalog.readings(THEIRS))
        return load_run(path)

    monkeypatch.setattr(module, "load_run", slow)
    catalog.load("one_misplaced_gradient", MINE)

    assert seen == [("one_misplaced_gradient", 3, 10, False), ()]
    assert catalog.readings(MINE) == ()


def test_a_file_is_read_once_for_all_who_wait(monkeypatch):
    """Two who open the same run at once share one reading."""
    import placement_viz.dashboard.server_files as module

    n_read, may_go_on = [], threading.Event()
    catalog = Catalog(samples=[TRACES / "one_misplaced_gradient.json"])

    def slow(path, *, on_progress, **_):
        n_read.append(path)
        assert may_go_on.wait(SECONDS)
        return load_run(path, on_progress=on_progress)

    monkeypatch.setattr(module, "load_run", slow)
    opened = []
    threads = [
        threading.Thread(
            target=lambda s=session: opened.append(
                catalog.load("one_misplaced_gradient", s)
            )
        )
        for session in (MINE, THEIRS)
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + SECONDS
    while not (catalog.readings(MINE) and catalog.readings(THEIRS)):
        assert time.monotonic() < end
    may_go_on.set()
    for thread in threads:
        thread.join()

    assert len(n_read) == 1
    assert opened[0] is opened[1]


def test_a_large_file_of_the_server_is_shown_before_it_is_judged(monkeypatch):
    """Who opens it looks at what ran, and is told when the verdicts are there."""
    import placement_viz.dashboard.server_files as module

    may_go_on = threading.Event()
    catalog = Catalog(samples=[TRACES / "one_misplaced_gradient.json"])

    def slow(run):
        assert may_go_on.wait(SECONDS)
        return analyze_run(run)

    monkeypatch.setattr(module, "LARGE_OPS", 1)
    monkeypatch.setattr(module, "judge_run", slow)
    (label,) = catalog.listing(MINE).samples

    assert not catalog.load(label, MINE).is_judged
    assert not catalog.load(label, THEIRS).is_judged
    for session in (MINE, THEIRS):
        (reading,) = catalog.readings(session)
        assert reading.is_shown
    may_go_on.set()

    assert catalog.load_judged(label, MINE).is_judged
    assert catalog.readings(MINE) == catalog.readings(THEIRS) == ()


def test_a_large_file_that_cannot_be_judged_is_read_again(monkeypatch, caplog):
    """A fault of ours is in the log, and the next who opens the file tries again."""
    import placement_viz.dashboard.server_files as module

    def broken(_):
        raise ZeroDivisionError

    catalog = Catalog(samples=[TRACES / "one_misplaced_gradient.json"])
    (label,) = catalog.listing(MINE).samples
    monkeypatch.setattr(module, "LARGE_OPS", 1)
    monkeypatch.setattr(module, "judge_run", broken)
    catalog.load(label, MINE)
    end = time.monotonic() + SECONDS
    while catalog.readings(MINE):
        assert time.monotonic() < end
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()

    assert catalog.load(label, MINE).is_judged
