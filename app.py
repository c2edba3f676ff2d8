"""Serve the app with the sample runs: ``python app.py``.

``HOST`` and ``PORT`` in the environment say where; without them it is
http://127.0.0.1:8050. A WSGI server takes ``app:server``.
"""

from __future__ import annotations

import os
import pathlib
import sys

from placement_viz.dashboard import create_app, serve
from placement_viz.errors import PlacementVizError

SAMPLES = sorted(pathlib.Path(__file__).with_name("traces").glob("*.json*"))

app = create_app(SAMPLES)
server = app.server

if __name__ == "__main__":
    try:
        serve(
            app,
            os.environ.get("HOST", "127.0.0.1"),
            int(os.environ.get("PORT", "8050")),
        )
    except PlacementVizError as error:
        sys.exit(f"{error}; PORT=… takes another port")
