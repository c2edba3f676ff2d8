"""TensorFlow's timeline (``timeline.json``) and our run file, which extends it.

Read as TensorFlow's ``Timeline`` writes it, of every era: a row for each device
named ``<device> Compute``, in it one complete event per op whose ``name`` is the op
*type* and whose ``args`` hold the node and its inputs. Row numbers (``pid``) and
lanes (``tid``) are only valid within a file, so rows are joined by name.

Left out: flow arrows (the inputs say more), tensor objects and counters; all are
counted in ``Trace.skipped``.

Source:
    ``tensorflow/python/client/timeline.py``, 1.x to 2.21.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from placement_viz.errors import NoOpsError, TraceFormatError
from placement_viz.model import Graph, Notice, Recorded, Run, Trace
from placement_viz.parser.chrome import dialect_of, read_chrome
from placement_viz.parser.columns import SEPARATOR, separated
from placement_viz.parser.events import ChromeTrace, parse_section
from placement_viz.parser.files import Content
from placement_viz.parser.fold import Fold
from placement_viz.parser.folding import fold_events
from placement_viz.parser.rows import read_annotations, read_rows
from placement_viz.parser.steps import split_steps
from placement_viz.parser.table import LONGEST_BYTES, longest_bytes, ops_table
from placement_viz.schema import RunSection
from placement_viz.units import format_bytes

__all__ = ["read_timeline"]

_COMPUTE = " Compute"


def read_timeline(content: Content) -> Run:
    """Return the run in a timeline or run file.

    Raises:
        TraceFormatError: It is damaged, or a trace that has neither devices nor
            processes with ops.
        NoOpsError: It is a trace in which no op ran.
    """
    fold, chrome, notices = fold_events(content)
    if not chrome.has_section and not _rows(fold):
        _refuse(fold, content.source)
        dialect = dialect_of(fold, chrome)
        del fold
        return read_chrome(content, dialect)
    run = _run(fold, chrome, content.source)
    trace = dataclasses.replace(run.trace, notices=(*notices, *run.trace.notices))
    return dataclasses.replace(run, trace=trace)


def _run(fold: Fold, chrome: ChromeTrace, source: str) -> Run:
    rows = _rows(fold)
    if not chrome.has_section:
        trace = _trace(fold, rows, source)
        return Run(source=source, format="tensorflow-timeline", trace=trace)
    section = parse_section(chrome.section, source=source)
    is_placed_only = section.placed and not fold.has_ops
    trace = _placed_trace(section) if is_placed_only else _trace(fold, rows, source)
    trace = dataclasses.replace(
        trace, notices=(*trace.notices, *_capture_notices(section))
    )
    return Run(
        source=source,
        format="placement-viz-run",
        trace=trace,
        graph=Graph.from_section(section),
        section=section,
    )


def _rows(fold: Fold) -> dict[Any, str]:
    """Return row number, as the file has it, to label for the rows of devices."""
    return {
        pid: label.removesuffix(_COMPUTE)
        for pid, label in fold.labels.items()
        if label.endswith(_COMPUTE)
    }


def _trace(fold: Fold, rows: Mapping[Any, str], source: str) -> Trace:
    skipped = fold.skipped(rows)
    said = read_rows(rows.values())
    if (longest := longest_bytes(fold.table)) > LONGEST_BYTES:
        raise TraceFormatError(
            f"{source}: expected names of at most {format_bytes(LONGEST_BYTES)}, found "
            f"one of {format_bytes(longest)}; no program has such a name"
        )
    # Handed over at once: while it is put in order, nobody else may hold on to it.
    table, origin_us = ops_table(read_annotations(fold.take_ops(rows), said), said)
    if table.is_empty():
        message = (
            f"{source}: no op among {fold.n_events} events; only a Session step run "
            "with FULL_TRACE records ops"
        )
        raise NoOpsError(message)
    recorded = Recorded(tensors=fold.sizes.of(table["name"]))
    return split_steps(
        Trace(ops=table, origin_us=origin_us, skipped=skipped, recorded=recorded)
    )


def _capture_notices(section: RunSection) -> Iterator[Notice]:
    """Yield what a reader must know of how the step was captured."""
    if section.is_replayed:
        yield Notice(
            "replayed",
            f"a call of the tf.function {section.function} was replayed on copies: its "
            "devices and times are real, the time of its input pipeline is not here",
        )
    for remark in section.remarks:
        yield Notice("capture", remark)
    for gpu in section.hardware.gpus if section.hardware else ():
        if 0 < gpu.link_width < gpu.max_link_width:
            yield Notice(
                "narrow-link",
                f"the link of the graphics card {gpu.name} ({gpu.bus_id}) has "
                f"{gpu.link_width} of {gpu.max_link_width} lanes: transfers take "
                "longer than they need to",
            )


def _placed_trace(section: RunSection) -> Trace:
    """Return the ops of a step of which only the placement is known.

    None of them has a time: all start at 0 and last no time.
    """
    nodes = {node.name: node for node in section.nodes}
    placed = [
        (name, device) for device, members in section.placed.items() for name in members
    ]
    found = [nodes.get(name) for name, _ in placed]
    ops = pl.DataFrame(
        {
            "name": [name for name, _ in placed],
            "op_type": [node.op if node else "" for node in found],
            "row": [device for _, device in placed],
            "lane": 0,
            "start_us": 0,
            "duration_us": 0,
            "inputs": separated(
                SEPARATOR.join(node.inputs) if node and node.inputs else None
                for node in found
            ),
        }
    )
    return Trace(ops=ops_table(ops, read_rows(section.placed))[0])


def _refuse(fold: Fold, source: str) -> None:
    """Raise an error for a trace that has nothing to show."""
    if not fold.n_events:
        found = "JSON without traceEvents; capture a step with `placement-viz capture`"
    elif fold.exchange:
        found = (
            f"a {fold.exchange} timeline, which records tensors, not devices; run "
            "`placement-viz capture` on the script of one worker: each rank is a "
            "process with devices of its own, so no gradient of a data-parallel "
            "program is ever on those of another"
        )
    else:
        return
    raise TraceFormatError(f"{source}: expected a TensorFlow timeline, found {found}")
