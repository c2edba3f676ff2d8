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

import collections
import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from placement_viz import names
from placement_viz.errors import NoOpsError, TraceFormatError
from placement_viz.model import OPS_SCHEMA, Graph, Notice, RowKind, Run, Trace
from placement_viz.parser.events import ChromeTrace, Event, parse_events, parse_section
from placement_viz.schema import RunSection

__all__ = ["parse_timeline"]

_COMPUTE = " Compute"
#: Not an op of the graph: a worker logs it for each tensor it gets from another task.
_RECEIVED = "RecvTensor"
_TRACER_PART = re.compile("/stream:|/memcpy")
# Times beyond this cannot be differences of real clocks and overflow an int64 sum.
_LATEST_US = 1 << 61


def parse_timeline(data: bytes, *, source: str) -> Run:
    """Return the run in a timeline or run file.

    Args:
        data: JSON text.
        source: What to call it in messages and results.

    Raises:
        TraceFormatError: It is damaged, or a trace of another kind.
        NoOpsError: It is a TensorFlow timeline in which no op ran.
    """
    chrome = parse_events(data, source=source)
    labels = _row_labels(chrome.events)
    rows = {
        pid: label.removesuffix(_COMPUTE)
        for pid, label in labels.items()
        if label.endswith(_COMPUTE)
    }
    if not rows and not chrome.has_section:
        raise _wrong_kind(chrome, labels, source)
    if not chrome.has_section:
        trace = _trace(chrome.events, rows, source)
        return Run(source=source, format="tensorflow-timeline", trace=trace)
    section = parse_section(chrome.section, source=source)
    is_placed_only = section.placed and not any(e.ph == "X" for e in chrome.events)
    trace = (
        _placed_trace(section)
        if is_placed_only
        else _trace(chrome.events, rows, source)
    )
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


def _row_labels(events: list[Event]) -> dict[Any, str]:
    """Return row number to label."""
    return {
        event.pid: label
        for event in events
        if event.ph == "M" and event.name == "process_name"
        if isinstance(event.args, dict)
        if isinstance(label := event.args.get("name"), str)
    }


def _trace(events: list[Event], rows: dict[Any, str], source: str) -> Trace:
    columns: dict[str, list[Any]] = {name: [] for name in (*OPS_SCHEMA, "tid")}
    skipped: collections.Counter[str] = collections.Counter()
    for event in events:
        if event.ph != "X" or event.pid not in rows:
            skipped[_kind_of(event)] += 1
            continue
        start_us, duration_us = _microseconds(event.ts), _microseconds(event.dur)
        if start_us is None or duration_us is None or duration_us < 0:
            skipped["op without a usable time"] += 1
            continue
        args = event.args if isinstance(event.args, dict) else {}
        op_type = _text(args.get("op")) or _text(event.name)
        columns["name"].append(_text(args.get("name")) or op_type)
        columns["op_type"].append(op_type)
        columns["row"].append(rows[event.pid])
        columns["start_us"].append(start_us)
        columns["duration_us"].append(duration_us)
        columns["inputs"].append(_inputs(args))
        columns["tid"].append(f"{event.pid}\n{event.tid}")
    if not columns["name"]:
        message = (
            f"{source}: no op among {len(events)} events; only a Session step run "
            "with FULL_TRACE records ops"
        )
        raise NoOpsError(message)
    origin_us = min(columns["start_us"])
    return Trace(ops=_table(columns, origin_us), origin_us=origin_us, skipped=skipped)


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
    columns: dict[str, list[Any]] = {name: [] for name in (*OPS_SCHEMA, "tid")}
    for device, members in section.placed.items():
        for name in members:
            node = nodes.get(name)
            columns["name"].append(name)
            columns["op_type"].append(node.op if node else "")
            columns["row"].append(device)
            columns["start_us"].append(0)
            columns["duration_us"].append(0)
            columns["inputs"].append(list(node.inputs) if node else [])
            columns["tid"].append("")
    return Trace(ops=_table(columns, origin_us=0))


def _table(columns: dict[str, list[Any]], origin_us: int) -> pl.DataFrame:
    rows = {label: (_device_of(label), _row_kind(label)) for label in columns["row"]}
    table = pl.DataFrame(
        {
            "name": columns["name"],
            "op_type": columns["op_type"],
            "row": columns["row"],
            "start_us": columns["start_us"],
            "duration_us": columns["duration_us"],
            "inputs": pl.Series(columns["inputs"], dtype=pl.List(pl.String)),
            "tid": columns["tid"],
        }
    )
    return (
        table.with_columns(
            device=pl.col("row").replace_strict({r: d for r, (d, _) in rows.items()}),
            row_kind=pl.when(pl.col("op_type") == _RECEIVED)
            .then(pl.lit(RowKind.RECEIVE))
            .otherwise(
                pl.col("row").replace_strict({r: k for r, (_, k) in rows.items()})
            ),
            start_us=pl.col("start_us") - origin_us,
            step=pl.lit(0, pl.Int32),
        )
        .sort("start_us", maintain_order=True)
        # By first use, so that neither pids nor tids show through.
        .with_row_index("first_use")
        .with_columns(pl.col("first_use").min().over("row", "tid", "row_kind"))
        .with_columns(lane=pl.col("first_use").rank("dense").over("row") - 1)
        .select(pl.col(name).cast(dtype) for name, dtype in OPS_SCHEMA.items())
    )


def _device_of(row: str) -> str:
    """Return the device that a row names, in canonical spelling."""
    return names.canonical_device(_TRACER_PART.split(row, maxsplit=1)[0])


def _row_kind(row: str) -> RowKind:
    """Return what a row of this label records.

    Source:
        Executor rows carry a full device; tracer rows are named after a CUDA
        ordinal: ``/device:GPU:0/stream:all``, ``/gpu:0/memcpy``,
        ``/gpu:0 (Tesla V100)/context#0/stream#1:Kernel`` (1.14 to 2.1).
    """
    if "/memcpy" in row or "Memcpy" in row:
        return RowKind.MEMCPY
    if "/stream" in row:
        return RowKind.STREAM
    if names.is_full_device(names.canonical_device(row)):
        return RowKind.EXECUTOR
    return RowKind.OTHER


def _inputs(args: dict[str, Any]) -> list[str]:
    """Return ``input0``, ``input1``, … in argument order."""
    found: list[str] = []
    while isinstance(tensor := args.get(f"input{len(found)}"), str):
        found.append(tensor)
    return found


def _microseconds(value: object) -> int | None:
    """Return a time as whole microseconds; None when it is no usable number."""
    # bool is an int to isinstance, but true is no timestamp.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or abs(value) >= _LATEST_US:
        return None
    return round(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _kind_of(event: Event) -> str:
    if event.ph == "M":
        return "row label"
    return {"s": "flow arrow", "t": "flow arrow", "C": "counter"}.get(
        event.ph or "", event.cat or "other"
    )


def _wrong_kind(
    chrome: ChromeTrace, labels: dict[Any, str], source: str
) -> TraceFormatError:
    """Return the error for a readable trace that is no timeline of TensorFlow."""
    found = "a Chrome trace without rows named '… Compute'"
    advice = "capture a step with `placement-viz capture`"
    if not chrome.events:
        found = "JSON without traceEvents"
    elif chrome.is_kineto:
        found, advice = "a PyTorch profiler trace", "it has no TensorFlow ops to place"
    elif any(label.startswith(("/host:", "/device:")) for label in labels.values()):
        found = "a profiler trace, which does not record the device of logical ops"
    elif _is_horovod(chrome.events):
        found = "a Horovod or BytePS timeline, which records tensors, not devices"
    return TraceFormatError(
        f"{source}: expected a TensorFlow timeline, found {found}; {advice}"
    )


def _is_horovod(events: list[Event]) -> bool:
    phases = {"NEGOTIATE_ALLREDUCE", "NEGOTIATE_BROADCAST", "ALLREDUCE", "PUSH", "PULL"}
    return any(
        isinstance(e.name, str) and (e.name in phases or e.name.startswith("NCCL_"))
        for e in events
    )
