"""The document that a browser gets first, and what it fetches when."""

from __future__ import annotations

import html
import re
import urllib.parse

import dash
import flask

from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.sessions import session_id
from placement_viz.dashboard.timeline_routes import PREFIX

__all__ = ["Document"]

_INDEX = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>{%title%}</title>
    {%favicon%}
    {%css%}
  </head>
  <body>
    {%app_entry%}
    <footer>
      {%config%}
      {%scripts%}
      {%renderer%}
    </footer>
  </body>
</html>"""
#: A fifth of all scripts: tables wait until something is drawn.
_TABLES = re.compile(r'<script src="([^"]*/dash_ag_grid/[^"]*)"></script>')
#: About as many as a timeline has; it asks again once it knows.
_PIXELS = 1_200


class Document(dash.Dash):  # type: ignore[misc] # Dash ships no types
    """The app, whose document names what its timeline will ask first.

    Scripts take longer to start than the server to answer, so the browser asks at once.
    What the timeline does not need is loaded by ``assets/dashboard.js``, later.
    """

    def __init__(self, catalog: Catalog, **options: object) -> None:
        """Make the app.

        Args:
            catalog: The runs that can be opened; the first that was named to the server
                is shown at an address that names none.
            **options: As for Dash.
        """
        self._catalog = catalog
        super().__init__(index_string=_INDEX, **options)

    def interpolate_index(self, **parts: str) -> str:
        """Return the document."""
        scripts = parts["scripts"]
        late = [
            f'<meta name="late-script" content="{path}">'
            for path in _TABLES.findall(scripts)
        ]
        parts["css"] = "\n      ".join((*self._early_links(), *late, parts["css"]))
        parts["scripts"] = _TABLES.sub("", scripts)
        return str(super().interpolate_index(**parts))

    def _early_links(self) -> list[str]:
        query = flask.request.args
        listing = self._catalog.listing(session_id())
        run = query.get("run") or next(iter(listing.opened), "")
        is_shown = "start" not in query and query.get("view") != "compare"
        if not is_shown or run not in listing.labels:
            return []
        questions: dict[str, dict[str, object]] = {"frame": {"run": run}}
        if "from" not in query:
            questions["window"] = {"run": run, "px": _PIXELS}
        root = f"{self.config.requests_pathname_prefix}{PREFIX}"
        return [
            f'<link rel="preload" as="fetch" crossorigin="anonymous" '
            f'data-early="{name}" data-run="{html.escape(run)}" '
            f'href="{html.escape(f"{root}/{name}?{urllib.parse.urlencode(asked)}")}">'
            for name, asked in questions.items()
        ]
