"""Every trace in ``tests/traces`` and its reading, as a person would write it down.

Adding a situation means adding a file there and running with ``--update-golden``.
"""

import pytest

from placement_viz import TraceError, analyze_run, load_run
from placement_viz.names import short_device
from placement_viz.reports.sentences import headline
from tests.builders import TRACES

FILES = sorted(path for path in TRACES.iterdir() if path.suffix == ".json")


def dump(path):
    """Return what is read and judged from ``path``, one op a line."""
    try:
        analysis = analyze_run(load_run(path))
    except TraceError as error:
        return f"{type(error).__name__}: {str(error).replace(str(path), path.name)}\n"
    trace, devices = analysis.run.trace, analysis.run.trace.devices
    judged = {row["op"]: row for row in analysis.colocation.gradients.to_dicts()}
    lines = [headline(analysis), ""]
    for position, op in enumerate(trace.ops.iter_rows(named=True)):
        row = short_device(op["device"], devices) + (
            "" if op["row_kind"] == "executor" else f" {op['row_kind']}"
        )
        line = (
            f"{op['start_us']:>6} +{op['duration_us']:<4} {row}/{op['lane']}  "
            f"{op['op_type']}  {op['name']}"
        )
        if verdict := judged.get(position):
            home = verdict["expected_device"]
            line += f"  = {verdict['verdict']}" + "".join(
                f", {each}"
                for each in (
                    verdict["reason"],
                    verdict["cause"],
                    home and f"home {short_device(home, devices)}",
                    verdict["evidence"],
                )
                if each
            )
        lines.append(line)
    lines += [f"notice: {notice.code}" for notice in analysis.notices]
    lines += [f"skipped: {n} {kind}" for kind, n in sorted(trace.skipped.items())]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_situation_is_read_as_written_down(path, golden):
    """The dump of a trace is the one a person has read and agreed to."""
    golden(path.stem, dump(path))
