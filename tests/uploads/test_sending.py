"""Files in slices: they become runs, and the server keeps none of them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys

import pytest

from placement_viz.dashboard import create_app
from placement_viz.dashboard.catalog import Limits
from placement_viz.dashboard.sessions import COOKIE
from placement_viz.dashboard.upload import SLICE_BYTES
from tests.builders import ROOT
from tests.uploads.server import HERE, MINE, ONE, SECONDS


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

    for offset in (0, 99, 101 + SLICE_BYTES, -1, "x"):
        answer = server.put(key, offset, ONE[100:])
        assert answer.status_code == 409
        assert "from byte 100" in answer.json["error"]

    assert server.state(key)["sent"] == 100
    assert server.put(key, 100, ONE[100:]).status_code == 200
    server.until(key, "done")


def test_a_slice_that_breaks_off_does_not_count(server):
    """Only whole slices count, so that the next one begins where it should."""
    upload = server.uploads.create("t.json", len(ONE), MINE)

    with pytest.raises(Exception, match="expected 100 bytes in this slice, found 40"):
        server.uploads.write(upload, 0, 100, [ONE[:40]])

    assert upload.sent == 0
    server.uploads.write(upload, 0, len(ONE), [ONE])
    server.until(upload.key, "done")


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (1, 0, 1, 2), (2, 1, 0)])
def test_slices_may_overtake_one_another(server, order):
    """Two are sent at a time; only what is here without a gap is called sent."""
    key = server.begin("timeline.json", len(ONE)).json["id"]
    step = -(-len(ONE) // 3)
    here = set()
    for number in order:
        begin = number * step
        answer = server.put(key, begin, ONE[begin : begin + step])
        here |= {number} if answer.status_code == 200 else set()
        n_first = next(n for n in range(4) if n not in here)

        assert server.state(key)["sent"] == min(n_first * step, len(ONE))

    server.until(key, "done")
    assert server.catalog.load("timeline.json", MINE).run.trace.ops.height == 4


def test_few_slices_may_overtake_one_another(server):
    """What is remembered of slices that came too early is bounded."""
    key = server.begin("timeline.json", len(ONE)).json["id"]

    answers = [server.put(key, offset, b"x").status_code for offset in range(1, 8)]

    assert answers == [200] * 4 + [409] * 3
    assert server.put(key, 0, ONE).status_code == 200
    server.until(key, "done")


def test_a_slice_is_not_written_twice_at_once(server):
    """Who sends a slice again, while it is still being written, is told so."""
    upload = server.uploads.create("t.json", len(ONE), MINE)

    def pieces():
        assert "is being written" in server.put(upload.key, 0, ONE).json["error"]
        yield ONE

    server.uploads.write(upload, 0, len(ONE), pieces())

    server.until(upload.key, "done")


def test_nothing_follows_the_last_slice(server):
    """A file that is complete takes no more."""
    key = server.send("timeline.json", ONE)
    server.until(key, "done")

    assert server.put(key, len(ONE), b"more").status_code == 409


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


@contextlib.contextmanager
def serving(folder):
    """Run a server as a process that has ``folder`` for its files.

    Yields:
        The process, and a connection to it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "placement_viz", "serve", "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
    )
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with process, contextlib.closing(connection):
        try:
            process.stdout.readline()
            yield process, connection
        finally:
            process.terminate()


def asked(connection, method, path, body, kind="application/json"):
    """Return the answer to one request of a browser."""
    headers = {"Cookie": f"{COOKIE}={MINE}", "Content-Type": kind}
    connection.request(method, path, body, headers | HERE)
    return json.load(connection.getresponse())


def test_a_server_that_is_stopped_leaves_nothing(tmp_path):
    """What was half sent goes with the server, also when it is asked to stop."""
    with serving(tmp_path) as (process, connection):
        body = json.dumps({"name": "a.json", "size": 10})
        assert asked(connection, "POST", "/_uploads", body)["sent"] == 0
        connection.close()
        assert len(list(tmp_path.iterdir())) == 1

        process.terminate()

        assert process.wait(SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_slice_may_come_in_small_pieces(tmp_path):
    """The server waits for large ones in a body, and for any in what follows it."""
    data = ONE + b" " * 600_000
    pieces = [data[start : start + 2**14] for start in range(0, len(data), 2**14)]
    with serving(tmp_path) as (_, connection):
        body = json.dumps({"name": "a.json", "size": 2 * len(data)})
        key = asked(connection, "POST", "/_uploads", body)["id"]
        for n_sent in (1, 2):
            path = f"/_uploads/{key}?offset={(n_sent - 1) * len(data)}"
            kind = "application/octet-stream"
            headers = {
                "Cookie": f"{COOKIE}={MINE}",
                "Content-Type": kind,
                "Content-Length": str(len(data)),
            }
            connection.request("PUT", path, iter(pieces), headers | HERE)

            answer = json.load(connection.getresponse())
            assert answer.get("sent") == n_sent * len(data), answer
            assert asked(connection, "GET", f"/_uploads/{key}", None)["id"] == key


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
