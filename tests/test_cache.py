import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_viz import load_run
from placement_viz.commands import main
from placement_viz.dashboard.catalog import Catalog
from placement_viz.errors import TraceError
from placement_viz.model import OPS_SCHEMA, Notice, Run, Trace
from placement_viz.parser import cache as cache_module
from placement_viz.parser import cache_folder, parse_run
from placement_viz.parser.cache import Cache
from placement_viz.parser.files import content_of_file
from placement_viz.parser.kinds import read_steps
from placement_viz.parser.stored import pack_run, unpack_run
from tests.builders import SAMPLES, environment, event, graph, op, run, timeline, trace

FIRST = timeline(event("a", inputs=["x/y", "x/z:1"]), event("b", ts=105))
SECOND = timeline(event("c", inputs=["x/y", "x/z:1"]), event("d", ts=105))


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Trust files that were written just now, as all those of a test are."""
    monkeypatch.setattr(cache_module, "_SETTLED_NS", -(10**18))


@pytest.fixture
def cache(tmp_path):
    """Return a cache that stores runs however small they are."""
    return Cache(tmp_path / "cache", least_bytes=0)


def opened(cache, path):
    """Return the run at ``path``, and whether the file had to be read for it."""
    n_reads = 0

    def read(content):
        nonlocal n_reads
        n_reads += 1
        return read_steps(content)

    [step] = cache.read_steps(content_of_file(path), read)
    return step.run, bool(n_reads)


def assert_same(found, expected):
    """Claim that two runs differ in nothing."""
    assert found.trace.ops.schema == OPS_SCHEMA
    assert found.trace.ops.equals(expected.trace.ops)
    for name in ("origin_us", "skipped", "notices"):
        assert getattr(found.trace, name) == getattr(expected.trace, name), name
    for name in ("source", "format", "section", "evidence"):
        assert getattr(found, name) == getattr(expected, name), name
    if expected.graph:
        for name in ("nodes", "placed", "sources", "kernels"):
            assert getattr(found.graph, name) == getattr(expected.graph, name), name


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_a_second_opening_gives_the_same_run(cache, path):
    """What is stored of a run file is all of it, with its graph and its facts."""
    first, _ = opened(cache, path)
    second, is_read = opened(cache, path)

    assert not is_read
    assert_same(second, first)


def test_an_untouched_file_is_not_even_hashed(cache, tmp_path, monkeypatch):
    """Size, times and place of a file tell that it is still the same."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)
    opened(cache, path)
    monkeypatch.setattr(cache_module, "_key_of", None)

    assert not opened(cache, path)[1]


def test_a_file_that_may_still_change_is_hashed_again(cache, tmp_path, monkeypatch):
    """A file written just now is not known by its times, and found by its content."""
    monkeypatch.setattr(cache_module, "_SETTLED_NS", 10**18)
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)
    opened(cache, path)

    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert not opened(cache, path)[1]


def test_a_changed_file_is_read_anew(cache, tmp_path):
    """Neither the size nor a forged time of change hides what was written."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)
    os.utime(path, ns=(10**18, 10**18))
    opened(cache, path)
    # Some file systems only count hundredths of a second.
    time.sleep(0.05)
    path.write_bytes(SECOND)
    os.utime(path, ns=(10**18, 10**18))
    assert len(FIRST) == len(SECOND)

    found, is_read = opened(cache, path)

    assert is_read
    assert found.trace.ops["name"].to_list() == ["c", "d"]


def test_a_file_that_changes_while_it_is_read_is_not_stored(cache, tmp_path):
    """What was read then may be of neither content."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)

    def read(content):
        steps = read_steps(content)
        path.write_bytes(SECOND + b"\n")
        return steps

    cache.read_steps(content_of_file(path), read)

    assert not (tmp_path / "cache").exists()


def test_a_copy_is_found(cache, tmp_path):
    """A file is known by its content, and called by its new name."""
    path, copy = tmp_path / "run.json", tmp_path / "copy.json"
    path.write_bytes(FIRST[:-40])
    first, _ = opened(cache, path)
    shutil.copy(path, copy)

    second, is_read = opened(cache, copy)

    assert not is_read
    assert second.source == str(copy)
    assert first.trace.notices
    assert not any(str(tmp_path) in each.message for each in second.trace.notices)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_shows(tmp_path, data):
    """Whatever is cut off or changed in the folder, the run is right."""
    cache, path = Cache(tmp_path / "cache", least_bytes=0), tmp_path / "run.json"
    path.write_bytes(FIRST)
    expected, _ = opened(cache, path)
    stored = data.draw(st.sampled_from(sorted((tmp_path / "cache").iterdir())))
    content = bytearray(stored.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    stored.write_bytes(content)

    assert_same(opened(cache, path)[0], expected)
    assert not opened(cache, path)[1]


@pytest.mark.parametrize("packed", [b"", b"\xc0", b"\x91\x01", b"\x97" + b"\xc0" * 7])
def test_what_another_version_stored_is_ignored(cache, tmp_path, packed):
    """A file that is whole, and is not what this version writes, is read anew."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)
    expected, _ = opened(cache, path)
    for stored in (tmp_path / "cache").iterdir():
        cache._folder.write(stored.name, packed)

    found, is_read = opened(cache, path)

    assert is_read
    assert_same(found, expected)


def test_what_was_used_longest_ago_goes_first(tmp_path):
    """The folder stays within its bound."""
    folder, paths = tmp_path / "cache", []
    for name in "abcd":
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_bytes(timeline(event(name)))
    opened(Cache(folder, least_bytes=0), paths[0])
    size = sum(each.stat().st_size for each in folder.iterdir())
    cache = Cache(folder, least_bytes=0, most_bytes=3 * size + size // 2)
    for path in (*paths[1:3], paths[0], paths[3]):
        # So that each is used later than the one before.
        time.sleep(0.02)
        opened(cache, path)

    assert sum(each.stat().st_size for each in folder.iterdir()) <= 3.5 * size
    assert [opened(cache, path)[1] for path in (paths[0], paths[2], paths[3])] == [
        False
    ] * 3
    assert opened(cache, paths[1])[1]


def test_a_run_larger_than_the_bound_is_not_stored(tmp_path):
    """It would push out all others, and itself."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)
    opened(Cache(tmp_path / "cache", least_bytes=0, most_bytes=100), path)

    assert not (tmp_path / "cache").exists()


def test_small_files_are_not_stored(cache_home):
    """Reading them takes no time."""
    load_run(SAMPLES / "towers-auto.json")

    assert not list(cache_home.rglob("*"))


def test_who_wants_no_cache_gets_none(tmp_path, cache_home):
    """Nothing is stored when that is asked for, from Python, by command or browser."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST + b" " * (4 << 20))
    load_run(path, cache=False)
    parse_run(path.read_bytes(), source="upload")
    Catalog(runs=[path], cache=False).load("run", "")
    assert main(["analyze", str(path), "--no-cache"]) == 0
    assert main(["compare", str(path), str(path), "--no-cache"]) == 0
    assert not list(cache_home.rglob("*"))

    assert main(["analyze", str(path)]) == 0
    stored = list(cache_home.glob("placement_viz/*"))
    shutil.rmtree(cache_home / "placement_viz")
    assert stored


def test_the_folder_is_private_and_says_nothing(cache, tmp_path):
    """Traces can be confidential: nobody else reads them, and names are numbers."""
    path = tmp_path / "secret.json"
    path.write_bytes(FIRST)
    opened(cache, path)

    folder = tmp_path / "cache"
    assert folder.stat().st_mode & 0o777 == 0o700
    for stored in folder.iterdir():
        assert int(stored.name, 16) >= 0
        assert stored.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("obstacle", ["a file", "writable by others", "read-only"])
def test_a_folder_that_is_of_no_use_is_no_error(tmp_path, obstacle, monkeypatch):
    """Then each opening reads the file."""
    path, folder = tmp_path / "run.json", tmp_path / "cache"
    path.write_bytes(FIRST)
    if obstacle == "a file":
        folder.write_bytes(b"")
    else:
        folder.mkdir()
        folder.chmod(0o777 if obstacle == "writable by others" else 0o500)
    if obstacle == "read-only":
        # Modes do not hold back root, as whom tests may run.
        monkeypatch.setattr(cache_folder.tempfile, "mkstemp", no_space)
    cache = Cache(folder, least_bytes=0)

    assert opened(cache, path)[1]
    assert opened(cache, path)[1]
    assert not folder.is_dir() or not list(folder.iterdir())


def test_a_user_without_a_home_has_no_cache(tmp_path, monkeypatch):
    """Nothing is written where the program happens to run."""
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/x"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.json"
    path.write_bytes(FIRST + b" " * (4 << 20))

    assert load_run(path).trace.ops.height == 2
    assert list(tmp_path.iterdir()) == [path]


def no_space(**_):
    """Fail as a full disk does."""
    raise OSError(28, "No space left on device")


def test_a_disk_that_fills_up_leaves_nothing_half_written(cache, tmp_path, monkeypatch):
    """What was begun is removed."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST)
    monkeypatch.setattr(cache_folder.pathlib.Path, "replace", no_space_for)

    assert opened(cache, path)[1]
    assert not list((tmp_path / "cache").iterdir())


def no_space_for(*_):
    """Fail as a full disk does, for any file."""
    no_space()


def test_several_processes_may_store_at_once(tmp_path, cache_home):
    """Each of them gets the run, and so does who comes later."""
    path = tmp_path / "run.json"
    path.write_bytes(FIRST + b" " * (4 << 20))
    program = """
import sys
from placement_viz import load_run
print(load_run(sys.argv[1]).trace.ops["name"].to_list())
"""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        for _ in range(3)
    ]
    printed = [process.communicate()[0] for process in started]
    found = load_run(path)
    stored = [each.name for each in (cache_home / "placement_viz").iterdir()]
    shutil.rmtree(cache_home / "placement_viz")

    assert printed == ["['a', 'b']\n"] * 3
    assert found.trace.ops["name"].to_list() == ["a", "b"]
    assert all(int(name, 16) >= 0 for name in stored)


def test_steps_of_a_folder_are_stored_each(cache, tmp_path, monkeypatch):
    """A run of several files finds those of them that were read before."""
    monkeypatch.setattr("placement_viz.parser.user_cache", lambda: cache)
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "1.json").write_bytes(FIRST)
    (folder / "2.json").write_bytes(SECOND)
    first = load_run(folder)
    monkeypatch.setattr("placement_viz.parser.read_steps", None)

    assert_same(load_run(folder), first)


def test_progress_ends_at_the_end(cache, tmp_path, monkeypatch):
    """Who waits is told that all is there, also when nothing had to be read."""
    monkeypatch.setattr("placement_viz.parser.user_cache", lambda: cache)
    path, told = tmp_path / "run.json", []
    path.write_bytes(FIRST)
    for _ in range(2):
        load_run(path, on_progress=lambda *done: told.append(done))
        assert told.pop() == (len(FIRST), len(FIRST))


def test_an_unusable_file_stays_an_error(cache, tmp_path):
    """What cannot be read is not stored, and is said each time."""
    path = tmp_path / "run.json"
    path.write_bytes(json.dumps({"traceEvents": []}).encode())
    for _ in range(2):
        with pytest.raises(TraceError):
            opened(cache, path)

    assert not (tmp_path / "cache").exists()


def test_a_graph_of_another_file_is_not_stored():
    """Only that of a run file can be told again."""
    made = run(op("a"), nodes=graph().nodes.values())

    with pytest.raises(ValueError, match="expected a run file"):
        pack_run(made)


def test_a_gap_in_the_table_is_not_stored():
    """The readers leave none, and the stored table can have none."""
    ops = trace(op("a")).ops.with_columns(name=pl.lit(None, pl.String))

    with pytest.raises(ValueError, match="expected a value"):
        pack_run(Run("x", "y", Trace(ops)))


TEXTS = st.text(st.sampled_from("ab/:^\n é\x1f\0"), max_size=8)
NUMBERS = st.integers(0, 2**62)


@given(
    st.lists(
        st.builds(
            op,
            TEXTS,
            on=TEXTS.map("/{}".format),
            op_type=TEXTS,
            lane=st.integers(0, 2**31 - 1),
            start_us=NUMBERS,
            duration_us=NUMBERS,
            inputs=st.lists(TEXTS, max_size=3),
            step=st.integers(0, 2**31 - 1),
        ),
        min_size=1,
        max_size=8,
    ),
    st.dictionaries(st.text(), st.integers(0, 2**40), max_size=3),
    st.integers(-(2**60), 2**60),
)
def test_every_run_comes_back(ops, skipped, origin_us):
    """Whatever the texts and numbers are, they are the same after storing."""
    notices = (Notice("code", "message"),)
    made = Run("x", "y", Trace(trace(*ops).ops, origin_us, skipped, notices))

    assert_same(unpack_run(pack_run(made), source="x"), made)


def test_a_large_table_comes_back_in_order():
    """Rows stay where they are when many are read at a time."""
    n_ops = 300_000
    one = trace(op("a")).ops
    ops = pl.concat([one] * n_ops).with_columns(
        name="scope/" + pl.int_range(n_ops).cast(pl.String),
        start_us=pl.int_range(n_ops) * 3,
        inputs=pl.int_range(n_ops)
        .cast(pl.String)
        .repeat_by(pl.int_range(n_ops) % 4)
        .cast(pl.List(pl.String)),
    )
    made = Run("x", "y", Trace(ops))

    assert_same(unpack_run(pack_run(made), source="x"), made)
