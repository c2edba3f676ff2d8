"""Large runs at a terminal: progress, and an end when somebody has seen enough."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.timeline import write_timeline
from placement_viz.commands import reading
from placement_viz.commands.reading import read_run
from tests.builders import environment, event, timeline

SECONDS = 60


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return a timeline that takes several processes a moment to read."""
    path = tmp_path_factory.mktemp("large") / "timeline.json"
    with path.open("w", encoding="utf-8") as stream:
        write_timeline(stream, 150_000)
    return path


def children(pid):
    """Return the processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return [int(each) for each in file.read().split()]


def is_alive(pid):
    """Return whether a process still runs."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(claim):
    """Wait until a claim holds, and return it."""
    end = time.monotonic() + SECONDS
    while not (found := claim()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux")  # noqa: PTH110
def test_an_interrupt_leaves_nothing_half_written(large, tmp_path):
    """Neither a result nor a draft of it, nor a process that goes on reading."""
    target = tmp_path / "result.json"
    command = [sys.executable, "-m", "placement_viz", "analyze", "--no-cache"]
    process = subprocess.Popen(
        [*command, str(large), "--json", str(target)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    helpers = until(lambda: children(process.pid)) if os.cpu_count() > 1 else []

    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=SECONDS)

    assert process.returncode == 130
    assert (output, errors) == (b"", b"")
    assert list(tmp_path.iterdir()) == []
    until(lambda: not any(map(is_alive, helpers)))


PROGRAM = """
import sys
from placement_viz.commands import main, reading
reading._PATIENCE_S = float(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


def seen_at_a_terminal(*arguments, patience_s):
    """Return what a command shows on a terminal to who waits so long without a bar."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(patience_s), *arguments],
        env={**environment(), "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:
                break
        elif process.poll() is not None:
            break
    os.close(ours)
    assert process.wait(timeout=SECONDS) == 0
    return shown.decode(errors="replace")


def test_who_waits_at_a_terminal_sees_how_far_it_is(large, tmp_path):
    """Share, rate and time left, and nothing of them at the end."""
    shown = seen_at_a_terminal(
        "analyze",
        "--no-cache",
        str(large),
        "--csv",
        str(tmp_path / "gradients.csv"),
        patience_s=0,
    )

    assert "reading" in shown
    assert re.search(r"\d/\d+\.\d MB", shown)
    assert "MB/s" in shown
    assert shown.rstrip().endswith("\x1b[2K")


def test_who_need_not_wait_sees_no_bar(tmp_path):
    """A small file is there before a bar could be read."""
    path = tmp_path / "timeline.json"
    path.write_bytes(timeline(event("mm")))

    assert "MB/s" not in seen_at_a_terminal("analyze", str(path), patience_s=1000)


def test_without_a_terminal_there_is_no_bar(large, capsys, monkeypatch):
    """What is written to a file or a pipe holds results only."""
    monkeypatch.setattr(reading, "_PATIENCE_S", 0)

    assert read_run(str(large), cache=False).trace.ops.height == 150_000
    assert capsys.readouterr() == ("", "")
