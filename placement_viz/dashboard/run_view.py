"""What happens when a run, a window or an op is chosen."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, State, html, no_update
from dash.exceptions import PreventUpdate

from placement_viz.analysis import Analysis
from placement_viz.dashboard import ids, panels, tables
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.parts import legend_switches, look_named, say
from placement_viz.dashboard.sessions import session_id
from placement_viz.errors import PlacementVizError
from placement_viz.figures import count_classes, timeline_caption, timeline_frame
from placement_viz.reports.sentences import headline

__all__ = ["add_run_view", "check_news", "op_answer", "run_parts"]

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
    (ids.GRADIENT_TABLE, "rowData"),
)


def run_parts(analysis: Analysis) -> tuple[Any, ...]:
    """Return everything the view of a run shows, but its timeline."""
    return (
        headline(analysis),
        panels.run_facts(analysis),
        panels.notices_panel(analysis),
        timeline_caption(analysis),
        legend_switches(count_classes(analysis.run, analysis.colocation)),
        panels.devices_panel(analysis),
        panels.fixes_panel(analysis),
        tables.gradient_caption(analysis),
        tables.gradient_rows(analysis),
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
    _add_choices(app, catalog)
    _add_timeline(app, catalog)


def _add_choices(app: dash.Dash, catalog: Catalog) -> None:
    @app.callback(
        [
            Output(ids.SHOWN, "data"),
            # With all else, as the page waits for nothing longer than for this.
            Output(ids.TIMELINE, "figure"),
            *(Output(part, prop) for part, prop in _RUN_IDS),
        ],
        Input(ids.RUN, "data"),
        Input(ids.JUDGED, "data"),
        State(ids.THEME, "data"),
        State(ids.COLLAPSED, "data"),
        prevent_initial_call=True,
    )
    def show_run(
        label: str | None,
        judged: list[str] | None,
        theme: str | None,
        collapsed: list[str] | None,
    ) -> tuple[Any, ...]:
        check_news(label, judged)
        nothing = [no_update] * (len(_RUN_IDS) + 1)
        if not label:
            return None, *nothing
        try:
            analysis = catalog.load(label, session_id())
            look = look_named(theme or "")
            frame = timeline_frame(analysis, look, collapsed or ())
            return label, frame, *run_parts(analysis)
        except PlacementVizError as error:
            # What is open stays open.
            say(error)
            return no_update, *nothing

    @app.callback(
        Output(ids.DETAILS, "children"),
        Input(ids.OP, "data"),
        Input(ids.SHOWN, "data"),
        Input(ids.JUDGED, "data"),
        prevent_initial_call=True,
    )
    def show_op(op: int | None, label: str | None, judged: list[str] | None) -> Any:
        check_news(label, judged)
        if not label:
            raise PreventUpdate
        return op_answer(catalog.load(label, session_id()), op)


def check_news(label: str | None, judged: list[str] | None) -> None:
    """Do nothing when another run than the one that is shown has been judged.

    Raises:
        PreventUpdate: That is so.
    """
    is_news_of_judge = dash.callback_context.triggered_id == ids.JUDGED
    if is_news_of_judge and label not in (judged or ()):
        raise PreventUpdate


def _add_timeline(app: dash.Dash, catalog: Catalog) -> None:
    @app.callback(
        Output(ids.TIMELINE, "figure", allow_duplicate=True),
        Input(ids.THEME, "data"),
        Input(ids.COLLAPSED, "data"),
        State(ids.SHOWN, "data"),
        prevent_initial_call=True,
    )
    def frame_timeline(
        theme: str | None, collapsed: list[str] | None, label: str | None
    ) -> Any:
        if not label or not theme:
            raise PreventUpdate
        analysis = catalog.load(label, session_id())
        return timeline_frame(analysis, look_named(theme), collapsed or ())
