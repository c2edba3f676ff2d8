"""Timelines of every era of TensorFlow, as its own writer makes them.

A row of a table is what the executor or a tracer of that era recorded, (row, node,
label), and what is to be read of it, (node, type, device, kind of row).

Source:
    ``step_stats_collector.cc``, ``worker_cache_logger.cc``, ``gpu_tracer.cc``,
    ``device_tracer.cc``, ``host_tracer.cc`` and ``xplane_to_step_stats.cc`` of those
    versions.
"""

import itertools

import pytest

from placement_viz import analyze_run, parse_run
from tests.builders import device

pytestmark = pytest.mark.tensorflow

OLD = "/job:localhost/replica:0/task:0"
NEW = "/job:localhost/replica:0/task:0/device"
WORKER = "/job:worker/replica:0/task:1/device"
PS = "/job:ps/replica:0/task:0/device"
V100 = "/gpu:1 (Tesla V100-SXM2-16GB)/context#0"
EIGEN = "void Eigen::internal::EigenMetaKernel<float>"
TOTAL, PEAK = "[cuda_host_bfc 0.4MB]", "[GPU_0_bfc 4.0MB 8.0MB]"

# fmt: off
ERAS = {
    "up to 1.2": [
        (f"{OLD}/cpu:0", "_SOURCE", "_SOURCE = NoOp()",
            ("_SOURCE", "NoOp", f"{NEW}:CPU:0", "executor")),
        (f"{OLD}/gpu:0", "fwd", "fwd = MatMul(x/_1, w)",
            ("fwd", "MatMul", f"{NEW}:GPU:0", "executor")),
        ("/gpu:0/stream:all", "fwd:MatMul", "",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
        ("/gpu:0/stream:12", "fwd:MatMul", "",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
        ("/gpu:0/memcpy", "edge_7_x:MEMCPYDtoH",
            "MEMCPYDtoH 512 bytes (Device to Pageable)",
            ("edge_7_x", "MEMCPYDtoH", "/device:GPU:0", "memcpy")),
    ],
    "devices without a task": [
        ("/cpu:0", "x", "x = Const()",
            ("x", "Const", "/device:CPU:0", "other")),
        ("/gpu:0", "fwd", "fwd = MatMul(x, w)",
            ("fwd", "MatMul", "/device:GPU:0", "other")),
        ("/device:GPU:1", "fwd", "fwd = MatMul(x, w)",
            ("fwd", "MatMul", "/device:GPU:1", "other")),
    ],
    "1.3 to 1.13": [
        (f"{NEW}:GPU:0", "fwd", "fwd = MatMul(x, w)",
            ("fwd", "MatMul", f"{NEW}:GPU:0", "executor")),
        ("/device:GPU:0/stream:all", "fwd:MatMul", "",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
        ("/device:GPU:0/stream:20", "fwd:MatMul", "",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
        ("/device:GPU:0/stream:20", "unknown", "",
            ("unknown", "unknown", "/device:GPU:0", "stream")),
        ("/device:GPU:0/memcpy", "edge_7572_x:MEMCPYDtoH",
            "MEMCPYDtoH 512 bytes (Device to Pageable)",
            ("edge_7572_x", "MEMCPYDtoH", "/device:GPU:0", "memcpy")),
        ("/device:GPU:0/memcpy", "fwd:MatMul:MEMCPYHtoD",
            "MEMCPYHtoD 4 bytes (Pinned to Device)",
            ("fwd", "MatMul", "/device:GPU:0", "memcpy")),
        ("/device:GPU:0/stream:22", "edge_7572_x:MEMCPYDtoH",
            "MEMCPYDtoH 512 bytes (Device to Pageable)",
            ("edge_7572_x", "MEMCPYDtoH", "/device:GPU:0", "stream")),
    ],
    "1.14 to 2.1": [
        (f"{NEW}:GPU:1", "fwd", "fwd = MatMul(x, w)",
            ("fwd", "MatMul", f"{NEW}:GPU:1", "executor")),
        ("/device:GPU:1/stream:all", "fwd:MatMul::volta_sgemm_32x32_nn", "",
            ("fwd", "MatMul", "/device:GPU:1", "stream")),
        (f"{V100}/stream#1:Kernel", "fwd:MatMul::volta_sgemm_32x32_nn", "",
            ("fwd", "MatMul", "/device:GPU:1", "stream")),
        (f"{V100}/stream#1", f"a/b-c/d_1:BiasAdd::{EIGEN}", "",
            ("a/b-c/d_1", "BiasAdd", "/device:GPU:1", "stream")),
        (f"{V100}/null stream:Kernel", EIGEN, "",
            (EIGEN, "unknown", "/device:GPU:1", "stream")),
        (f"{V100}/null stream", "volta_sgemm_32x32_nn", "",
            ("volta_sgemm_32x32_nn", "unknown", "/device:GPU:1", "stream")),
        # The writer leaves nothing of the type of this one.
        ("/device:GPU:1/stream:all", "edge_12_x::MemcpyDtoH", "512 bytes",
            ("edge_12_x", "", "/device:GPU:1", "stream")),
        (f"{V100}/stream#3:MemcpyDtoH", "edge_12_x::MemcpyDtoH", "512 bytes",
            ("edge_12_x", "MemcpyDtoH", "/device:GPU:1", "memcpy")),
        (f"{V100}/stream#2:MemcpyHtoD", "fwd:MatMul::MemcpyHtoD", "4 bytes",
            ("fwd", "MatMul", "/device:GPU:1", "memcpy")),
        (f"{V100}/null stream:MemcpyHtoD", "MemcpyHtoD", "4 bytes",
            ("MemcpyHtoD", "MemcpyHtoD", "/device:GPU:1", "memcpy")),
        ("/host:CPU", "fwd:MatMul", "id=7",
            ("fwd", "MatMul", "/host:CPU", "other")),
        ("/host:CPU", "ExecutorState::Process", "",
            ("ExecutorState::Process", "unknown", "/host:CPU", "other")),
    ],
    "2.2 and later": [
        (f"{NEW}:GPU:0", "fwd", "fwd = MatMul(x, w)",
            ("fwd", "MatMul", f"{NEW}:GPU:0", "executor")),
        ("/device:GPU:0/stream:20", "fwd:MatMul", "ampere_sgemm regs:57 grid:8,1,1",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
        ("/device:GPU:0/stream:all", "fwd:MatMul", "ampere_sgemm regs:57 grid:8,1,1",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
        ("/device:GPU:0/stream:all", "ampere_sgemm", "ampere_sgemm regs:57",
            ("ampere_sgemm", "unknown", "/device:GPU:0", "stream")),
        ("/device:GPU:0/stream:21<MemcpyD2H>", "MemcpyD2H", "MemcpyD2H size:512",
            ("MemcpyD2H", "MemcpyD2H", "/device:GPU:0", "memcpy")),
        ("/device:GPU:0/memcpy", "fwd:MatMul", "MemcpyD2H size:512",
            ("fwd", "MatMul", "/device:GPU:0", "memcpy")),
        ("/device:GPU:0/stream:", "Memset", "Memset",
            ("Memset", "unknown", "/device:GPU:0", "stream")),
        ("/device:GPU:0/sync", "cuStreamSynchronize", "ThreadId 7",
            ("cuStreamSynchronize", "unknown", "/device:GPU:0", "other")),
        # Graphics cards of AMD: the annotation is in the label.
        ("/device:GPU:0/stream:3<Kernel>", "Cijk_Ailk", "Cijk_Ailk grid:8@@fwd:MatMul#",
            ("fwd", "MatMul", "/device:GPU:0", "stream")),
    ],
    "DeepRec": [
        (f"{NEW}:GPU:1", "fwd", "fwd = MatMul(x, w)",
            ("fwd", "MatMul", f"{NEW}:GPU:1", "executor")),
        ("/device:GPU:1/stream:all", "fwd:MatMul@@volta_sgemm", "",
            ("fwd", "MatMul", "/device:GPU:1", "stream")),
        (f"{V100}/stream#1:Kernel", f"fwd:MatMul@@{EIGEN}", "",
            ("fwd", "MatMul", "/device:GPU:1", "stream")),
        (f"{V100}/stream#3:MemcpyDtoH", "edge_12_x@@MemcpyDtoH", "512 bytes",
            ("edge_12_x", "MemcpyDtoH", "/device:GPU:1", "memcpy")),
        ("/host:CPU Launch:all", f"fwd:MatMul@@volta_sgemm##{V100}/stream#1:Kernel", "",
            ("fwd", "MatMul", "/host:CPU Launch:all", "other")),
        ("/host:CPU Launch:all", f"edge_12_x@@MemcpyDtoH##{V100}/stream#3", "512 bytes",
            ("edge_12_x", "MemcpyDtoH", "/host:CPU Launch:all", "other")),
    ],
    "several jobs and tasks": [
        (f"{PS}:CPU:0", "w", "w = VariableV2()",
            ("w", "VariableV2", f"{PS}:CPU:0", "executor")),
        (f"{WORKER}:GPU:0", "fwd", "fwd = MatMul(x, w/_7)",
            ("fwd", "MatMul", f"{WORKER}:GPU:0", "executor")),
        (f"{WORKER}:GPU:1", "fwd/_7", "fwd/_7 = _HostRecv()",
            ("fwd/_7", "_HostRecv", f"{WORKER}:GPU:1", "executor")),
        # 1.x, later 1.x with the rate, and DeepRec.
        (f"{WORKER}:GPU:0", "RecvTensor",
            f"[4.1MB] edge_7_w from {PS}:CPU:0 to {WORKER}:GPU:0",
            ("RecvTensor", "RecvTensor", f"{WORKER}:GPU:0", "receive")),
        (f"{WORKER}:GPU:0", "RecvTensor",
            f"[4.1MB] [1.2Gb/s] edge_7_w from {PS}:CPU:0 to {WORKER}:GPU:0",
            ("RecvTensor", "RecvTensor", f"{WORKER}:GPU:0", "receive")),
        (f"{WORKER}:GPU:0", "RecvTensor",
            f"[4.1MB];[8.0Mb/s];edge_7_w;{PS}:CPU:0 ==> {WORKER}:GPU:0",
            ("RecvTensor", "RecvTensor", f"{WORKER}:GPU:0", "receive")),
        # A piece of a collective op.
        (f"{WORKER}:GPU:0", "RecvBuf",
            f"[512B] [8.0Mb/s] 3:0;1 from {PS}:CPU:0 to {WORKER}:GPU:0",
            ("RecvBuf", "unknown", f"{WORKER}:GPU:0", "receive")),
    ],
    "labels": [
        (f"{NEW}:GPU:0", "big", f"{PEAK} big = MatMul(x, w)",
            ("big", "MatMul", f"{NEW}:GPU:0", "executor")),
        (f"{NEW}:GPU:0", "two", f"{TOTAL} {PEAK} two = AddN(x, w, ^big)",
            ("two", "AddN", f"{NEW}:GPU:0", "executor")),
        # _Send and _Recv up to 1.x: the writer looks for the last parenthesis.
        (f"{NEW}:GPU:0", "x/_5", f"x/_5 = _Recv(edge_5_x @{NEW}:CPU:0",
            ("x/_5", "unknown", f"{NEW}:GPU:0", "executor")),
        (f"{NEW}:GPU:0", "bare", "",
            ("bare", "unknown", f"{NEW}:GPU:0", "executor")),
        (f"{NEW}:XLA_GPU:0", "cluster", "cluster = _XlaRun(x)",
            ("cluster", "_XlaRun", f"{NEW}:XLA_GPU:0", "executor")),
    ],
}
# fmt: on


def step_stats(*nodes):
    """Return StepStats; a node is (row, name, label) and perhaps (start, duration).

    Nodes of one row that follow each other share its entry. Each has one output.
    """
    from tensorflow.core.framework import step_stats_pb2

    stats = step_stats_pb2.StepStats()
    timed = enumerate(nodes)
    for row, group in itertools.groupby(timed, key=lambda each: each[1][0]):
        entry = stats.dev_stats.add(device=row)
        for position, (_, name, label, *times) in group:
            start, duration = times or (100 * (1 + position), 10)
            node = entry.node_stats.add(
                node_name=name,
                timeline_label=label,
                all_start_micros=start,
                all_end_rel_micros=duration,
            )
            memory = node.output.add().tensor_description.allocation_description
            memory.requested_bytes, memory.allocator_name = 512, "GPU_0_bfc"
    return stats


def timeline_of(stats, **options):
    """Return what TensorFlow's own writer makes of ``stats``."""
    from tensorflow.core.framework import step_stats_pb2
    from tensorflow.python.client.timeline import Timeline

    own = step_stats_pb2.StepStats()
    own.CopyFrom(stats)  # for it writes lanes into them
    return Timeline(own).generate_chrome_trace_format(**options).encode()


def read(data):
    """Return the trace in ``data``."""
    return parse_run(data, source="run").trace


def run_metadata(stats):
    """Return the message that a session gives, around ``stats``."""
    from tensorflow.core.protobuf import config_pb2

    return config_pb2.RunMetadata(step_stats=stats)


@pytest.mark.parametrize("era", ERAS)
def test_an_era_is_read_as_it_was_meant(era):
    """Node, type, device and kind of row are what the tracer of that time meant."""
    stats = step_stats(*(row[:3] for row in ERAS[era]))

    found = read(timeline_of(stats)).ops

    columns = ["name", "op_type", "device", "row_kind"]
    assert found.select(columns).rows() == [row[3] for row in ERAS[era]]
    assert found["row"].to_list() == [row[0] for row in ERAS[era]]


@pytest.mark.parametrize("era", ERAS)
def test_messages_and_timelines_of_an_era_hold_the_same_ops(era):
    """With and without memory and data flow, and as either message in either form."""
    from google.protobuf import text_format

    stats = step_stats(*(row[:3] for row in ERAS[era]))
    metadata = run_metadata(stats)

    plain = read(timeline_of(stats)).ops
    others = {
        "with memory": timeline_of(stats, show_memory=True),
        "without data flow": timeline_of(stats, show_dataflow=False),
        "StepStats": stats.SerializeToString(),
        "RunMetadata": metadata.SerializeToString(),
        "StepStats as text": text_format.MessageToString(stats).encode(),
        "RunMetadata as text": text_format.MessageToString(metadata).encode(),
    }

    assert plain.height == len(ERAS[era])
    same = {kind: read(data).ops.equals(plain) for kind, data in others.items()}
    assert same == dict.fromkeys(others, True)


def test_inputs_are_kept_as_the_label_has_them():
    """Before it may stand memory, and partitions mark the copies they make."""
    stats = step_stats(
        (f"{NEW}:CPU:0", "x", f"{TOTAL} x = Const()"),
        (f"{NEW}:GPU:0", "fwd", f"{TOTAL} {PEAK} fwd = MatMul(x/_5, w:1, ^init/_7)"),
        (f"{NEW}:GPU:0", "cut", "cut = _Recv(edge_5_x"),
    )

    inputs = read(timeline_of(stats)).ops["inputs"].to_list()

    assert inputs == [[], ["x/_5", "w:1", "^init/_7"], []]


def test_memory_is_counted_and_no_op():
    """A tensor is created, shown and deleted; a counter goes up and down for it."""
    stats = step_stats(
        (f"{NEW}:CPU:0", "x", "x = Const()"),
        (f"{NEW}:GPU:0", "fwd", "fwd = MatMul(x/_5)"),
    )

    skipped = read(timeline_of(stats, show_memory=True)).skipped

    # Two labels for each row, and one for the allocators.
    assert skipped == {
        "row label": 5,
        "flow arrow": 2,
        "tensor object": 6,
        "counter": 4,
    }


@pytest.mark.parametrize(
    ("op_time", "start_us", "duration_us"),
    [
        ("schedule", 100, 10),
        ("gpu", 120, 60),
        ("all", 100, 80),
    ],
)
def test_times_of_ops_may_be_those_of_their_kernels(op_time, start_us, duration_us):
    """The writer can stretch an op over its kernels, which moves no kernel."""
    stats = step_stats(
        (f"{NEW}:GPU:0", "first", "first = NoOp()", 90, 1),
        (f"{NEW}:GPU:0", "fwd", "fwd = MatMul(x)", 100, 10),
        ("/device:GPU:0/stream:all", "fwd:MatMul::a", "", 120, 20),
        ("/device:GPU:0/stream:all", "fwd:MatMul::b", "", 150, 30),
    )

    ops = read(timeline_of(stats, op_time=op_time)).ops

    times = sorted(ops.select("row_kind", "start_us", "duration_us").rows())
    assert times == [
        ("executor", 0, 1),
        ("executor", start_us - 90, duration_us),
        ("stream", 30, 20),
        ("stream", 60, 30),
    ]


def test_a_device_with_several_entries_is_one_device():
    """A master puts the ops and the received tensors of a worker into two."""
    gpu = f"{WORKER}:GPU:0"
    stats = step_stats(
        (gpu, "fwd", "fwd = MatMul(x)"),
        (f"{PS}:CPU:0", "w", "w = VariableV2()"),
        (gpu, "RecvTensor", f"[4B] edge_7_w from {PS}:CPU:0 to {gpu}"),
        (gpu, "bwd", "bwd = MatMul(fwd)"),
    )
    data = timeline_of(stats)

    trace = read(data)

    assert data.count(f"{gpu} Compute".encode()) == 2
    assert trace.devices == (f"{PS}:CPU:0", gpu)
    assert trace.executed["name"].to_list() == ["fwd", "w", "bwd"]


@pytest.mark.parametrize("era", ["up to 1.2", "1.3 to 1.13", "1.14 to 2.1", "DeepRec"])
def test_a_kernel_that_stands_twice_is_no_second_execution(era):
    """The op ran once, where its executor ran it."""
    stats = step_stats(*(row[:3] for row in ERAS[era]))

    trace = read(timeline_of(stats))

    assert trace.ops["name"].to_list().count("fwd") > 2
    assert trace.executed["name"].to_list().count("fwd") == 1


@pytest.mark.parametrize(
    ("of_all", "of_one"),
    [
        ("/gpu:0/stream:all", "/gpu:0/stream:12"),
        ("/device:GPU:0/stream:all", "/device:GPU:0/stream:20"),
        ("/device:GPU:0/stream:all", f"{V100.replace(':1', ':0')}/stream#1:Kernel"),
        ("/device:GPU:0/memcpy", "/device:GPU:0/stream:21<MemcpyD2H>"),
    ],
)
def test_kernels_on_the_wrong_gpu_are_counted_once(of_all, of_one):
    """Each stands on two rows, and the notice speaks of kernels."""
    stats = step_stats(
        (f"{NEW}:GPU:0", "a", "a = MatMul(x)"),
        (f"{NEW}:GPU:1", "b", "b = MatMul(a)"),
        *((row, f"{node}:MatMul", "") for row in (of_all, of_one) for node in "ab"),
    )

    analysis = analyze_run(parse_run(timeline_of(stats), source="run"))

    devices = analysis.run.trace.ops["device"].to_list()
    assert devices == [
        *(device("GPU:0"), device("GPU:1")),
        *("/device:GPU:0", device("GPU:1")) * 2,
    ]
    assert analysis.notices[0].message.startswith(
        "1 of 2 kernels stand on rows called GPU:0 although their ops ran on GPU:1"
    )
