"""Comparisons into the parts of the page around the two timelines."""

from __future__ import annotations

import polars as pl
from dash import html

from placement_viz.analysis import Comparison
from placement_viz.analysis.usage import DeviceUsage
from placement_viz.dashboard.panels import fact_list, plain_table
from placement_viz.names import short_device
from placement_viz.reports.step_comparison import step_changes
from placement_viz.units import format_count, format_us

__all__ = [
    "changes_panel",
    "devices_change_panel",
    "doubt",
    "only_panel",
    "steps_panel",
    "steps_told",
]

#: How many of the ops that only one run has are listed.
_MAX_ONLY = 200
# Two steps of one program share most ops, even when the gradients were rebuilt.
_LEAST_SHARED = 0.2
_MEANINGS = {
    "fixed": "misplaced before, at home now",
    "residual": "moved and still misplaced",
    "broken": "misplaced since it moved",
    "collateral": "moved without having been misplaced",
    "gone": "only before",
    "new": "only after",
}


def devices_change_panel(comparison: Comparison) -> html.Table:
    """Return a table of busy and misplaced time on each device, before and after."""
    before, after = (
        {each.device: each for each in side.usage}
        for side in (comparison.baseline, comparison.candidate)
    )
    devices = comparison.devices
    nothing = DeviceUsage("", 0, 0, 0, 0)
    rows = []
    for device in devices:
        was, now = before.get(device, nothing), after.get(device, nothing)
        rows.append(
            (
                html.Th(short_device(device, devices), scope="row", title=device),
                _change(was.busy_us, now.busy_us),
                _difference(now.busy_us - was.busy_us),
                _change(was.misplaced_busy_us, now.misplaced_busy_us),
            )
        )
    return plain_table(("Device", "Busy", "Change", "Busy with misplaced"), rows)


def changes_panel(comparison: Comparison) -> html.Table:
    """Return a table of what changed, kind by kind."""
    return plain_table(
        ("Kind", "Ops", "Time before", "Time after"),
        (
            (
                html.Th([change.kind, html.Small(_MEANINGS[change.kind])], scope="row"),
                f"{change.ops:,}",
                format_us(change.baseline_us) if change.kind != "new" else "–",
                format_us(change.candidate_us) if change.kind != "gone" else "–",
            )
            for change in comparison.changes
        ),
    )


def steps_panel(comparison: Comparison) -> html.Dl:
    """Return the figures of both runs that matter most."""
    before, after = comparison.baseline, comparison.candidate
    left, right = before.colocation.summary, after.colocation.summary
    return fact_list(
        {
            "Span": _change(before.span_us, after.span_us),
            "Misplaced": f"{left.misplaced_ops:,} → {right.misplaced_ops:,}",
            "Misplaced time": _change(left.misplaced_us, right.misplaced_us),
            "Moved": format_count(comparison.moves.height, "op"),
            "Matched": format_count(comparison.matched_ops, "op"),
        }
    )


def steps_told(comparison: Comparison) -> html.Dl:
    """Return how transfers, critical paths and memory of both steps differ."""
    return fact_list(step_changes(comparison))


def doubt(comparison: Comparison) -> str | None:
    """Return a warning when two runs have hardly an op in common, else None."""
    n_ops = min(
        side.run.trace.executed.height
        for side in (comparison.baseline, comparison.candidate)
    )
    if comparison.matched_ops >= n_ops * _LEAST_SHARED:
        return None
    return (
        f"Only {format_count(comparison.matched_ops, 'op')} of {n_ops:,} can be found "
        "in both runs: are these two steps of the same program?"
    )


def only_panel(title: str, ops: pl.DataFrame, devices: tuple[str, ...]) -> html.Details:
    """Return the list of ops that only one run has, folded."""
    shown = ops.head(_MAX_ONLY)
    more = f", the longest {_MAX_ONLY} listed" if ops.height > _MAX_ONLY else ""
    return html.Details(
        [
            html.Summary(f"{title}: {format_count(ops.height, 'op')}{more}"),
            plain_table(
                ("Op", "Type", "Device", "Duration"),
                (
                    (name, op_type, short_device(device, devices), format_us(us))
                    for name, op_type, device, us in shown.select(
                        "name", "op_type", "device", "duration_us"
                    ).iter_rows()
                ),
            ),
        ],
        className="only",
    )


def _change(before_us: int, after_us: int) -> str:
    return f"{format_us(before_us)} → {format_us(after_us)}"


def _difference(us: int) -> str:
    return f"{'+' if us > 0 else ''}{format_us(us)}"
