"""How plotly's own controls behave, wherever a figure is shown."""

from __future__ import annotations

from typing import Any

__all__ = ["GRAPH_CONFIG"]

#: Nothing that leads to another host, and only the buttons that help here.
GRAPH_CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showTips": False,
    "doubleClick": "autosize",
    "plotlyServerURL": "",
    "displayModeBar": True,
    "modeBarButtons": [
        ["zoom2d", "pan2d"],
        ["zoomIn2d", "zoomOut2d", "autoScale2d"],
        ["toImage"],
    ],
    "toImageButtonOptions": {"filename": "placement_viz-timeline"},
}
