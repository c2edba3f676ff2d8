"""Where the page goes once uploads are open; how they get there is in ``uploads``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash
from dash import Input, Output, no_update
from dash.exceptions import PreventUpdate

from placement_viz.dashboard import ids
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.parts import picker_data, say
from placement_viz.dashboard.sessions import session_id

__all__ = ["add_opening", "destination"]

_PICKERS = (ids.RUN_PICKER, ids.BASELINE, ids.CANDIDATE)


def destination(labels: Sequence[str]) -> Any:
    """Return where to go after an upload: two files at once are compared."""
    match labels:
        case []:
            return no_update
        case [label]:
            return {"view": "run", "run": label}
        case [baseline, candidate, *_]:
            return {"view": "compare", "baseline": baseline, "candidate": candidate}
    raise AssertionError


def add_opening(app: dash.Dash, catalog: Catalog) -> None:
    """Go to what was uploaded together, once ``assets/uploads.js`` says it is open."""

    @app.callback(
        Output(ids.GO, "data"),
        Input(ids.OPENED, "data"),
        prevent_initial_call=True,
    )
    def open_uploads(labels: Sequence[str] | None) -> Any:
        listing = catalog.listing(session_id())
        # One of them may have made room for another in the meantime.
        kept = [label for label in labels or () if label in listing.uploads]
        if not kept:
            raise PreventUpdate
        say(f"Opened {' and '.join(kept)}.")
        choices = picker_data(listing)
        for picker in _PICKERS:
            dash.set_props(picker, {"data": choices})
        return destination(kept)
