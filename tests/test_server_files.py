"""Files that the server reads itself, and who is told of that."""

from __future__ import annotations

import threading
import time

from placement_viz import analyze_run, load_run
from placement_viz.dashboard.catalog import Catalog
from tests.builders import TRACES
from tests.uploads.server import MINE, SECONDS, THEIRS


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
