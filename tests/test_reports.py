import csv
import dataclasses
import functools
import io
import json
import re

import pytest
from rich.console import Console

from placement_viz import analyze_run, compare_runs
from placement_viz.model import Notice
from placement_viz.reports.csv import format_csv
from placement_viz.reports.document import (
    analysis_document,
    comparison_document,
    format_json,
)
from placement_viz.reports.html import format_html
from placement_viz.reports.sentences import comparison_headline, explain, headline
from placement_viz.reports.text import print_analysis, print_comparison
from tests.builders import device, node, op, run

MM = op("mm", on="CPU:1")


def misplaced(**fields):
    """Return a gradient op away from the forward op ``mm``."""
    return op("gradients/mm_grad/Mul", on="CPU:0", **fields)


def on_terminal(report, value):
    """Return what a report prints, without colours."""
    stream = io.StringIO()
    report(value, Console(file=stream, width=100, color_system=None))
    return stream.getvalue()


def test_the_headline_says_how_many_are_where_and_what_it_costs():
    """Count, device, home and time, in one sentence."""
    found = run(
        MM,
        misplaced(start_us=0, duration_us=4000),
        op("gradients/mm_grad/Add", on="CPU:0", start_us=2000, duration_us=4100),
        op("y", on="CPU:0"),
        op("gradients/y_grad/Mul", on="CPU:0", start_us=8000, duration_us=2000),
    )

    assert headline(analyze_run(found)) == (
        "3 of 3 gradient ops ran on CPU:0; 2 of them belong on CPU:1: "
        "6.1 ms of 8.1 ms of gradient time."
    )


def test_the_headline_can_be_good_news():
    """Nothing misplaced is said as plainly as something misplaced."""
    good = run(MM, op("gradients/mm_grad/Mul", on="CPU:1"))

    assert headline(analyze_run(good)) == (
        "No gradient op is misplaced: 1 gradient op on CPU:1, 1 with their forward op."
    )


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (run(MM), "No gradient op among 1 op on 1 device"),
        (run(op("k", row_kind="stream")), "it proves no placement"),
    ],
)
def test_the_headline_of_a_run_without_gradients(found, part):
    """An empty result says why it is empty."""
    assert part in headline(analyze_run(found))


def kernel(gpu=0, **fields):
    """Return one kernel on a row of the tracer."""
    name = f"/device:GPU:{gpu}"
    return op("k", on=name, row=f"{name}/stream:7", row_kind="stream", **fields)


UNJUDGED = (
    "This format does not record devices of logical ops, so no placement is judged"
)


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        ([kernel(), kernel(start_us=30)], "2 kernels on GPU:0, busy 50 % of 40 µs."),
        (
            [kernel(), kernel(1, duration_us=20)],
            "2 kernels on 2 devices, the busiest of them GPU:1, 100 % of 20 µs.",
        ),
        (
            [kernel(), op("h", on="/host:CPU", row_kind="other", duration_us=9_000)],
            "1 kernel on GPU:0, busy less than 1 % of 9.0 ms.",
        ),
        (
            [op("h", device="server", row_kind="other")],
            "1 op of server, busy 100 % of 10 µs.",
        ),
        (
            [
                op("h", device="server", row_kind="other", start_us=10),
                op("h", device="client", row_kind="other", duration_us=20),
            ],
            "2 ops of 2 processes, the busiest of them client, 100 % of 20 µs.",
        ),
    ],
)
def test_where_nothing_is_judged_it_is_said_how_busy_what_was(ops, said):
    """What is known of the devices or, without any, of the processes."""
    found = run(*ops)
    notice = Notice("no-placement", "nobody knows")
    trace = dataclasses.replace(found.trace, notices=(notice,))

    analysis = analyze_run(dataclasses.replace(found, trace=trace))

    assert headline(analysis) == f"{UNJUDGED}: {said}"


def test_copies_are_shown_where_there_are_any():
    """In terminal and page; elsewhere a column of zeros would be in the way."""
    copy = op("c", on="/device:GPU:0", row="/device:GPU:0/memcpy", row_kind="memcpy")
    with_copies, without = analyze_run(run(kernel(), copy)), analyze_run(run(MM))

    for report in (
        functools.partial(on_terminal, print_analysis),
        functools.partial(format_html, timeline=""),
    ):
        assert "copies" in report(with_copies)
        assert "copies" not in report(without)


def test_two_runs_that_prove_no_placement_are_compared_by_their_times():
    """No op is said to have stayed, for nobody knows."""
    before, after = run(kernel()), run(kernel(duration_us=30), kernel(1))

    printed = on_terminal(print_comparison, compare_runs(before, after))

    assert "nothing proves its device in both runs; step 10 µs → 30 µs." in printed
    assert re.search(r"GPU:0 +│ +10 µs │ +30 µs", printed)
    assert "stayed" not in printed


def test_the_proof_names_pair_rule_request_and_remedy():
    """Every question about a misplaced op has its answer."""
    found = run(
        MM, misplaced(), nodes=[node("mm", on="CPU:1"), node("gradients/mm_grad/Mul")]
    )
    (row,) = analyze_run(found).colocation.gradients.iter_rows(named=True)

    answers = explain(row, found.trace.devices)

    assert answers["Verdict"] == "Misplaced: it ran on CPU:0 and belongs on CPU:1."
    assert answers["Forward op"] == "mm, on CPU:1"
    assert answers["Asked for"] == "no device; it ran on CPU:0"
    assert "colocate_gradients_with_ops=True" in answers["What to change"]
    assert "Nothing binds it to a device" in answers["Why it is there"]


def test_the_json_follows_the_contract():
    """Field names and meanings that programs rely on."""
    document = json.loads(
        format_json(analysis_document(analyze_run(run(MM, misplaced(start_us=30)))))
    )

    assert document["schema"] == 1
    assert document["run"] == {
        "source": "test",
        "format": "test",
        "ops": 2,
        "steps": 1,
        "span_us": 40,
        "evidence": ["trace"],
    }
    assert document["devices"][0] == {
        "device": device("CPU:0"),
        "ops": 1,
        "busy_us": 10,
        "gradient_busy_us": 10,
        "misplaced_busy_us": 10,
        "copy_busy_us": 0,
    }
    (gradient,) = document["gradients"]
    expected = {
        "name": "gradients/mm_grad/Mul",
        "op_type": "MatMul",
        "device": device("CPU:0"),
        "start_us": 30,
        "duration_us": 10,
        "forward_op": "mm",
        "expected_device": device("CPU:1"),
        "evidence": "trace",
        "confidence": 0.95,
        "verdict": "misplaced",
        "cause": "unconstrained",
    }
    assert {key: gradient[key] for key in expected} == expected
    assert document["summary"]["gradient_ops"] == 1
    assert document["summary"]["misplaced_ops"] == 1
    assert document["summary"]["misplaced_us"] == 10
    assert document["fixes"][0]["removes_ops"] == 1
    assert {notice["code"] for notice in document["notices"]} == {"no-graph"}


def test_a_comparison_is_a_document_and_a_sentence():
    """Both say the same numbers."""
    comparison = compare_runs(
        run(MM, misplaced()), run(MM, op("gradients/mm_grad/Mul", on="CPU:1"))
    )

    document = json.loads(format_json(comparison_document(comparison)))

    assert comparison_headline(comparison).startswith(
        "1 op moved; misplaced gradient ops 1 → 0, their busy time 10 µs → 0 µs"
    )
    assert document["moves"][0]["kind"] == "fixed"
    assert document["moves_by_kind"]["fixed"]["ops"] == 1
    assert document["candidate"]["summary"]["misplaced_ops"] == 0


def test_the_terminal_shows_answer_devices_ops_and_remedy():
    """A person reads the same facts as a program."""
    text = on_terminal(print_analysis, analyze_run(run(MM, misplaced())))

    for part in ("belongs on CPU:1", "CPU:0", "Misplaced gradients", "Fix: ", "Note: "):
        assert part in text


def test_names_are_text_and_never_markup():
    """An op called like a style tag is printed as it is called."""
    name = "[bold red]mm[/]"
    found = run(op(name, on="CPU:1"), op(f"gradients/{name}_grad/Mul", on="CPU:0"))

    assert name in on_terminal(print_analysis, analyze_run(found))


def test_the_page_names_everything_and_runs_nothing_of_a_file():
    """Names from a file are text on the page, wherever they stand."""
    name = "<script>alert(1)</script>"
    found = run(op(name, on="CPU:1"), op(f"gradients/{name}_grad/Mul", on="CPU:0"))

    page = format_html(analyze_run(found), "<div>timeline</div>")

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert name not in page
    assert "<div>timeline</div>" in page
    assert "belongs on CPU:1" in page


def test_the_table_is_csv_and_no_formula():
    """A spreadsheet opens it, and takes no name for a formula."""
    name = "=cmd()"
    found = run(op(name, on="CPU:1"), op(f"gradients/{name}_grad/Mul", on="CPU:0"))

    (row,) = csv.DictReader(io.StringIO(format_csv(analyze_run(found))))

    assert row["forward_op"] == f"'{name}"
    assert row["verdict"] == "misplaced"


def test_a_long_list_says_how_much_of_it_is_shown():
    """What a table leaves out is in its title."""
    before = run(*(op(f"n{i}", on="CPU:0") for i in range(40)))
    after = run(*(op(f"n{i}", on="CPU:1") for i in range(40)))

    text = on_terminal(print_comparison, compare_runs(before, after))

    assert "the 15 longest of 40" in text


def test_what_changed_is_split_by_kind_with_its_time():
    """Fixed, gone and new ops each have a line, with their time before and after."""
    before = run(MM, misplaced(duration_us=7), op("old", duration_us=3))
    after = run(
        MM,
        op("gradients/mm_grad/Mul", on="CPU:1", duration_us=5),
        op("young", duration_us=4),
    )

    printed = on_terminal(print_comparison, compare_runs(before, after))

    lines = {
        cells[0]: cells[1:]
        for line in printed.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("│").split("│")]) == 4
    }
    assert lines["fixed"] == ["1", "7 µs", "5 µs"]
    assert lines["gone"] == ["1", "3 µs", "–"]
    assert lines["new"] == ["1", "–", "4 µs"]
    assert "residual" not in lines
