"""How long a person waits for the page: a real server and a real browser."""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile

from benchmarks.generate import generate_run
from benchmarks.report import report
from benchmarks.served import served
from tests import browser

_REPEATS = 5
_APP = (sys.executable, "app.py")
# Counts frames from the moment a file is chosen until one shows ops.
_WATCH = """
window.chosen = window.drawn = 0;
document.querySelector("#upload input[type=file]").addEventListener(
    "change", () => { window.chosen = performance.now(); }, true);
const look = () => {
    const { rendered } = document.querySelector("#timeline").dataset;
    if (window.chosen && rendered) { window.drawn = performance.now(); }
    else { requestAnimationFrame(look); }
};
look();
"""

_WAITED = """
const [sent] = performance.getEntriesByName("placement:sent");
return window.drawn - sent.startTime;
"""


def bench_page() -> None:
    """Time the start of the app, and a file from being chosen to being drawn."""
    starts = []
    for _ in range(_REPEATS):
        with served(program=_APP) as server:
            starts.append(server.seconds)
    report("python app.py until the page is served", starts)
    if not browser.is_installed():
        print("the page is not measured: apt-get install chromium chromium-driver")
        return
    for n_ops in (10_000, 100_000, 1_000_000):
        _bench_upload(n_ops)


def _bench_upload(n_ops: int) -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        served(program=_APP) as server,
    ):
        run = pathlib.Path(folder) / "timeline.json"
        run.write_text(json.dumps(generate_run(n_ops), indent=4), encoding="utf-8")
        seconds, waits = [], []
        for number in range(_REPEATS):
            profile = pathlib.Path(folder) / str(number)
            profile.mkdir()
            driver = browser.start(profile)
            page = browser.Page(driver, server.address)
            page.open()
            page.script(_WATCH)
            page.upload(run)
            drawn = page.until(
                lambda page=page: (
                    page.script("return window.drawn - window.chosen") > 0
                    and page.script("return window.drawn - window.chosen")
                )
            )
            seconds.append(drawn / 1000)
            waits.append(page.script(_WAITED) / 1000)
            driver.quit()
    report(f"file chosen to timeline drawn: {n_ops:,} ops", seconds)
    report(f"  of which after the upload's end: {n_ops:,} ops", waits)
