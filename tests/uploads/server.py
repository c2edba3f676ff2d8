"""A server of uploads alone, and browsers that use it."""

from __future__ import annotations

import threading
import time

import flask

from placement_viz.dashboard import readers, upload_routes
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.sessions import COOKIE, protect_server
from placement_viz.dashboard.uploads import Uploads
from placement_viz.parser import load_named
from tests.builders import TRACES

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
