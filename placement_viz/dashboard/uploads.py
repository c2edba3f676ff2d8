"""Files that a person sends from the browser."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import dash
from dash import Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from placement_viz.dashboard import ids
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.parts import picker_data, say
from placement_viz.dashboard.sessions import session_id
from placement_viz.errors import PlacementVizError, TraceFormatError

__all__ = ["add_upload", "decode_upload", "destination"]

_PICKERS = (ids.RUN_PICKER, ids.BASELINE, ids.CANDIDATE)


def decode_upload(contents: str, filename: str) -> bytes:
    """Return the bytes of a file as the browser sends it, a base64 data address.

    Raises:
        TraceFormatError: It is nothing of the kind.
    """
    _, comma, encoded = contents.partition(",")
    try:
        if not comma:
            raise binascii.Error
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        message = (
            f"{filename}: expected an upload in base64, found something else; "
            "upload the file again"
        )
        raise TraceFormatError(message) from error


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


def add_upload(app: dash.Dash, catalog: Catalog) -> None:
    """Open what is dropped or chosen, and go there."""

    @app.callback(
        Output(ids.GO, "data"),
        Output(ids.UPLOAD, "contents"),
        Input(ids.UPLOAD, "contents"),
        State(ids.UPLOAD, "filename"),
        prevent_initial_call=True,
    )
    def open_uploads(
        contents: Sequence[str] | None, filenames: Sequence[str]
    ) -> tuple[Any, None]:
        if not contents:
            raise PreventUpdate
        session = session_id()
        labels = []
        try:
            for content, filename in zip(contents, filenames, strict=True):
                data = decode_upload(content, filename)
                labels.append(catalog.add(filename, data, session))
        except PlacementVizError as error:
            say(error)
        else:
            say(f"Opened {' and '.join(labels)}.")
        choices = picker_data(catalog.listing(session))
        for picker in _PICKERS:
            dash.set_props(picker, {"data": choices})
        return destination(labels), None
