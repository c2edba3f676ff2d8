"""Switches and fixtures that all tests share."""

import contextlib
import logging
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import settings

from placement_viz.parser import load_run
from tests import browser, hand
from tests.builders import ROOT, environment

# A machine may be busy; what takes how long is for benchmarks.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

GOLDEN = ROOT / "tests" / "golden"


def pytest_addoption(parser):
    """Add the switch that writes golden files instead of comparing with them."""
    parser.addoption(
        "--update-golden", action="store_true", help="write what is compared"
    )


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory):
    """Keep all tests, and the processes they start, out of the user's own cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture
def golden(request):
    """Return a function that compares text with the file of a name."""

    def compare(name, text):
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no {path.name}; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def script(tmp_path):
    """Return a function that writes a script and returns its name."""

    def write(*parts, name="train.py"):
        (tmp_path / name).write_text("".join(map(textwrap.dedent, parts)))
        return name

    return write


@pytest.fixture
def python(tmp_path):
    """Return a function that runs Python in the scripts' folder."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def capture(python):
    """Return a function that runs ``python -m placement_viz.capture``."""
    return lambda *arguments: python("-m", "placement_viz.capture", *arguments)


@pytest.fixture
def section(tmp_path):
    """Return a function that reads what a run file says of a step."""
    return lambda folder=".": load_run(str(tmp_path / folder / "timeline.json")).section


@pytest.fixture(scope="session")
def serve_app():
    """Return a function that serves the app with samples and returns its address."""
    werkzeug = pytest.importorskip("werkzeug.serving")
    from placement_viz.dashboard import create_app

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:

        def serve(samples):
            app = create_app(samples)
            server = werkzeug.make_server("127.0.0.1", 0, app.server, threaded=True)
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.port}/"

        yield serve


@contextlib.contextmanager
def _browsers(folder):
    pytest.importorskip("selenium")
    if not browser.is_installed():
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")

    with contextlib.ExitStack() as stack:

        def start():
            profile = folder / f"profile-{len(list(folder.iterdir()))}"
            profile.mkdir()
            driver = browser.start(profile)
            stack.callback(driver.quit)
            return driver

        yield start


@pytest.fixture
def browsers(tmp_path):
    """Return a function that starts a browser without a past, for one test."""
    with _browsers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory):
    """Return a browser for all tests of a module, which starts in seconds."""
    with _browsers(tmp_path_factory.mktemp("browser")) as start:
        yield start()


@pytest.fixture(scope="session")
def towers():
    """Return the ops of the run that most tests of hands look at."""
    return hand.ops_of(hand.TOWERS)


@pytest.fixture(scope="session")
def timelines(serve_app, tmp_path_factory):
    """Return the address of a server with two real runs and some odd ones."""
    return serve_app(hand.timeline_files(tmp_path_factory.mktemp("runs")))


@pytest.fixture(name="hand")
def hand_at_a_timeline(shared_browser, timelines):
    """Return a page whose console must stay clean."""
    found = hand.Hand(shared_browser, timelines)
    found.complaints()
    yield found
    assert found.complaints() == []


@pytest.fixture
def middle(hand, towers):
    """Return a window in the middle of the towers, and show it."""
    span_us = towers.select((towers["start_us"] + towers["duration_us"]).max()).item()
    window = span_us * 0.4, span_us * 0.6
    hand.show(query=f"&from={window[0]}&to={window[1]}")
    hand.until_window(*window)
    return window
