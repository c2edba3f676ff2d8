"""What happens when a person does something: load, call one pure function, return.

The address is the only state: what a person does changes it, and the page follows.
That part runs in the browser (``assets/dashboard.js``) and is connected here; what
needs a run is in ``run_view``, ``step_view``, ``compare_view`` and ``opening``.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, State

from placement_viz.dashboard import ids
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.compare_view import add_comparison
from placement_viz.dashboard.opening import add_opening
from placement_viz.dashboard.run_view import add_run_view
from placement_viz.dashboard.step_view import add_step_view

__all__ = ["add_callbacks"]


def add_callbacks(app: dash.Dash, catalog: Catalog) -> None:
    """Connect the page of ``app`` with the runs of ``catalog``."""
    _add_browser_callbacks(app)
    add_opening(app, catalog)
    add_run_view(app, catalog)
    add_step_view(app, catalog)
    add_comparison(app, catalog)


def _add_browser_callbacks(app: dash.Dash) -> None:
    """Connect the functions of ``assets/dashboard.js``.

    Most have no output: they set what they change themselves, since Dash allows no
    circle of callbacks and address and controls depend on each other. Of two with the
    same inputs Dash would only know one.
    """

    def connect(name: str, *parts: Any, at_start: bool = False) -> None:
        app.clientside_callback(
            ClientsideFunction("placement", name),
            *parts,
            prevent_initial_call=not at_start,
        )

    connect("readAddress", Input(ids.ADDRESS, "search"), at_start=True)
    connect("prepare", Input(ids.ADDRESS, "pathname"), at_start=True)
    connect(
        "arrange",
        Output(ids.MAIN, "className"),
        Input(ids.VIEW, "data"),
        Input(ids.SHOWN, "data"),
    )
    connect(
        "navigate",
        Input(ids.GO, "data"),
        Input(ids.RUN_PICKER, "value"),
        Input(ids.VIEW_PICKER, "value"),
        Input(ids.BASELINE, "value"),
        Input(ids.CANDIDATE, "value"),
        Input(ids.SWAP, "n_clicks"),
        State(ids.BASELINE, "data"),
    )
    connect("choose", Input(ids.GRADIENT_TABLE, "selectedRows"))
    connect("closeOp", Input(ids.CLOSE_OP, "n_clicks"))
    connect("frame", Input(ids.SHOWN, "data"))
    connect("compare", Input(ids.COMPARE_PLACE, "children"))
    connect(
        "frameComparison",
        Input(ids.COMPARE_FRAME, "data"),
        State(ids.PAIR, "data"),
    )
    connect("showWhole", Input(ids.WHOLE, "n_clicks"))
    connect("showWindow", Input(ids.WINDOW, "data"))
    connect("showClasses", Input(ids.LEGEND_SWITCHES, "value"))
    connect("showComparedClasses", Input(ids.COMPARE_LEGEND, "value"))
    connect("chooseMove", Input(ids.MOVES_TABLE, "selectedRows"))
    connect("showOp", Input(ids.OP, "data"))
    connect("fillTable", Input(ids.GRADIENT_PLACE, "children"))
    connect("selectRow", Input(ids.GRADIENT_TABLE, "rowData"))
    connect("showScope", Input(ids.ICICLE, "clickData"))
