"""The page before anything is shown in it."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from placement_viz.dashboard import ids
from placement_viz.dashboard.catalog import Listing
from placement_viz.dashboard.parts import (
    card,
    legend_switches,
    picker_data,
    timeline_place,
)
from placement_viz.dashboard.start_page import start_page
from placement_viz.figures import OpClass

__all__ = ["page"]


def page(listing: Listing, root: str, limit_bytes: int) -> dmc.MantineProvider:
    """Return the whole page for a session that can open ``listing``.

    Args:
        listing: What it can open.
        root: Address of the app on its server.
        limit_bytes: The browser refuses larger files before it sends them.
    """
    return dmc.MantineProvider(
        [
            *_memory(),
            _header(listing, root),
            html.Main(
                [
                    _uploads(root, limit_bytes),
                    html.Div(id=ids.MESSAGE, **{"aria-live": "polite"}),
                    start_page(listing, root),
                    _run_view(),
                    _step_view(),
                    _compare_view(listing),
                ],
                id=ids.MAIN,
                className="view-start",
                **{"data-default-run": listing.opened[0] if listing.opened else ""},
            ),
        ],
        defaultColorScheme="auto",
        theme={
            "fontFamily": "system-ui, -apple-system, 'Segoe UI', sans-serif",
            "primaryColor": "teal",
            "defaultRadius": "sm",
        },
    )


def _memory() -> list[Any]:
    return [
        dcc.Location(id=ids.ADDRESS, refresh=False),
        *(
            dcc.Store(id=name)
            for name in (
                ids.COMPARE_FRAME,
                ids.COMPARE_WANTED,
                ids.COMPARE_WINDOW,
                ids.GO,
                ids.JUDGED,
                ids.OP,
                ids.OPENED,
                ids.PAIR,
                ids.RUN,
                ids.SHOWN,
                ids.TABLE_RUN,
                ids.TABLE_WANTED,
                ids.THEME,
                ids.VIEW,
                ids.WINDOW,
            )
        ),
    ]


def _header(listing: Listing, root: str) -> html.Header:
    return html.Header(
        [
            html.H1(dcc.Link("placement_viz", href=f"{root}?start"), className="brand"),
            dmc.SegmentedControl(
                id=ids.VIEW_PICKER,
                data=[
                    {"value": "run", "label": "One run"},
                    {"value": "step", "label": "Step"},
                    {"value": "compare", "label": "Compare"},
                ],
                value="run",
                size="xs",
                **{"aria-label": "View"},
            ),
            _picker(ids.RUN_PICKER, "Run", listing),
            # Dash has no input for files: assets/uploads.js puts one in here.
            html.Label(
                [html.B("Open a timeline"), html.Span(" or drop it here")],
                id=ids.UPLOAD,
                className="upload",
            ),
            dmc.ColorSchemeToggle(
                lightIcon=html.Span("☀", **{"aria-hidden": "true"}),
                darkIcon=html.Span("☾", **{"aria-hidden": "true"}),
                id="color-scheme",
                variant="default",
                size="md",
                **{"aria-label": "Switch between dark and light"},
            ),
        ],
        className="top",
    )


def _uploads(root: str, limit_bytes: int) -> html.Div:
    """Return where assets/uploads.js shows what becomes of files."""
    return html.Div(
        [html.P(className="unseen", role="status"), html.Div(className="lines")],
        id=ids.UPLOADS,
        **{"data-root": root, "data-limit-bytes": str(limit_bytes)},
    )


def _picker(picker_id: str, label: str, listing: Listing) -> html.Div:
    return html.Div(
        [
            html.Label(label, htmlFor=picker_id),
            dmc.Select(
                id=picker_id,
                data=picker_data(listing),
                placeholder="choose a run",
                searchable=True,
                allowDeselect=False,
                nothingFoundMessage="no such run",
                size="xs",
                maxDropdownHeight=420,
            ),
        ],
        className="picker",
    )


def _run_view() -> html.Section:
    devices = card([html.H3("Devices")], html.Div(id=ids.DEVICES, className="scroll"))
    fixes = card([html.H3("What to change")], html.Div(id=ids.FIXES))
    return html.Section(
        [
            html.H2(id=ids.HEADLINE),
            html.P(id=ids.FACTS, className="muted"),
            html.Ul(id=ids.NOTICES, className="notices"),
            _timeline_card(),
            html.Div([_gradients_card(), _details_card()], className="columns"),
            html.Div([devices, fixes], className="columns"),
        ],
        className="run",
    )


def _timeline_card() -> html.Div:
    head = [
        html.H3("Timeline"),
        html.Span(id=ids.CAPTION, className="muted"),
        html.Button("Whole run", id=ids.WHOLE, className="quiet"),
        html.Div(
            dmc.CheckboxGroup(
                legend_switches(),
                id=ids.LEGEND_SWITCHES,
                value=[op_class.value for op_class in OpClass],
            ),
            id=ids.LEGEND,
            role="group",
            **{"aria-label": "Ops that are shown"},
        ),
    ]
    return card(head, *timeline_place(ids.TIMELINE))


def _gradients_card() -> html.Div:
    head = [
        html.H3("Gradient ops"),
        html.Span(id=ids.GRADIENT_CAPTION, className="muted"),
    ]
    # Most of what it takes to start the page would be for this table.
    return card(head, html.Div(id=ids.GRADIENT_PLACE, className="table"))


def _details_card() -> html.Div:
    return card(
        [
            html.H3("Chosen op"),
            html.Button("Close", id=ids.CLOSE_OP, className="quiet"),
        ],
        html.Div(
            id=ids.DETAILS,
            # What scrolls must be in reach of the keyboard.
            tabIndex=0,
            role="region",
            **{"aria-label": "Chosen op", "aria-live": "polite"},
        ),
        className="card details",
    )


def _step_view() -> html.Section:
    return html.Section(
        [
            html.H2("Where the step went"),
            dcc.Loading(html.Div(id=ids.STEP_BODY), delay_show=300),
        ],
        className="step",
    )


def _compare_view(listing: Listing) -> html.Section:
    return html.Section(
        [
            html.Div(
                [
                    _picker(ids.BASELINE, "Before", listing),
                    html.Button("⇄ Swap", id=ids.SWAP, className="quiet"),
                    _picker(ids.CANDIDATE, "After", listing),
                ],
                className="pair",
            ),
            # Most never compare, and all else would wait for its table.
            html.Div(id=ids.COMPARE_PLACE),
        ],
        id=ids.COMPARE,
        className="compare",
    )
