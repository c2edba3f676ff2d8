"""The comparison of two runs: its part of the page, and what fills it."""

from __future__ import annotations

import dataclasses
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from placement_viz.analysis import Comparison
from placement_viz.dashboard import differences, ids, tables
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.frames import comparison_frame
from placement_viz.dashboard.parts import (
    card,
    legend_switches,
    say,
    timeline_place,
)
from placement_viz.dashboard.sessions import session_id
from placement_viz.errors import PlacementVizError
from placement_viz.figures import OpClass
from placement_viz.reports.sentences import comparison_headline
from placement_viz.units import format_count

__all__ = [
    "COMPARISON_IDS",
    "add_comparison",
    "comparison_parts",
    "comparison_shell",
]

#: What :func:`comparison_parts` fills: id and property.
COMPARISON_IDS = (
    (ids.COMPARE_BODY, "className"),
    (ids.COMPARE_HEADLINE, "children"),
    (ids.COMPARE_NOTICES, "children"),
    (ids.COMPARE_FACTS, "children"),
    (ids.MOVES_CAPTION, "children"),
    (ids.MOVES_TABLE, "rowData"),
    (ids.COMPARE_DEVICES, "children"),
    (ids.COMPARE_CHANGES, "children"),
    (ids.COMPARE_ONLY, "children"),
)


def comparison_shell() -> html.Div:
    """Return the comparison before two runs are chosen."""
    timelines = card(
        [
            html.H3("Both timelines, aligned at their first op"),
            html.Div(
                [
                    html.Button("Align starts", className="quiet align-starts"),
                    html.Button("Align chosen op", className="quiet align-chosen"),
                    html.Span(className="muted shift"),
                ],
                className="aligning",
            ),
            html.Div(
                dmc.CheckboxGroup(
                    legend_switches(),
                    id=ids.COMPARE_LEGEND,
                    value=[op_class.value for op_class in OpClass],
                ),
                role="group",
                **{"aria-label": "Ops that are shown"},
            ),
        ],
        *timeline_place(ids.COMPARE_TIMELINE),
    )
    moves = card(
        [
            html.H3("What moved"),
            html.Span(id=ids.MOVES_CAPTION, className="muted"),
        ],
        html.Div(tables.moves_grid(ids.MOVES_TABLE), className="table"),
    )
    devices = card(
        [html.H3("Devices")], html.Div(id=ids.COMPARE_DEVICES, className="scroll")
    )
    changes = card(
        [html.H3("What changed")], html.Div(id=ids.COMPARE_CHANGES, className="scroll")
    )
    only = card([html.H3("Ops of one run only")], html.Div(id=ids.COMPARE_ONLY))
    return html.Div(
        [
            html.H2("Choose two runs of the same program.", id=ids.COMPARE_HEADLINE),
            html.Ul(id=ids.COMPARE_NOTICES, className="notices"),
            html.Div(id=ids.COMPARE_FACTS),
            html.Div(id=ids.COMPARE_STEP),
            timelines,
            html.Div(
                [moves, html.Div([changes, devices, only], className="stack")],
                className="columns",
            ),
        ],
        id=ids.COMPARE_BODY,
        className="empty",
    )


def comparison_parts(comparison: Comparison) -> tuple[Any, ...]:
    """Return the values for :data:`COMPARISON_IDS`."""
    rows = tables.move_rows(comparison)
    moved = format_count(comparison.moves.height, "op")
    left_out = len(rows) < comparison.moves.height
    doubt = differences.doubt(comparison)
    devices = comparison.devices
    return (
        "filled",
        comparison_headline(comparison),
        [html.Li(doubt)] if doubt else [],
        differences.steps_panel(comparison),
        f"{moved}; listed: {len(rows):,}, the longest" if left_out else moved,
        rows,
        differences.devices_change_panel(comparison),
        differences.changes_panel(comparison),
        [
            differences.only_panel("Before", comparison.only_baseline, devices),
            differences.only_panel("After", comparison.only_candidate, devices),
        ],
    )


def add_comparison(app: dash.Dash, catalog: Catalog) -> None:
    """Connect the comparison with the runs of ``catalog``."""

    @app.callback(
        Output(ids.COMPARE_PLACE, "children"),
        Input(ids.COMPARE_WANTED, "data"),
        prevent_initial_call=True,
    )
    def make_room(is_wanted: bool | None) -> html.Div:
        if not is_wanted:
            raise PreventUpdate
        return comparison_shell()

    @app.callback(
        [
            Output(ids.COMPARE_FRAME, "data"),
            *(Output(part, prop) for part, prop in COMPARISON_IDS),
        ],
        Input(ids.PAIR, "data"),
        prevent_initial_call=True,
    )
    def show_comparison(pair: dict[str, str] | None) -> Any:
        if not pair:
            raise PreventUpdate
        labels, session = (pair["baseline"], pair["candidate"]), session_id()
        try:
            comparison = catalog.comparison(*labels, session)
            rows = [catalog.picture(label, session).rows for label in labels]
        except PlacementVizError as error:
            say(error)
            return [no_update] * (len(COMPARISON_IDS) + 1)
        frame = comparison_frame(comparison, (rows[0], rows[1]))
        return dataclasses.asdict(frame), *comparison_parts(comparison)

    @app.callback(
        Output(ids.COMPARE_STEP, "children"),
        Input(ids.COMPARE_HEADLINE, "children"),
        State(ids.PAIR, "data"),
        prevent_initial_call=True,
    )
    def show_steps(_: Any, pair: dict[str, str] | None) -> Any:
        # By itself, after the comparison: of large runs it takes longer than all else.
        if not pair:
            raise PreventUpdate
        try:
            comparison = catalog.comparison(
                pair["baseline"], pair["candidate"], session_id()
            )
        except PlacementVizError as error:
            # What shows the comparison says so.
            raise PreventUpdate from error
        return differences.steps_told(comparison)
