"""What a person sees before a run is open."""

from __future__ import annotations

from urllib.parse import urlencode

from dash import dcc, html

from placement_viz.dashboard.catalog import Listing

__all__ = ["start_page"]

_INTRODUCTION = (
    "Open the timeline of one training step. You see what ran where, which gradient "
    "ops are away from the device of their forward op, how that is known, what it "
    "costs and which change brings them home."
)
_OWN_STEP = (
    "Drop timeline.json or timeline.json.gz anywhere on this page, or choose it above. "
    "To make one:"
)
_PLAIN_TIMELINES = (
    "A timeline that tf.python.client.timeline wrote works too; it just carries less "
    "evidence. Two files dropped together are compared."
)


def start_page(listing: Listing, root: str) -> html.Section:
    """Return what this is for, how to get a timeline, and the runs to open.

    Args:
        listing: What the session can open.
        root: Address of the app on its server.
    """
    return html.Section(
        [
            html.H2("Which gradient ops ran on the wrong device?"),
            html.P(_INTRODUCTION, className="intro"),
            html.Div(
                [_own_step_card(), _runs_card(listing, root)],
                className="columns even",
            ),
        ],
        className="start",
    )


def _own_step_card() -> html.Div:
    return html.Div(
        [
            html.H3("Your own step"),
            html.P(_OWN_STEP),
            html.Pre("placement-viz capture train.py"),
            html.P(_PLAIN_TIMELINES, className="muted"),
        ],
        className="card",
    )


def _runs_card(listing: Listing, root: str) -> html.Div:
    runs = [
        html.Li(dcc.Link(label, href=f"{root}?{urlencode({'run': label})}"))
        for label in listing.labels
    ]
    own = bool(listing.uploads or listing.opened)
    return html.Div(
        [
            html.H3("Runs to open" if own else "Sample runs"),
            html.Ul(runs, className="samples")
            if runs
            else html.P("None here.", className="muted"),
        ],
        className="card",
    )
