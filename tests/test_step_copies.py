"""Copies that a trace records: whose they are, how fast, and behind what they lay."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from placement_viz import analyze_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.transfers import find_transfers
from placement_viz.model import RowKind
from placement_viz.reports.step_links import link_sentences
from placement_viz.schema import CopyRecord, GpuRecord, MachineRecord, RunSection
from tests.builders import op, run

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
SERVER = "/job:ps/replica:0/task:0/device:CPU:0"
MIB = 1 << 20


def copy(name, op_type, on="/device:GPU:0", **fields):
    """Return a copy as a GPU tracer records it."""
    return op(
        name,
        op_type=op_type,
        on=on,
        row_kind=RowKind.MEMCPY,
        row=f"{on}/memcpy",
        **fields,
    )


def kernel(name, on="/device:GPU:0", **fields):
    """Return a kernel as a GPU tracer records it."""
    row = f"{on}/stream:all"
    return op(name, on=on, row_kind=RowKind.STREAM, row=row, **fields)


def transfers(*ops, sizes=None, gpus=()):
    """Return what crossed in a run of ``ops``; ``sizes`` are bytes by tensor."""
    section = RunSection(
        schema=1, tensor_bytes=sizes or {}, hardware=MachineRecord(gpus=gpus)
    )
    analysis = analyze_run(dataclasses.replace(run(*ops), section=section))
    return find_transfers(Flow(analysis.run, analysis.colocation))


def test_a_copy_that_names_its_tensor_gives_the_time_and_the_rate():
    """Two MiB in 400 µs are 5.2 GB/s; the wait of 890 µs is not taken."""
    found = transfers(
        op("x", start_us=0, duration_us=10),
        copy("edge_7_x", "MEMCPYHtoD", start_us=100, duration_us=400),
        op("mm", on="GPU:0", start_us=900, inputs=["x/_3"]),
        sizes={"x:0": 2 * MIB},
    )

    (row,) = found.tensors.rows(named=True)
    assert (row["start_us"], row["time_us"], row["is_upper_bound"]) == (100, 400, False)
    assert row["bytes_per_s"] == 2 * MIB / 400e-6
    assert found.matrix["copy_us"].to_list() == [400]


def test_copies_by_way_of_the_host_are_one_transfer():
    """Without a way between cards a tensor goes down and up again."""
    found = transfers(
        op("x", on="GPU:0", start_us=0),
        copy("edge_7_x", "MEMCPYDtoH", start_us=20, duration_us=10),
        copy("edge_7_x", "MEMCPYHtoD", on="/device:GPU:1", start_us=40, duration_us=10),
        op("y", on="GPU:1", start_us=90, inputs=["x/_3"]),
    )

    assert found.tensors.select("start_us", "time_us").rows() == [(20, 30)]
    assert found.copies["transfer"].to_list() == [0, 0]


def test_a_tensor_that_goes_to_two_cards_is_copied_to_each():
    """The card that a copy stands on tells which of the two it was."""
    found = transfers(
        op("w", start_us=0),
        copy("edge_7_w", "MEMCPYHtoD", start_us=20, duration_us=10),
        copy("edge_9_w", "MEMCPYHtoD", on="/device:GPU:1", start_us=25, duration_us=30),
        op("a", on="GPU:0", start_us=60, inputs=["w/_3"]),
        op("b", on="GPU:1", start_us=60, inputs=["w/_5"]),
    )

    assert found.tensors["time_us"].to_list() == [10, 30]


def test_a_copy_that_may_be_of_either_of_two_is_of_none():
    """An old tracer calls every card 0: the waits are what is known."""
    found = transfers(
        op("w", start_us=0),
        copy("edge_7_w", "MEMCPYHtoD", start_us=20, duration_us=10),
        copy("edge_9_w", "MEMCPYHtoD", start_us=25, duration_us=30),
        op("a", on="GPU:0", start_us=60, inputs=["w/_3"]),
        op("b", on="GPU:1", start_us=70, inputs=["w/_5"]),
    )

    assert found.copies["transfer"].null_count() == 2
    assert found.tensors.select("time_us", "is_upper_bound").rows() == [
        (50, True),
        (60, True),
    ]


def test_each_turn_of_a_loop_has_its_own_copy():
    """A copy belongs to the execution that began last before it."""
    found = transfers(
        op("x", start_us=0),
        copy("edge_7_x", "MEMCPYHtoD", start_us=15, duration_us=1),
        op("y", on="GPU:0", start_us=20, inputs=["x/_3"]),
        op("x", start_us=100),
        copy("edge_7_x", "MEMCPYHtoD", start_us=115, duration_us=2),
        op("y", on="GPU:0", start_us=120, inputs=["x/_3"]),
    )

    assert found.tensors["start_us"].to_list() == [15, 115]
    assert found.tensors["time_us"].to_list() == [1, 2]


def test_a_copy_that_stands_twice_counts_once_and_setting_memory_is_none():
    """Tracers mirror copies on the row of their stream; memset moves nothing."""
    times = {"start_us": 20, "duration_us": 10}
    stream = {"row_kind": RowKind.STREAM, "row": "/device:GPU:0/stream:7"}
    found = transfers(
        op("x", start_us=0),
        copy("edge_7_x", "MEMCPYHtoD", **times),
        op("edge_7_x", op_type="MEMCPYHtoD", on="/device:GPU:0", **stream, **times),
        copy("fill", "Memset", start_us=50),
        op("y", on="GPU:0", start_us=90, inputs=["x/_3"]),
    )

    assert found.copies.select("tensor", "kind").rows() == [("x", "HtoD")]


def test_a_copy_among_kernels_is_told_by_its_name():
    """Up to TensorFlow 2.1 copies stood on the stream's row, without a type."""
    found = transfers(
        op("x", start_us=0),
        kernel("edge_7_x", op_type="", start_us=20, duration_us=5),
        op("y", on="GPU:0", start_us=90, inputs=["x/_3"]),
    )

    assert found.copies.select("tensor", "kind").rows() == [("x", None)]
    assert found.tensors["time_us"].to_list() == [5]


def test_copies_lie_behind_kernels_as_far_as_they_overlap():
    """Of 40 µs of copies 10 lie behind a kernel; the stream's mirror is no kernel."""
    found = transfers(
        op("x", start_us=0),
        copy("edge_7_x", "MEMCPYHtoD", start_us=20, duration_us=40),
        kernel("edge_7_x", op_type="MEMCPYHtoD", start_us=20, duration_us=40),
        kernel("mm", start_us=50, duration_us=100),
        op("mm", on="GPU:0", start_us=10, duration_us=200, inputs=["x/_3"]),
    )

    assert found.hiding.drop("device").rows() == [("copies", 40, 10, 30)]


def test_what_a_process_waited_for_is_told_by_device():
    """A receipt names no tensor: the time is the device's, the tensor has its wait."""
    found = transfers(
        op("w", op_type="VariableV2", on=SERVER, start_us=0, duration_us=10),
        op(
            "RecvTensor",
            op_type="RecvTensor",
            on=WORKER,
            row_kind=RowKind.RECEIVE,
            start_us=5,
            duration_us=30,
        ),
        op("busy", on=WORKER, start_us=0, duration_us=15),
        op("mm", on=WORKER, start_us=50, inputs=["w_S3"]),
    )

    assert found.hiding.drop("device").rows() == [("received", 30, 10, 20)]
    assert found.weights.drop("device").rows() == [("waits", 40, 5, 35)]


def test_a_receipt_that_names_its_tensor_is_its_time():
    """Where the name is kept it is as good as a copy's."""
    found = transfers(
        op("w", on=SERVER, start_us=0),
        op(
            "edge_12_w",
            op_type="RecvTensor",
            on=WORKER,
            row_kind=RowKind.RECEIVE,
            start_us=15,
            duration_us=20,
        ),
        op("mm", on=WORKER, start_us=50, inputs=["w_S3"]),
    )

    assert found.tensors.select("time_us", "is_upper_bound").rows() == [(20, False)]


def feeds(n_bytes, duration_us, n=4):
    """Return a step in which ``n`` tensors of one size go up in the same time each."""
    ops = []
    for i in range(n):
        begin = i * 10_000
        ops += [
            op(f"x{i}", start_us=begin),
            copy(
                f"edge_{i}_x{i}",
                "MEMCPYHtoD",
                start_us=begin + 20,
                duration_us=duration_us,
            ),
            op(f"y{i}", on="GPU:0", start_us=begin + 9_000, inputs=[f"x{i}/_3"]),
        ]
    return ops, {f"x{i}:0": n_bytes for i in range(n)}


def test_a_slow_link_is_a_hint_with_its_evidence():
    """Four copies of 10 MiB in 1.6 ms each go at 6.6 GB/s, as Gen3 x8 allows."""
    ops, sizes = feeds(10 * MIB, 1_600)
    link = transfers(*ops, sizes=sizes).link

    assert link.looks_like == "Gen3 x8"
    (said,) = link_sentences(link)
    assert said == (
        "The largest 4 copies between host and card, of 10.0 MiB, went at 6.6 GB/s, "
        "which looks like Gen3 x8; a hint, no proof."
    )


def test_small_or_few_or_slow_copies_tell_no_link():
    """Small ones have no rate, of two none is told, and slow ones fit no link."""
    small, slow, few = (
        transfers(*ops, sizes=sizes).link
        for ops, sizes in (
            feeds(MIB // 2, 100),
            feeds(10 * MIB, 8_000),
            feeds(10 * MIB, 1_600, n=2),
        )
    )

    assert small is None
    assert slow.n_copies == 4
    assert slow.looks_like is None
    assert few.n_copies == 2
    assert few.looks_like is None


def test_a_link_that_capture_recorded_needs_no_hint():
    """Eight of sixteen lanes are said as they were recorded, and nothing is guessed."""
    gpu = GpuRecord(name="A", link_width=8, max_link_width=16, max_link_generation=3)
    ops, sizes = feeds(10 * MIB, 1_600)
    link = transfers(*ops, sizes=sizes, gpus=(gpu,)).link

    assert link_sentences(link) == [
        "The link of A had 8 of 16 lanes of PCI Express 3 when the step was captured.",
        "The largest 4 copies between host and card, of 10.0 MiB, went at 6.6 GB/s.",
    ]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=6),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=6),
)
def test_hidden_time_is_counted_as_moments(copied, computed):
    """Moment by moment: a copy is hidden while a kernel runs and exposed otherwise."""
    found = transfers(
        op("x", on="GPU:0"),
        *(copy("c", "MEMCPYHtoD", start_us=s, duration_us=d) for s, d in copied),
        *(kernel("k", start_us=s, duration_us=d) for s, d in computed),
        kernel("k", start_us=0, duration_us=0),
    )
    on_way = {t for s, d in copied for t in range(s, s + d)}
    busy = {t for s, d in computed for t in range(s, s + d)}

    rows = found.hiding.select("total_us", "hidden_us", "exposed_us").rows()
    expected = (len(on_way), len(on_way & busy), len(on_way - busy))
    assert rows == ([expected] if on_way else [])


def test_what_a_process_received_is_told_by_the_run_file():
    """A timeline names no tensor that was received; its run file does, and its size."""
    received = {"row_kind": RowKind.RECEIVE, "op_type": "RecvTensor", "row": WORKER}
    made = run(
        op("w", on=SERVER, start_us=0, duration_us=10),
        op("RecvTensor", on=WORKER, start_us=20, duration_us=100, **received),
        op("RecvTensor", on=WORKER, start_us=20, duration_us=90, **received),
        op("mm", on=WORKER, start_us=150, inputs=["w_S3"]),
    )
    copied = CopyRecord("w", SERVER, WORKER, 1_020, 100, 4 * MIB)
    elsewhere = CopyRecord("w", WORKER, SERVER, 1_020, 90, MIB)
    trace = dataclasses.replace(made.trace, origin_us=1_000)
    section = RunSection(schema=1, copies=(copied, elsewhere))
    analysis = analyze_run(dataclasses.replace(made, trace=trace, section=section))

    found = find_transfers(Flow(analysis.run, analysis.colocation))

    (row,) = found.tensors.rows(named=True)
    assert (row["start_us"], row["time_us"], row["is_upper_bound"]) == (20, 100, False)
    assert found.copies.select("tensor", "n_bytes").rows() == [
        ("w", 4 * MIB),
        (None, None),
    ]
