"""One run as a single page that needs nothing else: to keep or to attach."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import polars as pl

from placement_viz.analysis import Analysis
from placement_viz.names import short_device
from placement_viz.reports.sentences import fix_sentence, headline
from placement_viz.units import format_count, format_share, format_us

__all__ = ["format_html"]

_MOST_ROWS = 2_000
_LONG = 24
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
       padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .25rem .75rem .25rem 0;
         text-align: left; white-space: nowrap; }
td.long { white-space: normal; overflow-wrap: anywhere; }
tr.misplaced td:first-child { font-weight: bold; text-decoration: underline; }
.figure { background: #fff; overflow-x: auto; }
"""


def format_html(analysis: Analysis, timeline: str) -> str:
    """Return the page.

    Names come from files, so everything but ``timeline`` is escaped.

    Args:
        analysis: The run.
        timeline: Markup of its timeline, with all the script it needs.
    """
    run = analysis.run
    title = f"{run.source}: placement"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{_text(headline(analysis))}</h1>",
        f"<p>{_text(run.source)}, evidence: {_text(' and '.join(run.evidence))}</p>",
        f'<div class="figure">{timeline}</div>',
        "<h2>Devices</h2>",
        _devices(analysis),
        _list("What to change", map(fix_sentence, analysis.fixes)),
        _list("Notes", (notice.message for notice in analysis.notices)),
        _gradients(analysis),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _devices(analysis: Analysis) -> str:
    trace = analysis.run.trace
    has_copies = any(each.copy_busy_us for each in analysis.usage)
    columns = ["device", "ops", "busy", "of the run", "gradients", "misplaced"]
    rows = (
        (
            short_device(each.device, trace.devices),
            f"{each.ops:,}",
            format_us(each.busy_us),
            format_share(each.busy_us, trace.span_us),
            format_us(each.gradient_busy_us),
            format_us(each.misplaced_busy_us),
            *[format_us(each.copy_busy_us)] * has_copies,
        )
        for each in analysis.usage
    )
    return _table(columns + ["copies"] * has_copies, rows)


def _gradients(analysis: Analysis) -> str:
    devices = analysis.run.trace.devices
    table = analysis.colocation.gradients.sort(
        pl.col("verdict") == "misplaced",
        "verdict",
        "duration_us",
        descending=True,
        maintain_order=True,
    )
    heading = "Gradient ops"
    if table.height > _MOST_ROWS:
        heading += f": {_MOST_ROWS:,} of {format_count(table.height, 'op')}"
    rows = (
        (
            row["verdict"],
            row["name"],
            row["op_type"],
            short_device(row["device"], devices),
            short_device(row["expected_device"] or "?", devices),
            format_us(row["duration_us"]),
            row["forward_op"] or "?",
            row["cause"] or row["reason"] or "",
            row["evidence"] or "none",
            row["source"] or "",
        )
        for row in table.head(_MOST_ROWS).iter_rows(named=True)
    )
    columns = (
        "verdict",
        "gradient op",
        "type",
        "ran on",
        "belongs on",
        "duration",
        "forward op",
        "why",
        "evidence",
        "source",
    )
    return f"<h2>{_text(heading)}</h2>{_table(columns, rows)}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join(
        f'<tr class="{_text(row[0])}">'
        + "".join(f"<td{_wrapping(cell)}>{_text(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _wrapping(cell: str) -> str:
    return ' class="long"' if len(cell) > _LONG else ""


def _list(heading: str, sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(sentence)}</li>" for sentence in sentences)
    return f"<h2>{_text(heading)}</h2><ul>{items}</ul>" if items else ""


def _text(value: str) -> str:
    return html.escape(value, quote=True)
