"""The answers about a step into parts of the page. Names are always text."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
from dash import dcc, html

from placement_viz.analysis import Analysis
from placement_viz.dashboard.panels import fact_list, plain_table, titled_table
from placement_viz.dashboard.parts import card, with_code
from placement_viz.names import short_device
from placement_viz.reports.step import step_answers
from placement_viz.units import format_bytes, format_count, format_share, format_us

__all__ = [
    "answers_card",
    "devices_part",
    "path_part",
    "sentences_list",
    "towers_part",
    "transfers_part",
    "updates_part",
]

_MOST_ROWS = 8
#: What is shorter than this part of the step is not listed.
_LEAST_SHARE = 0.001
#: Room on both sides of what a link leads to, in parts of it.
_MARGIN = 0.1


def answers_card(analysis: Analysis) -> html.Div:
    """Return the questions that people bring, with their answers."""
    return card([html.H3("In short")], fact_list(step_answers(analysis)))


def sentences_list(sentences: Iterable[str]) -> html.Ul:
    """Return sentences one under another."""
    return html.Ul([html.Li(with_code(each)) for each in sentences], className="told")


def devices_part(analysis: Analysis, label: str) -> list[Any]:
    """Return what each device did with its time, and the longest gaps."""
    found, devices = analysis.step.devices, analysis.run.trace.devices
    head = (
        "Device",
        "Ops",
        "Busy",
        "Idle",
        "Launches",
        "Kernels",
        "What it was busy with",
    )
    rows = [
        (
            html.Th(
                short_device(row["device"], devices), scope="row", title=row["device"]
            ),
            f"{row['ops']:,}",
            _share_of(row["busy_us"], found.span_us),
            _time(row["idle_us"]),
            _time(row["launch_us"]),
            _time(row["kernel_us"]),
            _role_bar(found.roles, row["device"], found.span_us),
        )
        for row in found.devices.iter_rows(named=True)
    ]
    # Columns that say nothing of this run are left out.
    kept = [i for i in range(len(head)) if i < 4 or any(row[i] != "–" for row in rows)]
    table = plain_table(
        [head[i] for i in kept], [[row[i] for i in kept] for row in rows]
    )
    return [
        html.Div(table, className="scroll"),
        _role_legend(),
        *_gaps(analysis, label),
    ]


def transfers_part(analysis: Analysis) -> list[Any]:
    """Return what crossed from each device to each other one."""
    matrix, devices = analysis.step.transfers.matrix, analysis.run.trace.devices
    if matrix.is_empty():
        return []
    cells = {(row["source"], row["destination"]): row for row in matrix.to_dicts()}
    places = [d for d in devices if any(d in pair for pair in cells)]
    rows = [
        (
            html.Th(short_device(source, devices), scope="row", title=source),
            *(_crossing(cells.get((source, target))) for target in places),
        )
        for source in places
    ]
    head = ("From ↓ to →", *(short_device(each, devices) for each in places))
    return [html.Div(plain_table(head, rows), className="scroll")]


def towers_part(analysis: Analysis) -> list[Any]:
    """Return the towers, one beside the other."""
    found, devices = analysis.step.towers, analysis.run.trace.devices
    if found.table.is_empty():
        return []
    head = ("Tower", "On", "Gradients on", "Ops", "Computed", "Waited")
    rows = [
        (
            html.Th(row["scope"] or "the first", scope="row", className="long"),
            _places(row["devices"], devices),
            _places(row["gradient_devices"], devices),
            f"{row['ops']:,}",
            _time(row["compute_us"]),
            _time(row["wait_us"]),
        )
        for row in found.table.head(_MOST_ROWS).iter_rows(named=True)
    ]
    return [html.Div(plain_table(head, rows), className="scroll")]


def updates_part(analysis: Analysis, label: str) -> list[Any]:
    """Return what the devices did while gradients became variables."""
    found, devices = analysis.step.controller, analysis.run.trace.devices
    windows = {row["step"]: row for row in found.windows.iter_rows(named=True)}
    timed = {step: row for step, row in windows.items() if row["start_us"] is not None}
    if not timed:
        return []
    step, window = next(iter(timed.items()))
    length_us = window["end_us"] - window["start_us"]
    rows = [
        (
            html.Th(short_device(row["device"], devices), scope="row"),
            _share_of(row["busy_us"], length_us),
            "updates variables" if row["is_controller"] else "",
        )
        for row in found.meanwhile.filter(pl.col("step") == step).iter_rows(named=True)
    ]
    lead = html.P(
        [
            f"From {format_us(window['start_us'])} to {format_us(window['end_us'])}: ",
            _zoom(label, window["start_us"], window["end_us"]),
        ],
        className="muted",
    )
    table = plain_table(("Device", "Busy meanwhile", ""), rows)
    return [lead, html.Div(table, className="scroll")]


def path_part(analysis: Analysis, label: str) -> list[Any]:
    """Return the longest waits on the critical path."""
    found, ops = analysis.step.critical_path, analysis.run.trace.ops
    devices = analysis.run.trace.devices
    least_us = analysis.run.trace.span_us * _LEAST_SHARE
    waits = found.path.filter(pl.col("gap_us") > max(least_us, 0)).sort(
        "gap_us", descending=True, maintain_order=True
    )
    if waits.is_empty():
        return []
    rows = [
        (
            _name(ops["name"], row["op"], is_head=True),
            short_device(row["device"], devices),
            format_us(row["gap_us"]),
            _REASONS[row["reason"]],
            _name(ops["name"], row["awaited"]),
            _zoom(label, row["start_us"] - row["gap_us"], row["end_us"]),
        )
        for row in waits.head(_MOST_ROWS).iter_rows(named=True)
    ]
    head = ("Op on the path", "Device", "Waited", "For", "Of", "")
    return [titled_table("Longest waits on the critical path", head, rows)]


_REASONS = {
    "data": "a value",
    "control": "an order",
    "queue": "its turn on the device",
    "start": "the start",
}


def _gaps(analysis: Analysis, label: str) -> Iterator[Any]:
    found, devices = analysis.step.devices, analysis.run.trace.devices
    least_us = found.span_us * _LEAST_SHARE
    gaps = found.gaps.filter(pl.col("duration_us") >= least_us).sort(
        "duration_us", descending=True, maintain_order=True
    )
    if gaps.is_empty():
        return
    names = analysis.run.trace.ops["name"]
    rows = [
        (
            html.Th(short_device(row["device"], devices), scope="row"),
            format_us(row["duration_us"]),
            *(_name(names, row[op]) for op in ("before", "after", "awaited")),
            _zoom(label, row["start_us"], row["start_us"] + row["duration_us"]),
        )
        for row in gaps.head(_MOST_ROWS).iter_rows(named=True)
    ]
    head = ("Device", "Idle", "After", "Until", "Which waited for", "")
    yield titled_table("Longest idle gaps", head, rows)


def _name(names: pl.Series, op: int | None, *, is_head: bool = False) -> Any:
    """Return a cell with the name of an op, which may be long."""
    name = "–" if op is None else names[op]
    if is_head:
        return html.Th(name, scope="row", className="long")
    return html.Td(name, className="long")


def _zoom(label: str, start_us: int, end_us: int) -> dcc.Link:
    """Return a link to a part of the run's timeline."""
    margin_us = max(1, int((end_us - start_us) * _MARGIN))
    query = {"run": label, "from": start_us - margin_us, "to": end_us + margin_us}
    return dcc.Link(
        "show", href=f"?{urllib.parse.urlencode(query)}", title="show in the timeline"
    )


def _places(found: Iterable[str], devices: tuple[str, ...]) -> str:
    return ", ".join(short_device(each, devices) for each in found) or "–"


def _crossing(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    tensors = format_count(row["n_tensors"], "tensor")
    told = [tensors]
    if row["n_bytes"] is not None:
        told.append(format_bytes(row["n_bytes"]))
    if row["n_unknown"]:
        told.append(f"{row['n_unknown']:,} of unknown size")
    if row["copy_us"] is not None:
        told.append(format_us(row["copy_us"]))
    return ", ".join(told)


def _role_bar(roles: pl.DataFrame, device: str, span_us: int) -> html.Div:
    shares = roles.filter(pl.col("device") == device, pl.col("share_us") > 0)
    told = ", ".join(
        f"{role} {format_share(us, span_us)}"
        for role, us in shares.select("role", "share_us").iter_rows()
    )
    return html.Div(
        [
            html.Span(
                className=f"part role-{role}",
                style={"width": f"{100 * us / max(span_us, 1):.2f}%"},
                title=f"{role}: {format_us(us)}",
            )
            for role, us in shares.select("role", "share_us").iter_rows()
        ],
        className="busy",
        role="img",
        **{"aria-label": told or "nothing known"},
    )


def _role_legend() -> html.P:
    return html.P(
        [
            html.Span(
                [html.I(className=f"swatch role-{role}"), role], className="legend-item"
            )
            for role in (
                "gradient",
                "forward",
                "optimizer",
                "input",
                "transfer",
                "other",
            )
        ],
        className="legend muted",
    )


def _share_of(us: int | None, span_us: int) -> str:
    return "–" if us is None else f"{format_us(us)} ({format_share(us, span_us)})"


def _time(us: int | None) -> str:
    return "–" if us is None else format_us(us)
