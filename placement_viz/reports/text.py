"""Results for the terminal, drawn with rich.

Names come from files, so they are text and never rich's markup.
"""

from __future__ import annotations

import functools

import polars as pl
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placement_viz.analysis import Analysis, Comparison
from placement_viz.names import short_device
from placement_viz.reports.sentences import comparison_headline, fix_sentence, headline
from placement_viz.reports.step import step_answers, step_topics
from placement_viz.reports.step_comparison import step_changes
from placement_viz.units import format_share, format_us

__all__ = ["print_analysis", "print_comparison"]

_MOST_ROWS = 15
#: Rows above and below, and columns on both sides.
_INDENT = (0, 0, 0, 2)


def print_analysis(analysis: Analysis, console: Console) -> None:
    """Print what a person wants to know of one run, the answer first."""
    console.print(Text(headline(analysis), style="bold"))
    console.print()
    console.print(_device_table(analysis))
    if not analysis.colocation.misplaced.is_empty():
        console.print(_misplaced_table(analysis))
    for fix in analysis.fixes:
        console.print(Text(f"Fix: {fix_sentence(fix)}"))
    _print_step(analysis, console)
    for notice in analysis.notices:
        console.print(Text(f"Note: {notice.message}.", style="yellow"))


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what changed between two runs, the answer first."""
    console.print(Text(comparison_headline(comparison), style="bold"))
    console.print()
    console.print(_busy_table(comparison))
    for title, text in step_changes(comparison).items():
        console.print(Text(f"{title}: {text}"))
    if any(change.ops for change in comparison.changes):
        console.print(_changes_table(comparison))
    if not comparison.is_placed:
        return
    if comparison.moves.is_empty():
        console.print(Text(f"All {comparison.matched_ops} common ops stayed."))
    else:
        console.print(_moves_table(comparison))


def _print_step(analysis: Analysis, console: Console) -> None:
    """Print where the step went: the questions people bring, then topic by topic."""
    answers = step_answers(analysis)
    for question, answer in answers.items():
        console.print()
        console.print(Text(question, style="bold"))
        console.print(Padding(Text(answer), _INDENT))
    said = " ".join(answers.values())
    for topic in step_topics(analysis):
        news = [each for each in topic.sentences if each not in said]
        if not news:
            continue
        console.print()
        console.print(Text(topic.title, style="bold"))
        for sentence in news:
            console.print(Padding(Text(sentence), _INDENT))
    console.print()


def _device_table(analysis: Analysis) -> Table:
    devices = analysis.run.trace.devices
    span_us = analysis.run.trace.span_us
    table = Table(title=f"Step of {format_us(span_us)}", title_justify="left")
    table.add_column("device")
    has_copies = any(usage.copy_busy_us for usage in analysis.usage)
    headings = ["ops", "busy", "of the step", "gradients", "misplaced"]
    for heading in headings + ["copies"] * has_copies:
        table.add_column(heading, justify="right")
    for usage in analysis.usage:
        table.add_row(
            Text(short_device(usage.device, devices)),
            f"{usage.ops:,}",
            format_us(usage.busy_us),
            format_share(usage.busy_us, span_us),
            format_us(usage.gradient_busy_us),
            format_us(usage.misplaced_busy_us),
            *[format_us(usage.copy_busy_us)] * has_copies,
        )
    return table


def _misplaced_table(analysis: Analysis) -> Table:
    devices = analysis.run.trace.devices
    grouped = (
        analysis.colocation.misplaced.group_by(
            "forward_op", "device", "expected_device", "evidence", maintain_order=True
        )
        .agg(n=pl.len(), total_us=pl.col("duration_us").sum())
        .sort("total_us", descending=True, maintain_order=True)
    )
    table = _limited_table("Misplaced gradients by forward op", grouped.height)
    table.add_column("forward op", overflow="fold")
    for heading in ("ran on", "belongs on", "known from"):
        table.add_column(heading)
    for heading in ("ops", "durations"):
        table.add_column(heading, justify="right")
    for row in grouped.head(_MOST_ROWS).iter_rows(named=True):
        table.add_row(
            Text(row["forward_op"] or "?"),
            Text(short_device(row["device"], devices)),
            Text(short_device(row["expected_device"], devices)),
            row["evidence"],
            str(row["n"]),
            format_us(row["total_us"]),
        )
    return table


def _busy_table(comparison: Comparison) -> Table:
    before = {u.device: u for u in comparison.baseline.usage}
    after = {u.device: u for u in comparison.candidate.usage}
    table = Table()
    table.add_column("device")
    for heading in ("busy before", "after", "misplaced before", "after"):
        table.add_column(heading, justify="right")
    for device in comparison.devices:
        cells = [
            format_us(getattr(side[device], field)) if device in side else "–"
            for field in ("busy_us", "misplaced_busy_us")
            for side in (before, after)
        ]
        table.add_row(Text(short_device(device, comparison.devices)), *cells)
    return table


def _changes_table(comparison: Comparison) -> Table:
    table = Table(title="What changed, by durations", title_justify="left")
    table.add_column("kind")
    for heading in ("ops", "before", "after"):
        table.add_column(heading, justify="right")
    for change in comparison.changes:
        if change.ops:
            table.add_row(
                change.kind,
                f"{change.ops:,}",
                format_us(change.baseline_us) if change.kind != "new" else "–",
                format_us(change.candidate_us) if change.kind != "gone" else "–",
            )
    return table


def _moves_table(comparison: Comparison) -> Table:
    moves = comparison.moves
    short = functools.partial(short_device, among=comparison.devices)
    table = _limited_table("Moved ops", moves.height)
    table.add_column("op", overflow="fold")
    for heading in ("type", "moved", "kind"):
        table.add_column(heading)
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    for row in moves.head(_MOST_ROWS).iter_rows(named=True):
        table.add_row(
            Text(row["name"]),
            Text(row["op_type"]),
            Text(f"{short(row['from_device'])} → {short(row['to_device'])}"),
            row["kind"],
            format_us(row["baseline_us"]),
            format_us(row["candidate_us"]),
        )
    return table


def _limited_table(title: str, n_rows: int) -> Table:
    """Return a table whose title says how much of it is shown."""
    if n_rows > _MOST_ROWS:
        title = f"{title}: the {_MOST_ROWS} longest of {n_rows:,}"
    return Table(title=title, title_justify="left")
