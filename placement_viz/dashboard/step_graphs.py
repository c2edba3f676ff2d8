"""The parts of a step that are drawn: memory over time, and the scopes."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from placement_viz.analysis import Analysis
from placement_viz.dashboard import ids
from placement_viz.dashboard.panels import titled_table
from placement_viz.dashboard.parts import card
from placement_viz.figures import Look, icicle_figure, memory_figure
from placement_viz.names import short_device
from placement_viz.units import format_bytes, format_count, format_us

__all__ = ["memory_part", "scopes_card"]

#: Of what is alive at a peak so much is listed.
_MOST_ROWS = 8
_GRAPH_CONFIG = {"displaylogo": False, "displayModeBar": False, "plotlyServerURL": ""}


def memory_part(analysis: Analysis, look: Look) -> list[Any]:
    """Return a curve of what each device held, and what was alive at the peaks."""
    memory, devices = analysis.step.memory, analysis.run.trace.devices
    if memory is None:
        return []
    graph = dcc.Graph(
        id=ids.MEMORY_GRAPH,
        figure=memory_figure(memory, devices, look),
        config=_GRAPH_CONFIG,
        className="step-graph",
    )
    rows = [
        (
            html.Th(row["name"], scope="row", className="long"),
            short_device(peak.device, devices),
            format_bytes(row["n_bytes"]),
            f"{format_us(row['start_us'])} – {format_us(row['end_us'])}",
            "misplaced" if row["is_misplaced"] else "",
        )
        for peak in memory.peaks
        for row in peak.alive.head(_MOST_ROWS // 2).iter_rows(named=True)
    ]
    head = ("Taken by", "Device", "Size", "Held", "")
    return [graph, titled_table("Alive at the peaks", head, rows)]


def scopes_card(analysis: Analysis, look: Look) -> html.Div:
    """Return the step by name scope; a click leads to the scope's time."""
    tree, devices = analysis.step.scopes, analysis.run.trace.devices
    head: list[Any] = [
        html.H3("By name scope"),
        html.Span(
            "Width is time, colour the device, a hatch misplaced gradients. A click "
            "shows the scope in the timeline.",
            className="muted",
        ),
    ]
    if tree.scopes.is_empty():
        return card(head, html.P("No op of this run is proved to be on a device."))
    left_out = format_count(
        tree.n_left_out, "smaller scope and op", "smaller scopes and ops"
    )
    return card(
        head,
        dcc.Graph(
            id=ids.ICICLE,
            figure=icicle_figure(tree, devices, look),
            config=_GRAPH_CONFIG,
            className="step-graph",
        ),
        *(
            [html.P(f"{left_out} are not drawn.", className="muted")]
            * bool(tree.n_left_out)
        ),
    )
