"""Results into the parts of the page beside the timeline. Names are always text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
from dash import html

from placement_viz.analysis import Analysis
from placement_viz.analysis.usage import DeviceUsage
from placement_viz.dashboard.parts import with_code
from placement_viz.names import short_device
from placement_viz.reports.sentences import explain
from placement_viz.units import format_count, format_us

__all__ = [
    "devices_panel",
    "fact_list",
    "fixes_panel",
    "notices_panel",
    "op_panel",
    "plain_table",
    "run_facts",
    "titled_table",
]


def devices_panel(analysis: Analysis) -> html.Table:
    """Return a table of the devices, with a bar for the busy time of each."""
    span_us = max(analysis.run.trace.span_us, 1)
    devices = analysis.run.trace.devices
    return plain_table(
        ("Device", "Ops", "Busy", "Gradients", "Misplaced", "Share of the run"),
        (
            (
                html.Th(
                    short_device(each.device, devices), scope="row", title=each.device
                ),
                f"{each.ops:,}",
                format_us(each.busy_us),
                format_us(each.gradient_busy_us),
                format_us(each.misplaced_busy_us),
                _busy_bar(each, span_us),
            )
            for each in analysis.usage
        ),
    )


def fixes_panel(analysis: Analysis) -> html.Div:
    """Return what to change, or that there is nothing to change."""
    if not analysis.is_judged:
        return html.Div("Not known yet: the ops are being judged.")
    if not analysis.fixes:
        return html.Div("Nothing: no misplaced gradient op can be brought home.")
    return html.Div(
        [
            html.Div(
                [
                    html.H3(f"{fix.title[:1].upper()}{fix.title[1:]}"),
                    html.P(
                        [
                            html.Span(fix.where, className="source"),
                            *with_code(f": {fix.change}"),
                        ]
                        if fix.where
                        else with_code(f"{fix.change[:1].upper()}{fix.change[1:]}")
                    ),
                    html.P(
                        f"Brings {format_count(fix.removes_ops, 'op')} home, "
                        f"{format_us(fix.removes_us)} of durations. "
                        f"{fix.side_effects[:1].upper()}{fix.side_effects[1:]}",
                        className="muted",
                    ),
                ],
                className="fix",
            )
            for fix in analysis.fixes
        ]
    )


def notices_panel(analysis: Analysis) -> list[html.Li]:
    """Return what a reader must know before trusting the rest."""
    return [
        html.Li(with_code(f"{notice.message[:1].upper()}{notice.message[1:]}."))
        for notice in analysis.notices
    ]


def run_facts(analysis: Analysis) -> str:
    """Return where the run comes from and what its verdicts rest on, in a line."""
    run = analysis.run
    facts = [run.source.replace("\\", "/").rpartition("/")[2]]
    facts.append(f"evidence: {' and '.join(run.evidence)}")
    if section := run.section:
        facts += [f"TensorFlow {section.tensorflow}"] if section.tensorflow else []
        facts.append(f"gradients {section.placement}")
        if section.function:
            how = "replayed" if section.is_replayed else "placement alone"
            facts.append(f"call of {section.function}, {how}")
    return " · ".join(facts)


def op_panel(analysis: Analysis, op: int) -> list[Any]:
    """Return everything about one op.

    Args:
        analysis: The run.
        op: Position in its trace; must be there.
    """
    devices = analysis.run.trace.devices
    row = analysis.run.trace.ops.row(op, named=True)
    judged = analysis.colocation.gradients.filter(pl.col("op") == op)
    if judged.height:
        gradient = judged.row(0, named=True)
        verdict, home = gradient["verdict"], gradient["expected_device"]
        facts = explain(gradient, devices)
    elif not analysis.is_judged:
        verdict, home = "forward", None
        facts = {"Verdict": "Not judged yet: that is going on."}
    else:
        verdict, home = "forward", None
        facts = {"Verdict": "Not a gradient op: nothing says where it belongs."}
    lead = facts.pop("Verdict")
    # The advice first: the rest is its proof.
    advice = {q: facts.pop(q) for q in ("What to change",) if q in facts}
    facts = advice | facts
    facts["Time"] = (
        f"{format_us(row['duration_us'])}, from {format_us(row['start_us'])}"
    )
    facts["Type"] = row["op_type"]
    facts["Ran on, in full"] = row["device"]
    if home:
        facts["Belongs on, in full"] = home
    return [
        html.H3(row["name"], className="op-name"),
        html.P(lead, className=f"lead {verdict}"),
        fact_list(facts),
    ]


def _busy_bar(usage: DeviceUsage, span_us: int) -> html.Div:
    parts = (
        ("misplaced", usage.misplaced_busy_us),
        ("colocated", usage.gradient_busy_us - usage.misplaced_busy_us),
        ("forward", usage.busy_us - usage.gradient_busy_us),
    )
    return html.Div(
        [
            html.Span(
                className=f"part {name}", style={"width": f"{100 * us / span_us:.2f}%"}
            )
            for name, us in parts
            if us > 0
        ],
        className="busy",
        role="img",
        **{"aria-label": f"busy {100 * usage.busy_us / span_us:.0f} % of the run"},
    )


def fact_list(facts: Mapping[str, str]) -> html.Dl:
    """Return questions and their answers, in order."""
    return html.Dl(
        [
            html.Div([html.Dt(question), html.Dd(answer)])
            for question, answer in facts.items()
        ],
        className="facts",
    )


def plain_table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> html.Table:
    """Return a small table that neither sorts nor filters."""
    return html.Table(
        [
            html.Thead(html.Tr([html.Th(title, scope="col") for title in head])),
            html.Tbody(
                [
                    html.Tr(
                        [
                            cell
                            if isinstance(cell, html.Th | html.Td)
                            else html.Td(cell)
                            for cell in row
                        ]
                    )
                    for row in rows
                ]
            ),
        ],
        className="plain",
    )


def titled_table(
    title: str, head: Iterable[str], rows: Iterable[Iterable[Any]]
) -> html.Div:
    """Return a small table under its title."""
    return html.Div([html.H4(title), plain_table(head, rows)], className="scroll")
