"""Small parts that several views of the page share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import dcc, html

from placement_viz.dashboard import ids
from placement_viz.dashboard.catalog import Listing
from placement_viz.figures import DARK, LIGHT, MARKS, Look, Mark, OpClass

__all__ = [
    "card",
    "legend_labels",
    "legend_switches",
    "look_named",
    "picker_data",
    "say",
    "timeline_place",
    "with_code",
]


def card(head: list[Any], *body: Any, **attributes: Any) -> html.Div:
    """Return a framed part of the page with its title line."""
    return html.Div(
        [html.Div(head, className="card-head"), *body],
        **{"className": "card", **attributes},
    )


def look_named(name: str) -> Look:
    """Return the colours of the page's colour scheme."""
    return DARK if name == DARK.name else LIGHT


def picker_data(listing: Listing) -> list[dict[str, Any]]:
    """Return the choices of a run picker, grouped by where runs come from."""
    groups = (
        ("Your uploads", listing.uploads),
        ("Opened", listing.opened),
        ("Samples", listing.samples),
    )
    return [
        {"group": title, "items": [{"value": x, "label": x} for x in labels]}
        for title, labels in groups
        if labels
    ]


def legend_labels(counts: Mapping[OpClass, int] | None = None) -> list[html.Span]:
    """Return a swatch with a name for each class, the misplaced first.

    With ``counts``, classes that the run does not have are left out.
    """
    return [
        html.Span(
            [
                html.I(className=f"swatch {op_class.value}"),
                mark.label,
                html.Small(f" {counts[op_class]:,}") if counts else None,
            ],
            title=mark.meaning,
            className="legend-item",
        )
        for op_class, mark in _listed(counts)
    ]


def legend_switches(counts: Mapping[OpClass, int] | None = None) -> html.Div:
    """Return the switches of the timeline's legend."""
    return html.Div(
        [
            dmc.Checkbox(value=op_class.value, label=label, size="xs")
            for (op_class, _), label in zip(
                _listed(counts), legend_labels(counts), strict=True
            )
        ],
        className="legend",
    )


def _listed(counts: Mapping[OpClass, int] | None) -> list[tuple[OpClass, Mark]]:
    # That nothing is misplaced is worth saying, that nothing is exempt is not.
    return [
        (op_class, mark)
        for op_class, mark in MARKS.items()
        if not counts or op_class is OpClass.MISPLACED or counts[op_class] > 0
    ]


def with_code(text: str) -> list[Any]:
    """Return ``text`` with what stands between backquotes as code."""
    return [
        html.Code(part) if position % 2 else part
        for position, part in enumerate(text.split("`"))
    ]


def say(news: Exception | str) -> None:
    """Show a line about what just happened; screen readers read it out."""
    is_error = isinstance(news, Exception)
    line = html.Div(
        with_code(str(news)),
        role="alert" if is_error else "status",
        className="error" if is_error else "news",
    )
    dash.set_props(ids.MESSAGE, {"children": line})


def timeline_place(timeline_id: str) -> list[Any]:
    """Return where ``assets/timeline_view.js`` draws a timeline, with its search."""
    return [
        html.Canvas(className="map", **{"aria-hidden": "true"}),
        html.Div(
            [
                html.Canvas(className="ops"),
                html.Div(className="heads"),
                html.Div(html.Span(), className="cursor", hidden=True),
                html.Div(className="tip", role="tooltip", hidden=True),
            ],
            id=timeline_id,
            className="graph",
            tabIndex=0,
            role="group",
            **{
                "aria-label": "Timeline. Press ? for the keys. The tables below list "
                "the same ops."
            },
        ),
        html.P(className="timeline-status muted"),
        # The same for screen readers, when it has not changed for a moment.
        html.P(className="timeline-voice unseen", role="status"),
        html.Label(
            [
                "Search",
                dcc.Input(
                    className="timeline-search",
                    type="search",
                    placeholder="name or type of op, a regular expression",
                ),
            ],
            className="timeline-search-box",
        ),
    ]
