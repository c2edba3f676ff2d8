"""Packed files, folders and patterns, and how much any of them may hold."""

import contextlib
import dataclasses
import gzip
import io
import zipfile

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import TraceError, TraceFormatError, load_run, parse_run
from placement_viz.parser import files, packing
from placement_viz.parser.files import content_of, content_of_file, natural_order
from tests.builders import event, timeline

TRACE = timeline(*(event(f"op{i}", ts=100 * i) for i in range(300)))


def zipped(**members):
    """Return a zip; ``step_1=data`` is the file ``step_1.json`` in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.json", data)
    return packed.getvalue()


def step(*names):
    """Return a timeline with one op of each name."""
    return timeline(*(event(name) for name in ("_SOURCE", *names)))


def names_by_step(run):
    """Return the names of the ops of each step, but the first."""
    ops = run.trace.ops
    return [
        [name for name in each["name"] if name != "_SOURCE"]
        for each in ops.partition_by("step")
    ]


def nameless(data):
    """Return a zip with one file, the name of which has become its comment."""
    entry = data.index(b"PK\x01\x02")
    length, comment = slice(entry + 28, entry + 30), slice(entry + 32, entry + 34)
    changed = bytearray(data)
    changed[comment], changed[length] = data[length], data[comment]
    return bytes(changed)


PACKINGS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip in two members": lambda data: (
        gzip.compress(data[:1000]) + gzip.compress(data[1000:])
    ),
    "gzip with padding": lambda data: gzip.compress(data) + bytes(100),
    "Zstandard": zstandard.compress,
    "Zstandard in two frames": lambda data: (
        zstandard.compress(data[:1000]) + zstandard.compress(data[1000:])
    ),
    "zip": lambda data: zipped(timeline=data),
    "gzip in a zip": lambda data: zipped(timeline=gzip.compress(data)),
}

#: Made once: some of them hold the time.
PACKED = {name: pack(TRACE) for name, pack in PACKINGS.items()}


@pytest.mark.parametrize("kind", PACKED)
def test_packing_makes_no_difference(kind):
    """However a file is packed, it is the same run."""
    run = parse_run(PACKED[kind], source="x")

    assert run.trace.ops.equals(parse_run(TRACE, source="x").trace.ops)
    assert run.trace.notices == ()


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_file_is_read_in_pieces(kind, monkeypatch, tmp_path):
    """Nothing is cut wrongly when a piece is smaller than all that is in it."""
    for module in (files, packing):
        monkeypatch.setattr(module, "PIECE_BYTES", 50)
    path = tmp_path / "trace"
    path.write_bytes(PACKED[kind])

    assert load_run(path).trace.ops.height == 300


@pytest.mark.parametrize("kind", ["gzip", "Zstandard"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
def test_packed_data_that_breaks_off_is_read_up_to_there(kind, share):
    """What was packed before the end of the file is a run, and the loss is said."""
    packed = PACKINGS[kind](timeline(*noisy_events(20_000)))

    trace = parse_run(packed[: int(share * len(packed))], source="x").trace

    assert 0 < trace.ops.height < 20_000
    assert trace.ops["name"].to_list() == [f"op{i}" for i in range(trace.ops.height)]
    assert "cut-off" in [notice.code for notice in trace.notices]


def noisy_events(n):
    """Yield events that do not pack well, so that a part of a file holds some."""
    for i in range(n):
        yield event(f"op{i}", ts=i, dur=i * i % 997)


def test_damage_inside_packed_data_is_said():
    """A flipped byte costs what comes after it."""
    packed = bytearray(gzip.compress(timeline(*noisy_events(20_000))))
    packed[len(packed) // 2] ^= 0xFF

    trace = parse_run(bytes(packed), source="x").trace

    assert "packed-data-damaged" in [notice.code for notice in trace.notices]


BOMB = 50 * 2**20


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"[" + b" " * BOMB),
        zstandard.compress(b"[" + b" " * BOMB),
        zipped(bomb=b"[" + b" " * BOMB),
        zipped(bomb=gzip.compress(b"[" + b" " * BOMB)),
        zipped(a=b"[" + b" " * (BOMB // 2), b=b"[" + b" " * (BOMB // 2)),
    ],
    ids=["gzip", "Zstandard", "zip", "gzip in a zip", "two in a zip"],
)
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(data):
    """The limit is on the content, and the message names it."""
    with pytest.raises(TraceFormatError, match=r"at most 16\.0 MiB of content"):
        parse_run(data, source="bomb", limit_bytes=2**24)


@pytest.mark.parametrize("where", ['"args": ', '"traceEvents": [], "x": '])
def test_deep_nesting_is_refused(where):
    """A million brackets are no trace, and the message says how many may be."""
    deep = b"[" * 10**6 + b"]" * 10**6
    data = timeline().replace(b'"args": ', where.encode() + deep + b', "args": ', 1)

    with pytest.raises(TraceFormatError, match="nested deeper than the 1,000 levels"):
        parse_run(data, source="deep")


@pytest.mark.parametrize("field", ["name", "op", "inputs"])
def test_a_name_of_a_hundred_megabytes_is_refused(field):
    """The message names the longest that is read."""
    long = "a" * 10**8
    bad = event(**{field: [long] if field == "inputs" else long})

    with pytest.raises(TraceFormatError, match=r"at most 1\.0 MiB, found one of 95\.4"):
        parse_run(timeline(bad, event("mm")), source="long")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (zipped(), "no file in it"),
        (zipped(readme=b"hello"), "expected a trace among 1 file, found none; .*hello"),
        (zipped(inner=zipped(a=TRACE)), "found none; .*PK"),
        (zipped(a=TRACE)[:-30], "expected a zip, found damage"),
        (nameless(zipped(a=TRACE)), "no file in it"),
    ],
)
def test_a_zip_without_a_trace_says_what_is_in_it(data, message):
    """One line: where, what was expected, what was found."""
    with pytest.raises(TraceFormatError, match=message) as caught:
        parse_run(data, source="steps.zip")

    assert "\n" not in str(caught.value)


def test_a_damaged_member_of_a_zip_is_left_out_and_said():
    """The other steps are a run."""
    data = zipped(a=step("mm"), b=step("mm"))
    damaged = data.replace(data[40:60], bytes(20), 1)

    trace = parse_run(damaged, source="steps.zip").trace

    assert names_by_step(parse_run(data, source="x")) == [["mm"], ["mm"]]
    assert [notice.code for notice in trace.notices] == ["left-out"]
    assert "steps.zip/a.json" in trace.notices[0].message


def test_the_files_of_a_folder_are_steps_in_natural_order(tmp_path):
    """Step 10 comes after step 2, and what is no trace is said."""
    for number in (10, 2, 1):
        (tmp_path / f"step_{number}.json").write_bytes(step("mm", f"only{number}"))
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / ".hidden").write_text("no trace")

    run = load_run(tmp_path)

    assert names_by_step(run) == [["mm", f"only{n}"] for n in (1, 2, 10)]
    assert [notice.code for notice in run.trace.notices] == [
        "left-out",
        "steps-joined",
        "steps-differ",
    ]
    assert "notes.txt" in run.trace.notices[0].message
    assert run.source == str(tmp_path)


def test_a_pattern_names_the_steps(tmp_path):
    """Only what the pattern fits is read."""
    for name in ("a_1", "a_2", "b_1"):
        (tmp_path / f"{name}.json").write_bytes(step(name))

    run = load_run(f"{tmp_path}/a_*.json")

    assert names_by_step(run) == [["a_1"], ["a_2"]]
    with pytest.raises(TraceFormatError, match="this pattern fits, found none"):
        load_run(f"{tmp_path}/c_*.json")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    """What is there is what is meant."""
    (tmp_path / "step[1].json").write_bytes(step("mm"))

    assert load_run(tmp_path / "step[1].json").trace.n_steps == 1


def test_progress_covers_all_files_and_ends_at_the_end(tmp_path):
    """It rises, never beyond the total, and reaches it."""
    sizes = 0
    for number in range(3):
        path = tmp_path / f"step_{number}.json"
        path.write_bytes(gzip.compress(step("mm")) if number == 1 else step("mm"))
        sizes += path.stat().st_size
    seen = []

    load_run(tmp_path, on_progress=lambda *state: seen.append(state))

    assert {total for _, total in seen} == {sizes}
    assert seen == sorted(seen)
    assert seen[-1] == (sizes, sizes)


@given(st.lists(st.integers(0, 10**30), max_size=5), st.text("ab_.", max_size=3))
def test_natural_order_is_the_order_of_the_numbers(numbers, prefix):
    """Names that differ in one number are in the order of that number."""
    names = [f"{prefix}{number}" for number in numbers if number < 10**18]

    assert sorted(names, key=natural_order) == [
        f"{prefix}{number}" for number in sorted(n for n in numbers if n < 10**18)
    ]


@settings(max_examples=300)
@given(st.data())
def test_any_damage_to_a_packed_file_gives_a_run_or_a_trace_error(data):
    """Neither another exception nor a hang."""
    packed = bytearray(PACKED[data.draw(st.sampled_from(sorted(PACKED)))])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(packed) - 1))
        packed[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))

    with contextlib.suppress(TraceError):
        run = parse_run(bytes(packed[:cut]), source="fuzz", limit_bytes=2**22)
        assert run.trace.ops.height


def test_a_content_is_read_anew_each_time(tmp_path):
    """Several readers may look at one file."""
    path = tmp_path / "x.json"
    path.write_bytes(TRACE)
    content = content_of_file(path)

    assert content.head() == content.whole() == b"".join(content.pieces()) == TRACE
    small = dataclasses.replace(content_of(TRACE, source="x"), limit_bytes=10)
    with pytest.raises(TraceFormatError, match="at most 10 B"):
        small.whole()
