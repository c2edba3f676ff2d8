"""What happens when a run, a window or an op is chosen."""

from __future__ import annotations

from typing import Any

import dash
import dash_ag_grid as dag
from dash import Input, Output, html, no_update
from dash.exceptions import PreventUpdate

from placement_viz.analysis import Analysis
from placement_viz.dashboard import ids, panels, tables
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.parts import legend_switches, say
from placement_viz.dashboard.sessions import session_id
from placement_viz.errors import PlacementVizError
from placement_viz.figures import count_classes, timeline_caption
from placement_viz.reports.sentences import headline

__all__ = ["add_run_view", "op_answer", "run_parts"]

#: What :func:`run_parts` fills: id and property.
_RUN_IDS = (
    (ids.HEADLINE, "children"),
    (ids.FACTS, "children"),
    (ids.NOTICES, "children"),
    (ids.CAPTION, "children"),
    (ids.LEGEND_SWITCHES, "children"),
    (ids.DEVICES, "children"),
    (ids.FIXES, "children"),
    (ids.GRADIENT_CAPTION, "children"),
)


def run_parts(analysis: Analysis) -> tuple[Any, ...]:
    """Return everything the view of a run shows, but its timeline and its table."""
    return (
        headline(analysis),
        panels.run_facts(analysis),
        panels.notices_panel(analysis),
        timeline_caption(analysis),
        legend_switches(count_classes(analysis.run, analysis.colocation)),
        panels.devices_panel(analysis),
        panels.fixes_panel(analysis),
        tables.gradient_caption(analysis),
    )


def op_answer(analysis: Analysis, op: int | None) -> Any:
    """Return what is known about the chosen op.

    Args:
        analysis: The run.
        op: Position in its trace as the address gives it, so perhaps not there.
    """
    n_ops = analysis.run.trace.ops.height
    if op is None:
        hint = (
            "Choose an op in the timeline or in the table to see why it is where it is."
        )
        return html.P(hint, className="muted")
    if not 0 <= op < n_ops:
        return html.P(f"This run has no op number {op}; it has {n_ops:,}.")
    return panels.op_panel(analysis, op)


def add_run_view(app: dash.Dash, catalog: Catalog) -> None:
    """Connect the view of one run with the runs of ``catalog``."""
    _add_run(app, catalog)
    _add_table(app, catalog)


def _add_run(app: dash.Dash, catalog: Catalog) -> None:
    @app.callback(
        Output(ids.SHOWN, "data"),
        Input(ids.RUN, "data"),
        Input(ids.JUDGED, "data"),
        prevent_initial_call=True,
    )
    def open_run(label: str | None, judged: list[str] | None) -> Any:
        # By itself, for who waits sees the ops once this is answered.
        is_news_of_judge = dash.callback_context.triggered_id == ids.JUDGED
        if is_news_of_judge and label not in (judged or ()):
            raise PreventUpdate
        if label:
            try:
                catalog.load(label, session_id())
            except PlacementVizError as error:
                # What is open stays open.
                say(error)
                return no_update
        return label

    @app.callback(
        [Output(part, prop) for part, prop in _RUN_IDS],
        Input(ids.SHOWN, "data"),
        prevent_initial_call=True,
    )
    def show_run(label: str | None) -> tuple[Any, ...]:
        if not label:
            raise PreventUpdate
        return run_parts(catalog.load(label, session_id()))

    @app.callback(
        Output(ids.DETAILS, "children"),
        Input(ids.OP, "data"),
        Input(ids.SHOWN, "data"),
        prevent_initial_call=True,
    )
    def show_op(op: int | None, label: str | None) -> Any:
        if not label:
            raise PreventUpdate
        return op_answer(catalog.load(label, session_id()), op)


def _add_table(app: dash.Dash, catalog: Catalog) -> None:
    @app.callback(
        Output(ids.GRADIENT_PLACE, "children"),
        Input(ids.TABLE_WANTED, "data"),
        prevent_initial_call=True,
    )
    def make_table(is_wanted: bool | None) -> dag.AgGrid:
        if not is_wanted:
            raise PreventUpdate
        return tables.gradient_grid(ids.GRADIENT_TABLE)

    @app.callback(
        Output(ids.GRADIENT_TABLE, "rowData"),
        Input(ids.TABLE_RUN, "data"),
        prevent_initial_call=True,
    )
    def fill_table(label: str | None) -> list[dict[str, Any]]:
        if not label:
            raise PreventUpdate
        return tables.gradient_rows(catalog.load(label, session_id()))
