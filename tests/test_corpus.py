"""Real timelines from public repositories, where they are at hand."""

import gzip
import json
import re

import polars as pl
import pytest

from placement_viz import TraceError, analyze_run, load_run, parse_run
from placement_viz.reports.sentences import headline
from tests.builders import CORPUS

INDEX = CORPUS / "INDEX.jsonl"
ENTRIES = (
    [json.loads(line) for line in INDEX.read_text().splitlines()]
    if INDEX.exists()
    else []
)
TIMELINES = [e["file"] for e in ENTRIES if e["kind"] == "tf1-timeline"]
STEP_STATS = [e["file"] for e in ENTRIES if e["kind"] == "RunMetadata"]
TENSORS = [e["file"] for e in ENTRIES if e["kind"] == "horovod-or-byteps-timeline"]
#: Kind of trace that proves no placement to its format.
KINDS = {
    "tf2-profiler-trace-json": "tensorflow-profiler",
    "kineto": "kineto",
    "other-chrome-trace": "chrome-trace",
}

pytestmark = pytest.mark.skipif(not ENTRIES, reason="the corpus is not here")


def independent_reading(path):
    """Return per device label the number of ops and the sum of their durations."""
    events = json.loads(path.read_text())["traceEvents"]
    labels = {
        e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"
    }
    found = {}
    for e in events:
        if e["ph"] == "X":
            label = labels[e["pid"]].removesuffix(" Compute")
            n, total = found.get(label, (0, 0))
            found[label] = (n + 1, total + e["dur"])
    return found


def digest(path):
    """Return what is read and judged of a file, a line for each row of it."""
    try:
        analysis = analyze_run(load_run(path))
    except TraceError as error:
        return f"{type(error).__name__}: {str(error).replace(str(path), path.name)}\n"
    trace = analysis.run.trace
    rows = (
        trace.ops.group_by("row_kind", "device", "row")
        .agg(
            ops=pl.len(),
            lanes=pl.col("lane").n_unique(),
            first_us=pl.col("start_us").min(),
            last_us=(pl.col("start_us") + pl.col("duration_us")).max(),
            sum_us=pl.col("duration_us").sum(),
        )
        .sort("row_kind", "device", "row")
    )
    head = trace.ops.head(3).select("name", "op_type").rows()
    lines = [
        headline(analysis),
        f"{analysis.run.format}, {trace.n_steps} steps, {trace.span_us} us",
        "",
        *(
            f"{r['row_kind']:>8} {r['ops']:>6} ops on {r['lanes']:>3} lanes "
            f"{r['first_us']:>9} to {r['last_us']:>9}, {r['sum_us']:>9} us  {r['row']}"
            for r in rows.to_dicts()
        ),
        "",
        *(f"begins with {op_type} {name[:100]}" for name, op_type in head),
        *(f"usage: {usage}" for usage in analysis.usage),
        *(f"notice: {each.code}: {each.message}" for each in analysis.notices),
        *(f"skipped: {n} {kind}" for kind, n in sorted(trace.skipped.items())),
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", [e["file"] for e in ENTRIES])
def test_a_real_file_is_read_as_written_down(name, golden):
    """The digest of each file is the one that a person has read and agreed to."""
    golden(f"corpus/{name}", digest(CORPUS / name))


@pytest.mark.parametrize("name", TIMELINES)
def test_every_op_of_a_real_timeline_is_there(name):
    """Counts and durations agree with a plain reading of the JSON, row by row."""
    table = load_run(CORPUS / name).trace.ops

    found = {
        row: (ops.height, ops["duration_us"].sum())
        for (row,), ops in table.partition_by("row", as_dict=True).items()
    }

    assert found == independent_reading(CORPUS / name)


@pytest.mark.parametrize("name", TIMELINES)
def test_a_gzipped_timeline_is_the_same_run(name):
    """Packing changes nothing."""
    plain = load_run(CORPUS / name)
    packed = parse_run(gzip.compress((CORPUS / name).read_bytes()), source=name)

    assert packed.trace.ops.equals(plain.trace.ops)


@pytest.mark.parametrize("name", TIMELINES)
def test_one_device_leaves_nothing_misplaced(name):
    """Where all compute ran on one device, no gradient can be elsewhere."""
    analysis = analyze_run(load_run(CORPUS / name))
    gradients = analysis.colocation.gradients

    if gradients["device"].n_unique() == 1 and "merged" not in name:
        assert analysis.colocation.misplaced.is_empty()
    assert analysis.colocation.summary.gradient_ops == gradients.height


@pytest.mark.parametrize("name", TENSORS)
def test_a_trace_of_tensors_is_refused_in_one_line(name):
    """The message starts with the file and says of which program it is."""
    with pytest.raises(TraceError) as caught:
        load_run(CORPUS / name)

    program = "BytePS" if "byteps" in name else "Horovod"
    assert str(caught.value).startswith(f"{CORPUS / name}: ")
    assert f"found a {program} timeline" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [e["file"] for e in ENTRIES if e["kind"] in KINDS])
def test_a_trace_of_another_program_is_read_as_what_it_is(name):
    """Each has devices or processes, and says that no placement can be judged."""
    (kind,) = (e["kind"] for e in ENTRIES if e["file"] == name)

    run = load_run(CORPUS / name)

    assert run.format == KINDS[kind]
    assert run.trace.devices
    assert "no-placement" in [notice.code for notice in run.trace.notices]


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", STEP_STATS)
def test_step_stats_hold_what_their_text_shows(name):
    """Every node of every device is an op, counted without reading the message."""
    text = (CORPUS / name).read_text()

    run = load_run(CORPUS / name)

    assert run.format == "tensorflow-step-stats"
    n_ops = len(re.findall(r"^\s*node_stats \{", text, re.MULTILINE))
    assert run.trace.ops.height == n_ops
