"""Traces in Chrome's format of programs that are not TensorFlow 1."""

import collections
import gzip
import io
import itertools
import json
import re
import zipfile

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placement_viz import (
    NoOpsError,
    TraceError,
    TraceFormatError,
    analyze_run,
    load_run,
    parse_run,
)
from placement_viz.figures import timeline_figure
from placement_viz.parser.nesting import depths, matching_ends
from placement_viz.reports.sentences import headline
from tests.builders import CORPUS

PROFILER, KINETO, OTHER = (
    ["sagemaker-8gpu-ip_172_31_19_241.trace.json"],
    ["hta-trace.json.gz", "hta-rank_34_Jul_15_10_52_41_1074-v2.pt.trace.json.gz"],
    [
        "speedscope-simple_partial.json",
        "speedscope-simple_partial_trailing_comma.json",
        "speedscope-simple_object_partial.json",
        "speedscope-x_events_matching_end.json",
        "speedscope-simple_object.json",
        "catapult-simple_trace_gz.gz",
        "catapult-simple_trace_zip.zip",
        "catapult-simple_trace.json",
        "catapult-nanoseconds.json",
        "gaogaotiantian-viztracer-logging_integration.json",
    ],
)
is_here = pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")

GPU, HOST = "/device:GPU:0", "/host:CPU"


def ran(name="op", ts=0, dur=1, **fields):
    """Return a complete event."""
    return {"ph": "X", "pid": 1, "tid": 1, "name": name, "ts": ts, "dur": dur} | fields


def begins(name, ts, **fields):
    """Return an event that begins an op."""
    return {"ph": "B", "pid": 1, "tid": 1, "name": name, "ts": ts} | fields


def ends(ts, **fields):
    """Return an event that ends one."""
    return {"ph": "E", "pid": 1, "tid": 1, "ts": ts} | fields


def called(name, pid=1, tid=None):
    """Return the event that names a process or, with ``tid``, a thread."""
    kind = "process_name" if tid is None else "thread_name"
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def read(*events, **keys):
    """Return the run of a trace with these events."""
    return parse_run(json.dumps({**keys, "traceEvents": events}).encode(), source="t")


def ops_of(run, *columns):
    """Return the ops of a run by name and, of each, some columns or its times."""
    table = run.trace.ops.select("name", *(columns or ("start_us", "duration_us")))
    return {name: tuple(rest) for name, *rest in table.iter_rows()}


# Any program


def test_processes_are_rows_and_threads_lanes():
    """A process without a name is called by its number."""
    run = read(
        called("server"),
        ran("a", 5),
        ran("b", 5, tid=2),
        ran("c", 6, pid=7, cat="io"),
    )

    assert run.format == "chrome-trace"
    assert ops_of(run, "row", "row_kind", "device", "op_type", "lane") == {
        "a": ("server", "other", "server", "", 0),
        "b": ("server", "other", "server", "", 1),
        "c": ("process 7", "other", "process 7", "io", 0),
    }


def test_processes_of_one_name_are_told_apart_by_number():
    """Workers of a pool share a name and are several processes all the same."""
    run = read(called("worker", 1), called("worker", 2), ran("a"), ran("b", pid=2))

    assert ops_of(run, "row") == {"a": ("worker (1)",), "b": ("worker (2)",)}


def test_a_name_may_come_after_what_it_is_for():
    """Some programs write their names at the end."""
    assert ops_of(read(ran("a"), called("late")), "row") == {"a": ("late",)}


def test_begins_and_ends_are_ops_whatever_their_order():
    """They are matched in order of time, each thread for itself."""
    run = read(
        ends(30, name="a"),
        begins("a", 10),
        begins("b", 12),
        begins("c", 11, tid=2),
        ends(20),
        ends(13, tid=2),
    )

    assert ops_of(run) == {"a": (0, 20), "b": (2, 8), "c": (1, 2)}
    assert ops_of(run, "lane")["b"] != ops_of(run, "lane")["a"]
    assert run.trace.skipped == {"end of an op": 3}


def test_a_begin_without_an_end_is_no_op():
    """Nor is an end without a begin, or what says no duration."""
    unusable = [ran("no dur"), ran("negative", dur=-1), ran("text", ts="soon")]
    del unusable[0]["dur"]
    run = read(ends(1), ran("a", 2), begins("open", 3), *unusable)

    assert ops_of(run) == {"a": (0, 1)}
    assert run.trace.skipped == {
        "end without begin": 1,
        "begin without end": 1,
        "op without a usable time": 3,
    }


def test_numbers_may_be_text():
    """Processes, threads and times are written so by some."""
    run = read(ran("a", "10.5", "2", pid="p", tid="t"), ran("b", "20", 1, pid="p"))

    assert ops_of(run, "row", "start_us", "duration_us") == {
        "a": ("process p", 0, 2),
        "b": ("process p", 9, 1),
    }


def test_fractions_of_a_large_clock_are_kept():
    """The time since 1970 in µs leaves room for a fraction, before it is rounded."""
    since_1970 = 1_700_000_000_000_000

    run = read(ran("a", since_1970 + 0.25, 1.5), ran("b", since_1970 + 1.75, 0.25))

    assert ops_of(run) == {"a": (0, 2), "b": (2, 0)}
    assert run.trace.origin_us == since_1970


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5_000), min_size=2, max_size=8),
    # A profiler of TensorFlow writes ps from the start of the profile, one of PyTorch
    # ns from the start of the machine.
    st.sampled_from(
        [(0, 1), (2_590_162_881_333, 1), (1_212_075_548_353_304_000, 1000)]
    ),
)
def test_ops_that_follow_each_other_still_do_in_microseconds(lengths, clock):
    """Rounding makes no op overlap the next, nor nests it in another."""
    origin_ps, unit_ps = clock
    lengths_ps = [n * unit_ps for n in lengths]
    bounds_ps = [*itertools.accumulate(lengths_ps, initial=origin_ps)]
    events = [
        ran(f"op{i}", begin / 1e6, n / 1e6)
        for i, (begin, n) in enumerate(zip(bounds_ps, lengths_ps, strict=False))
        # What has no length in the unit of the columns is nobody's neighbour.
        if n >= 1000
    ]
    assume(events)

    table = read(*events).trace.ops.sort("start_us", "duration_us")

    stops = (table["start_us"] + table["duration_us"]).to_list()
    assert all(map(int.__le__, stops, table["start_us"].to_list()[1:]))
    assert table["lane"].to_list() == [0] * len(events)


def test_what_happened_within_something_else_has_a_lane_of_its_own():
    """Lanes count how many others an op lies in, and what overlaps has two."""
    run = read(ran("a", 0, 20), ran("b", 1, 8), ran("c", 2, 3), ran("d", 12, 20))

    assert ops_of(run, "lane") == {"a": (0,), "b": (1,), "c": (2,), "d": (1,)}


def test_every_other_event_is_counted_by_a_word():
    """Nothing is left out without a word."""
    others = [{"ph": phase, "pid": 1, "ts": 1} for phase in "MCsfbeiINODP"]

    run = read(ran(), *others, {})

    assert run.trace.skipped == {
        "row label": 1,
        "counter": 1,
        "flow arrow": 2,
        "async event": 2,
        "moment": 2,
        "object": 3,
        "sample": 1,
        "other": 1,
    }


def test_a_trace_without_ops_is_said_to_be_one():
    """Counters and labels are no ops."""
    with pytest.raises(NoOpsError, match=r"^t: no op among 2 events; expected events"):
        read(called("worker"), {"ph": "C", "ts": 1, "pid": 1})


def test_a_trace_that_was_cut_off_is_read_up_to_there():
    """Of begins and ends alone, too, and of a profile that begins with its machine."""
    pair = json.dumps([begins("a", 1), ends(4)])[:-1]
    profile = '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": ['
    kernel = json.dumps(ran("k", cat="kernel", args={"device": 1, "stream": 2}))

    plain = parse_run(f'{pair}, {{"ph": "X", "na'.encode(), source="t")
    kineto = parse_run(f'{profile}{kernel}, {{"ph": "X"'.encode(), source="t")

    assert ops_of(plain) == {"a": (0, 3)}
    assert ops_of(kineto, "device", "row") == {
        "k": ("/device:GPU:1", "/device:GPU:1/stream:2")
    }
    for run in (plain, kineto):
        assert [n.code for n in run.trace.notices] == ["cut-off", "no-placement"]


def test_damage_before_the_first_op_is_what_is_wrong():
    """Not that there is no op."""
    text = json.dumps([called("worker")])[:-1] + ', {"ph": "X", "na'

    with pytest.raises(TraceFormatError, match="cut off"):
        parse_run(text.encode(), source="t")


@pytest.mark.parametrize(
    ("events", "whose"),
    [
        ([begins("NEGOTIATE_ALLREDUCE", 1), ends(2)], "Horovod"),
        ([begins("NEGOTIATE_ALLTOALL", 1), ran("3", 1, 0), ends(2)], "Horovod"),
        ([begins("PUSH_PULLCOMMUNICATION", 1), ends(2)], "BytePS"),
    ],
)
def test_a_trace_of_tensors_is_refused_by_the_name_of_its_program(events, whose):
    """And it is said what to capture instead."""
    with pytest.raises(TraceFormatError) as caught:
        read(called("gradient_0"), *events)

    assert f"found a {whose} timeline, which records tensors" in str(caught.value)
    assert "`placement-viz capture` on the script of one worker" in str(caught.value)


def test_a_program_that_only_pushes_is_not_taken_for_another():
    """A common word among the names does not make a trace one of tensors."""
    assert ops_of(read(ran("PUSH"), ran("ALLREDUCE", 2))) == {
        "PUSH": (0, 1),
        "ALLREDUCE": (2, 1),
    }


def test_half_a_character_in_a_name_harms_nobody():
    """A name that was cut in the middle of a character is still a name."""
    run = parse_run(
        rb'[{"ph": "X", "name": "a\ud83d", "ts": 1, "dur": 2, "pid": 1}]', source="t"
    )

    assert run.trace.ops["name"].to_list() == ["a?"]


# The profiler of TensorFlow 2 and JAX


def profile(*events):
    """Return the run of a profile with one GPU and the host, rows 1 and 2."""
    labels = [
        called(GPU),
        called("Stream #7(Kernel)", tid=7),
        called("stream #8(MemcpyD2H)", tid=8),
        called("Steps", tid=90),
        called("XLA Ops", tid=91),
        called(HOST, pid=2),
    ]
    return read(*labels, *events, {}, displayTimeUnit="ns")


def test_a_profile_shows_kernels_by_the_op_that_they_ran_for():
    """Copies are a row of their own and of the type of their kind."""
    run = profile(
        ran("sgemm", 1, tid=7, args={"tf_op": "mm:MatMul"}),
        ran("void k()", 2, tid=7, args={"hlo_op": "fusion.1", "tf_op": "XlaModule:"}),
        ran("void bare()", 3, tid=7),
        ran("MemcpyH2D", 4, tid=7, args={"tf_op": "mm:MatMul"}),
        ran("MemcpyD2H", 5, tid=8),
        ran("mm", 1, tid=91),
    )

    assert run.format == "tensorflow-profiler"
    columns = ("name", "op_type", "row", "row_kind", "device")
    assert run.trace.ops.select(columns).rows() == [
        ("mm", "MatMul", f"{GPU}/stream:7", "stream", GPU),
        ("fusion.1", "", f"{GPU}/stream:7", "stream", GPU),
        ("void bare()", "", f"{GPU}/stream:7", "stream", GPU),
        ("mm", "MemcpyH2D", f"{GPU}/memcpy", "memcpy", GPU),
        ("MemcpyD2H", "MemcpyD2H", f"{GPU}/memcpy", "memcpy", GPU),
    ]
    assert run.trace.skipped == {"row label": 6, "derived event": 1, "other": 1}


def test_a_profile_shows_ops_of_the_host_and_counts_the_calls_around_them():
    """An op of the host is displayed by its type, and its whole name stands beside."""
    run = profile(
        ran("MatMul", 1, pid=2, args={"long_name": "layer/mm:MatMul"}),
        ran("fusion", 2, pid=2, args={"hlo_op": "fusion"}),
        ran("ExecutorState::Process", 3, pid=2),
        ran("cudaLaunchKernel", 4, pid=2, args={"tf_op": "layer/mm:MatMul"}),
    )

    assert ops_of(run, "op_type", "row", "row_kind") == {
        "layer/mm": ("MatMul", HOST, "other"),
        "fusion": ("", HOST, "other"),
    }
    assert run.trace.skipped["host event"] == 2


def test_a_profile_in_which_no_op_is_named_shows_what_the_host_did():
    """Better than nothing, and it is said."""
    run = profile(ran("train_function", 1, 9, pid=2), ran("Execute", 2, 3, pid=2))

    assert ops_of(run, "row", "lane") == {
        "train_function": (HOST, 0),
        "Execute": (HOST, 1),
    }
    assert [n.code for n in run.trace.notices] == ["no-placement", "only-calls"]


def test_steps_of_a_profile_are_those_of_its_devices():
    """An event of a group is of the group's step, whenever it ran."""
    run = profile(
        ran("17", 10, 5, tid=90, args={"group_id": "1"}),
        ran("18", 20, 5, tid=90, args={"group_id": 2}),
        ran("early", 11, tid=7),
        ran("late", 21, tid=7),
        ran("grouped", 12, tid=7, args={"group_id": "2"}),
        ran("mm:MatMul", 5, pid=2),
    )

    assert ops_of(run, "step") == {
        "early": (0,),
        "late": (1,),
        "grouped": (1,),
        "mm": (0,),
    }


def test_steps_of_a_profile_may_be_counted_by_its_program():
    """Where the devices show none."""
    run = profile(
        ran("train", 10, 5, pid=2, args={"step_num": "0"}),
        ran("train", 20, 5, pid=2, args={"step_num": "1"}),
        ran("a", 11, tid=7),
        ran("b", 21, tid=7),
    )

    assert ops_of(run, "step") == {"a": (0,), "b": (1,)}


def test_the_name_of_a_host_before_that_of_a_device_does_no_harm():
    """XProf writes it."""
    run = read(called("node7 /device:TPU:1"), called("XLA Ops", tid=1), ran("fusion.3"))

    assert ops_of(run, "device", "row_kind") == {
        "fusion.3": ("/device:TPU:1", "stream")
    }


# PyTorch's profiler


def test_a_profile_of_pytorch_shows_kernels_copies_and_operators():
    """Calls around them are counted by what they are."""
    run = read(
        called("python3", 9),
        called("python3", 0),
        ran("aten::mm", 1, 9, pid=9, cat="cpu_op"),
        ran("aten::empty", 2, 1, pid=9, cat="cpu_op"),
        ran("sgemm", 4, cat="kernel", pid=0, args={"device": 0, "stream": 7}),
        ran("Memcpy HtoD", 5, cat="gpu_memcpy", pid=0, args={"device": 1}),
        ran("cudaLaunchKernel", 3, pid=9, cat="cuda_runtime"),
        ran("hipLaunch", 3, pid=9, cat="hip_runtime"),
        ran("loss", 3, pid=9, cat="user_annotation"),
        ran("train.py", 3, pid=9, cat="python_function"),
        ran("x", 3, pid=9, cat="new_kind"),
        deviceProperties=[],
    )

    assert run.format == "kineto"
    assert ops_of(run, "op_type", "row", "row_kind", "device", "lane") == {
        "aten::mm": ("", "python3", "other", "python3", 0),
        "aten::empty": ("", "python3", "other", "python3", 1),
        "sgemm": ("", "/device:GPU:0/stream:7", "stream", "/device:GPU:0", 0),
        "Memcpy HtoD": (
            "Memcpy HtoD",
            "/device:GPU:1/memcpy",
            "memcpy",
            "/device:GPU:1",
            0,
        ),
    }
    assert run.trace.skipped == {
        "row label": 2,
        "runtime call": 2,
        "annotation": 1,
        "call in Python": 1,
        "new_kind": 1,
    }


def test_steps_of_pytorch_are_those_of_its_profiler():
    """On a device they are where it shows them there, for what runs there is late."""
    step = {"cat": "user_annotation"}
    kernel = {"cat": "kernel", "pid": 0, "args": {"device": 0, "stream": 7}}
    host = [
        ran("ProfilerStep#3", 10, 10, **step),
        ran("ProfilerStep#4", 20, 10, **step),
        ran("a", 12, cat="cpu_op"),
        ran("b", 22, cat="cpu_op"),
        ran("k", 21, **kernel),
    ]
    shown = {"cat": "gpu_user_annotation", "pid": 0}
    there = [
        ran("ProfilerStep#3", 15, 10, **shown),
        ran("ProfilerStep#4", 25, 10, **shown),
    ]

    assert ops_of(read(*host), "step") == {"a": (0,), "b": (1,), "k": (1,)}
    assert ops_of(read(*host, *there), "step") == {"a": (0,), "b": (1,), "k": (0,)}


# What is said of them


def test_nothing_is_judged_and_that_is_said_once():
    """The note of the reader is the only one."""
    analysis = analyze_run(profile(ran("sgemm", 1, tid=7)))

    assert [notice.code for notice in analysis.notices] == ["no-placement"]
    assert analysis.colocation.gradients.is_empty()


# Laws


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=14))
def test_ends_are_matched_as_brackets_are(events):
    """Taking away neighbours that belong together, again and again, gives the same."""
    times, is_end = [time for time, _ in events], [end for _, end in events]
    left = sorted(range(len(events)), key=times.__getitem__)
    expected = [None] * len(events)
    while found := [
        i for i in range(len(left) - 1) if not is_end[left[i]] and is_end[left[i + 1]]
    ]:
        begin, end = left[found[0]], left[found[0] + 1]
        expected[begin] = end
        left = [i for i in left if i not in {begin, end}]

    assert matching_ends(times, is_end) == expected


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12)


@given(spans)
def test_ops_of_one_depth_never_overlap(found):
    """Whatever overlaps what, a lane shows one op at a time."""
    starts, stops = [s for s, _ in found], [s + n for s, n in found]
    nested = depths(starts, stops)

    for i, j in itertools.combinations(range(len(found)), 2):
        overlap = min(stops[i], stops[j]) - max(starts[i], starts[j])
        assert overlap <= 0 or nested[i] != nested[j]


@given(st.lists(st.integers(0, 40), min_size=2, max_size=20, unique=True))
def test_a_depth_is_the_number_of_ops_around(bounds):
    """Where ops lie in each other or apart, as calls of functions do."""
    bounds.sort()
    half = len(bounds) // 2
    inside = list(zip(bounds[:half], reversed(bounds[half:]), strict=False))
    starts = [*(s for s, _ in inside), 100]
    stops = [*(e for _, e in inside), 101]

    assert depths(starts, stops) == [*range(len(inside)), 0]


numbers = st.integers(-3, 40) | st.sampled_from([0.25, 7.5, "8", "x", None, 1e300])
any_events = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from("XXXBBEECMsfbiNPq"),
            "name": st.sampled_from(["a", "mm:MatMul", "Memcpy", "process_name"]),
            "pid": st.sampled_from([1, 2, "p", None]),
            "tid": st.sampled_from([1, 7, None]),
            "ts": numbers,
            "dur": numbers,
            "cat": st.sampled_from(["kernel", "cpu_op", "Trace", "gpu_memset", None]),
            "args": st.sampled_from([None, {}, [], {"device": 0}, {"hlo_op": "a"}]),
        }
    ),
    max_size=14,
)
HEADS = {
    "chrome-trace": [],
    "tensorflow-profiler": [called(GPU), called("Stream #1(Kernel)", tid=1)],
    "kineto": [ran(cat="gpu_memset", args={"device": 3})],
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@settings(deadline=None)
@given(any_events)
def test_every_event_is_an_op_or_is_counted(head, found):
    """Of a pair that is one op, the end is what is counted."""
    events = [*head, ran("sure"), *found]
    try:
        trace = read(*events).trace
    except NoOpsError as error:
        (n_events,) = re.findall(r"no op among (\d+) event", str(error))
        assert int(n_events) == len(events)
        return

    assert trace.ops.height + sum(trace.skipped.values()) == len(events)


# Real files


def real_events(name):
    """Return the events of a real trace, with what its end lacks put there."""
    data = (CORPUS / name).read_bytes()
    if name.endswith("gz"):
        data = gzip.decompress(data)
    if name.endswith("zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            data = packed.read(packed.namelist()[0])
    text = data.decode().rstrip().rstrip(",")
    for end in ("", "]", "]}"):
        try:
            trace = json.loads(text + end)
            break
        except json.JSONDecodeError:
            continue
    return trace if isinstance(trace, list) else trace["traceEvents"]


def spans_of(events):
    """Return thread, start and end of complete events and of pairs, walking along."""
    found, open_begins = [], collections.defaultdict(list)
    in_order = sorted(
        (e for e in events if e.get("ph") in set("XBE")), key=lambda e: float(e["ts"])
    )
    for event in in_order:
        thread, start = (event["pid"], event["tid"]), float(event["ts"])
        if event["ph"] == "B":
            open_begins[thread].append(start)
        elif event["ph"] == "E":
            found.append((thread, open_begins[thread].pop(), start))
        elif "dur" in event:
            found.append((thread, start, start + event["dur"]))
    return found


def assert_same_times(ops, origin_us, expected):
    """Compare the starts and the ends of ops with others, in any order."""
    starts = sorted(origin_us + ops["start_us"])
    stops = sorted(origin_us + ops["start_us"] + ops["duration_us"])
    assert starts == pytest.approx(sorted(s for s, _ in expected), abs=0.51)
    assert stops == pytest.approx(sorted(e for _, e in expected), abs=0.51)


@is_here
@pytest.mark.parametrize("name", [*PROFILER, *OTHER])
def test_every_op_of_a_real_trace_is_there(name):
    """Processes and times agree with a plain walk over the JSON."""
    trace = load_run(CORPUS / name).trace
    events = real_events(name)
    expected = spans_of(events)

    assert trace.ops.height + sum(trace.skipped.values()) == len(events)
    assert trace.ops["row"].n_unique() == len({pid for (pid, _), *_ in expected})
    assert_same_times(trace.ops, trace.origin_us, [span for _, *span in expected])


@is_here
@pytest.mark.parametrize("name", KINETO)
def test_every_kernel_of_a_real_profile_of_pytorch_is_there(name):
    """On its stream, like every copy on its device and every operator on the host."""
    trace = load_run(CORPUS / name).trace
    expected = collections.defaultdict(list)
    for event in real_events(name):
        row = {
            "cpu_op": "other",
            "kernel": "stream {stream}",
            "gpu_memcpy": "memcpy {device}",
            "gpu_memset": "memcpy {device}",
        }.get(event.get("cat"))
        if row and event["ph"] == "X":
            span = (event["ts"], event["ts"] + event["dur"])
            expected[row.format(**event["args"])].append(span)

    found = collections.defaultdict(list)
    for (row, kind), ops in trace.ops.partition_by(
        "row", "row_kind", as_dict=True
    ).items():
        number = row.split(":")[-1].removesuffix("/memcpy")
        found["other" if kind == "other" else f"{kind} {number}"] = ops
    assert found.keys() == expected.keys()
    for row, ops in found.items():
        assert_same_times(ops, trace.origin_us, expected[row])
    n_events = len(real_events(name))
    assert trace.ops.height + sum(trace.skipped.values()) == n_events


@is_here
def test_steps_of_a_real_profile_of_pytorch_are_counted():
    """As many as its profiler marked, as far as an operator ran in them."""
    marked = {e["name"] for e in real_events(KINETO[1]) if "ProfilerS" in e["name"]}

    assert load_run(CORPUS / KINETO[1]).trace.n_steps == len(marked)


@is_here
@pytest.mark.parametrize("name", [*PROFILER, *KINETO, *OTHER])
def test_a_real_trace_is_drawn_and_described(name):
    """Every op that is not in a block is a bar, and the answer is a sentence."""
    analysis = analyze_run(load_run(CORPUS / name))
    figure = timeline_figure(analysis)

    assert analysis.usage
    assert sum(len(trace.x) for trace in figure.data) > 0
    assert "no-placement" in [notice.code for notice in analysis.notices]


@is_here
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name", ["openxla-xprof-34_83_195_179_6003", "tracelens-jax-tw003"]
)
def test_a_profile_is_the_same_in_both_of_its_formats(name):
    """What TensorFlow's trace viewer makes of an XSpace is read as the XSpace is."""
    pytest.importorskip("tensorflow.python.profiler.internal._pywrap_profiler_plugin")
    from tensorflow.python.profiler.internal import _pywrap_profiler_plugin as plugin
    from tensorflow.tsl.profiler.protobuf import trace_events_pb2

    path = CORPUS / f"{name}.xplane.pb"
    data, _ = plugin.xspace_to_tools_data([str(path)], "trace_viewer", {})
    message = trace_events_pb2.Trace.FromString(data)
    events = []
    for pid, process in message.devices.items():
        events.append(called(process.name, pid))
        events += [called(t.name, pid, tid) for tid, t in process.resources.items()]
    events += [
        ran(
            event.name,
            event.timestamp_ps / 1e6,
            event.duration_ps / 1e6,
            pid=event.device_id,
            tid=event.resource_id,
            args=dict(event.args),
        )
        for event in message.trace_events
    ]

    columns = ["row", "start_us", "duration_us", "name", "op_type", "step", "row_kind"]
    one, other = (
        run.trace.ops.select(columns).sort(columns)
        for run in (load_run(path), read(*events))
    )
    assert one.equals(other)


def test_a_long_name_of_a_process_does_not_become_a_long_sentence():
    """Anybody may call a process anything."""
    found = headline(analyze_run(read(called("p" * 100_000), ran("n" * 100_000))))

    assert len(found) < 250


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
values |= st.lists(values, max_size=2) | st.dictionaries(st.text(max_size=3), values)
FIELDS = ("name", "pid", "tid", "ts", "dur", "cat", "args")
odd_events = st.lists(
    st.builds(
        lambda phase, odd: {**ran(cat="kernel"), "ph": phase, **odd},
        st.sampled_from("XBEM"),
        st.dictionaries(st.sampled_from(FIELDS), values, max_size=4),
    ),
    max_size=6,
)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@settings(deadline=None)
@given(odd_events)
def test_any_events_give_a_run_or_a_trace_error(head, found):
    """Whatever stands in their fields; and what is a run can be analysed."""
    try:
        run = read(*head, *found)
    except TraceError as error:
        run, message = None, str(error)

    if run is None:
        assert "\n" not in message
    else:
        assert analyze_run(run).run.trace.ops["duration_us"].min() >= 0
