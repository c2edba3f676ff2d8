"""Measure the timeline in a real browser against its goals: ``make bench-browser``.

A million ops, a real server process and a headless Chromium. Each line says what was
measured and what the goal is; other work on the machine shows in the figures, so the
load is printed with them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.people import ask_at_once
from benchmarks.served import Server, descendants, private_mb, served
from benchmarks.timeline import write_timeline
from placement_viz import load_run
from placement_viz.analysis import survey_run
from placement_viz.dashboard.pictures import Picture
from tests import browser

_N_OPS = 1_000_000
_N_PEOPLE = 10
_N_SMALL = 1_000
_N_QUERIES = 2_000
_PIXELS = 1_200
#: About how long a generated run is, for each of its ops.
_OP_US = 88
_PATIENCE_S = 300
_SETTLED_S = 5

# When a file was chosen, and when the first window was drawn, in the page's own time.
_WATCH = """
window.chosen = window.drawn = 0;
document.addEventListener("change", (e) => {
    if (e.target.type === "file") window.chosen = performance.now();
}, true);
new MutationObserver(() => {
    const isDrawn = document.querySelector("#timeline[data-rendered]");
    if (isDrawn && !window.drawn) window.drawn = performance.now();
}).observe(document, { attributeFilter: ["data-rendered"], subtree: true });
"""

_SENDING = """
const [sent] = performance.getEntriesByName("placement:sent");
return sent.startTime - window.chosen;
"""

# The wheel at several places: from the whole run to single ops, aside, and back. A
# frame ends when the browser handles messages again.
_MOVE = """
const done = arguments[arguments.length - 1];
const root = document.querySelector("#timeline");
const view = window.placementTimeline.of("timeline");
const wait = (ms) => new Promise((next) => setTimeout(next, ms));
const frameEnd = () => new Promise((next) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = next;
    port2.postMessage(0);
});
async function wheel(place, deltaX, deltaY) {
    const box = view.canvas.getBoundingClientRect();
    const clientX = box.left + view.area.left + place * view.area.width;
    const clientY = box.top + view.area.top + view.area.height / 2;
    const before = view.window;
    let drawn = null;
    const watch = new MutationObserver(() => { drawn = drawn || frameEnd(); });
    watch.observe(root, { attributeFilter: ["data-rendered"] });
    const begun = performance.now();
    view.canvas.dispatchEvent(new WheelEvent("wheel", {
        deltaX, deltaY, clientX, clientY, bubbles: true, cancelable: true,
    }));
    if (view.window === before) { watch.disconnect(); return null; }
    while (!drawn && performance.now() - begun < 5000) await wait(1);
    await drawn;
    const took = performance.now() - begun;
    watch.disconnect();
    return took;
}
(async () => {
    const took = [];
    let turn = 0;
    for (const place of [0.2, 0.5, 0.85]) {
        const moves = [
            ...Array(14).fill([0, -400]), ...Array(8).fill([300, 0]),
            ...Array(15).fill([0, 400]),
        ];
        for (const [dx, dy] of moves) {
            const ms = await wheel(place, dx, dy);
            if (ms !== null) took.push(ms);
            // At any moment between two frames.
            await wait(40 + (turn = (turn + 7) % 17));
        }
        view.fit();
        await wait(200);
    }
    done(took);
})();
"""

_WEIGHT = """
const asked = performance.getEntriesByType("resource");
const seen = [...performance.getEntriesByType("navigation"), ...asked].filter(
    (each) => !/_timeline|_uploads|_reading|_dash-update/.test(each.name)
);
return {
    bytes: seen.reduce((sum, each) => sum + each.encodedBodySize, 0),
    unpacked: seen.reduce((sum, each) => sum + each.decodedBodySize, 0),
    hosts: new Set(asked.map((each) => new URL(each.name).host)).size,
};
"""


def bench_browser(run: pathlib.Path, folder: pathlib.Path) -> None:
    """Measure a file of a million ops.

    Args:
        run: As TensorFlow writes it.
        folder: Where to put everything else.
    """
    _bench_upload(run, folder)
    # The file is in the cache from here on.
    picture = Picture(survey_run(load_run(run)))
    _bench_queries(picture)
    del picture
    _bench_open(run, folder)
    _bench_people(folder)


def _bench_upload(run: pathlib.Path, folder: pathlib.Path) -> None:
    size = f"{run.stat().st_size / 1e6:.0f} MB"
    small = folder / "small.json"
    _write(small, _N_SMALL)
    with served() as server, _page(server, folder) as page:
        # What any run needs is there before.
        page.upload(small)
        _until_drawn(page)
        page.open("?start")
        at_start = private_mb(server.pid)
        empty_mb = _renderer_mb(page)
        page.upload(run)
        seconds = _until_drawn(page, "window.chosen")
        sending = page.script(_SENDING) / 1000
        told = f"{seconds:.2f} s, {sending:.2f} s of them sending"
        _say(f"file chosen to usable view, {size}", told, "6 s")
        seen = page.script(browser.DRAWN)
        _say("ops lost on the way", f"{_N_OPS - int(seen):,}", "0")
        _say_moves("zoom and pan while it is judged", page)
        _until(lambda: "Judging" not in page.text("#uploads"))
        judged_mb = private_mb(server.pid) - at_start
        _say_moves("zoom and pan, input to drawn", page)
        renderer = f"{_renderer_mb(page):.0f} MB, {empty_mb:.0f} MB before the run"
        _say("memory of the page's renderer", renderer, "400 MB")
        # What was freed is given back a while later.
        time.sleep(_SETTLED_S)
        kept_mb = private_mb(server.pid) - at_start
        kept = f"{kept_mb:.0f} MB, {judged_mb:.0f} MB at first"
        _say("memory of the server for the run", kept, "400 MB")


def _bench_open(run: pathlib.Path, folder: pathlib.Path) -> None:
    with served(run) as server:
        with _page(server, folder) as page:
            first = _until_drawn(page)
            weight = page.script(_WEIGHT)
        with _page(server, folder) as page:
            again = _until_drawn(page)
    told = f"{first:.2f} s, {again:.2f} s the next"
    _say("run in the cache: page opened until drawn", told, "1.5 s")
    told = f"{weight['bytes'] / 1e6:.2f} MB, {weight['unpacked'] / 1e6:.2f} MB unpacked"
    _say("page without the trace, as sent", told, "3 MB")
    _say("hosts that the page asks", str(weight["hosts"]), "1")


def _bench_queries(picture: Picture) -> None:
    levels = picture.levels()
    chance = np.random.default_rng(0)
    widths = levels.span_us * np.exp(chance.uniform(-12, 0, _N_QUERIES))
    starts = chance.uniform(0, levels.span_us - widths)
    took = []
    for start, width in zip(starts.tolist(), widths.tolist(), strict=True):
        begun = time.perf_counter()
        levels.cut(start, start + width, _PIXELS)
        levels.count(start, start + width)
        took.append(1000 * (time.perf_counter() - begun))
    _say("window query, 95th percentile", f"{_percentile(took, 95):.2f} ms", "1 ms")


def _bench_people(folder: pathlib.Path) -> None:
    runs = [folder / f"person_{number}.json" for number in range(_N_PEOPLE)]
    for run in runs:
        _write(run, _N_OPS // _N_PEOPLE)
    with served(*runs) as server:
        span_us = _OP_US * _N_OPS / _N_PEOPLE
        labels = [run.stem for run in runs]
        took = ask_at_once(server.address, labels, span_us, _PIXELS)
    told = f"{statistics.median(took):.0f} / {_percentile(took, 95):.0f} ms"
    _say(f"{_N_PEOPLE} people, each with a run: a window", told, "50 ms for 95 %")


def _say_moves(what: str, page: browser.Page) -> None:
    took = page.driver.execute_async_script(_MOVE)
    told = f"{statistics.median(took):.0f} / {_percentile(took, 95):.0f} ms"
    _say(f"{what}, {len(took)} times", told, "25 / 40 ms")


@contextlib.contextmanager
def _page(server: Server, folder: pathlib.Path) -> Iterator[browser.Page]:
    """Open the app in a browser without a past."""
    profile = pathlib.Path(tempfile.mkdtemp(dir=folder))
    driver = browser.start(profile)
    try:
        driver.set_script_timeout(_PATIENCE_S)
        driver.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH}
        )
        page = browser.Page(driver, server.address)
        page.open()
        yield page
    finally:
        driver.quit()


def _until_drawn(page: browser.Page, since: str = "0") -> float:
    """Wait for the first window that is drawn; return how long that took, in s."""
    _until(lambda: page.script("return window.drawn"))
    return float(page.script(f"return window.drawn - {since}")) / 1000


def _until(claim: Callable[[], object]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not claim():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def _renderer_mb(page: browser.Page) -> float:
    """Return what the page's process holds; a spare one holds less."""
    found = descendants(page.driver.service.process.pid)
    renderers = [pid for pid, command in found.items() if "--type=renderer" in command]
    return max(map(private_mb, renderers))


def _percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(values, share))


def _say(what: str, figure: str, goal: str) -> None:
    load = os.getloadavg()[0]
    print(f"{what:<46} {figure:<28} goal {goal:<16} load {load:.1f}", flush=True)


def _write(path: pathlib.Path, n_ops: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        write_timeline(stream, n_ops)


def main() -> None:
    """Measure, with a file that is there or with one that is written first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=pathlib.Path, help="of a million ops")
    arguments = parser.parse_args()
    if not browser.is_installed():
        print("nothing is measured: apt-get install chromium chromium-driver")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        run = arguments.run or folder / "timeline.json"
        if not run.exists():
            _write(run, _N_OPS)
        bench_browser(run, folder)


if __name__ == "__main__":
    main()
