"""The view of where a step went, filled when a person first looks at it."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, html
from dash.exceptions import PreventUpdate

from placement_viz.analysis import Analysis
from placement_viz.dashboard import ids, step_graphs, step_panels
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.parts import card, look_named, say
from placement_viz.dashboard.sessions import session_id
from placement_viz.errors import PlacementVizError
from placement_viz.figures import Look
from placement_viz.reports.step import step_topics

__all__ = ["add_step_view", "step_parts"]


def step_parts(analysis: Analysis, label: str, look: Look) -> list[Any]:
    """Return the view of where the step of a run went.

    Args:
        analysis: The run.
        label: What it is called in the address, for links into its timeline.
        look: The colours of the page.
    """
    if not analysis.is_judged:
        return [html.P("Not known yet: the ops are being judged.", className="muted")]
    pictures = {
        "Devices": step_panels.devices_part(analysis, label),
        "Transfers": step_panels.transfers_part(analysis),
        "Towers": step_panels.towers_part(analysis),
        "Updates": step_panels.updates_part(analysis, label),
        "Critical path": step_panels.path_part(analysis, label),
        "Memory": step_graphs.memory_part(analysis, look),
    }
    return [
        step_panels.answers_card(analysis),
        *(
            card(
                [html.H3(topic.title)],
                step_panels.sentences_list(topic.sentences),
                *pictures.get(topic.title, ()),
            )
            for topic in step_topics(analysis)
        ),
        step_graphs.scopes_card(analysis, look),
    ]


def add_step_view(app: dash.Dash, catalog: Catalog) -> None:
    """Connect the view with the runs of ``catalog``."""

    @app.callback(
        Output(ids.STEP_BODY, "children"),
        Input(ids.VIEW, "data"),
        Input(ids.SHOWN, "data"),
        Input(ids.THEME, "data"),
        prevent_initial_call=True,
    )
    def show_step(view: str | None, label: str | None, theme: str | None) -> Any:
        # Nobody who does not look at it waits for it.
        if view != "step" or not label or not theme:
            raise PreventUpdate
        try:
            analysis = catalog.load(label, session_id())
            return step_parts(analysis, label, look_named(theme))
        except PlacementVizError as error:
            say(error)
            raise PreventUpdate from error
