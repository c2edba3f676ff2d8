"""Tables of results into grids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash_ag_grid as dag
import polars as pl

from placement_viz.analysis import Analysis, Comparison
from placement_viz.names import short_device
from placement_viz.units import format_count

__all__ = [
    "MAX_ROWS",
    "gradient_caption",
    "gradient_grid",
    "gradient_rows",
    "move_rows",
    "moves_grid",
]

#: A grid holds its rows in the browser; more make the page slow to open.
MAX_ROWS = 20_000

_COUNT = {"function": "d3.format(',')(params.value)"}
_VERDICT_ORDER = {"misplaced": 0, "unknown": 1, "exempt": 2, "colocated": 3}


def gradient_grid(grid_id: str) -> dag.AgGrid:
    """Return the empty grid of gradient ops."""
    return _grid(
        grid_id,
        [
            _text("verdict", "Verdict", 118)
            | {"cellClassRules": {"verdict-misplaced": "params.value == 'misplaced'"}},
            _text("name", "Gradient op", 270, flex=3),
            _text("op_type", "Type", 120),
            _text("ran_on", "Ran on", 96),
            _text("belongs_on", "Belongs on", 108),
            _number("duration_us", "Duration, µs"),
            _number("start_us", "Start, µs"),
            _text("forward_op", "Forward op", 200, flex=2),
            _text("evidence", "Evidence", 104),
            _text("why", "Why", 124),
            _text("source", "Built at", 180, flex=1),
        ],
        row_id="params.data.op",
    )


def gradient_rows(analysis: Analysis, max_rows: int = MAX_ROWS) -> list[dict[str, Any]]:
    """Return the rows for :func:`gradient_grid`: misplaced first, then the longest."""
    table = analysis.colocation.gradients
    names = _short_names(analysis.run.trace.devices, table)
    return (
        table.with_columns(
            order=pl.col("verdict").replace_strict(
                _VERDICT_ORDER, return_dtype=pl.Int32
            ),
            ran_on=pl.col("device").replace_strict(names, return_dtype=pl.String),
            belongs_on=pl.col("expected_device").replace_strict(
                names, return_dtype=pl.String
            ),
            why=pl.coalesce("cause", "reason"),
        )
        .sort("order", "duration_us", descending=[False, True], maintain_order=True)
        .head(max_rows)
        .select(
            pl.col("op").cast(pl.String),
            *("verdict", "name", "op_type", "ran_on", "belongs_on", "duration_us"),
            *("start_us", "forward_op", "evidence", "why", "source"),
        )
        .to_dicts()
    )


def gradient_caption(analysis: Analysis, max_rows: int = MAX_ROWS) -> str:
    """Return how many gradient ops there are, and how many rows are left out."""
    if not analysis.is_judged:
        return "being judged"
    n = analysis.colocation.gradients.height
    caption = format_count(n, "gradient op")
    if n > max_rows:
        caption += f"; listed: {max_rows:,}, misplaced first"
    return caption


def moves_grid(grid_id: str) -> dag.AgGrid:
    """Return the empty grid of what moved."""
    return _grid(
        grid_id,
        [
            _text("kind", "Kind", 110),
            _text("name", "Op", 230, flex=3),
            _text("op_type", "Type", 120),
            _text("from_device", "From", 100),
            _text("to_device", "To", 100),
            _number("baseline_us", "Before, µs"),
            _number("candidate_us", "After, µs"),
            _text("candidate_name", "Name after", 240, flex=2),
        ],
        row_id="params.data.baseline_op",
    )


def move_rows(comparison: Comparison, max_rows: int = MAX_ROWS) -> list[dict[str, Any]]:
    """Return the rows for :func:`moves_grid`, most time in the baseline first."""
    devices = comparison.devices
    names = {device: short_device(device, devices) for device in devices}
    return (
        comparison.moves.head(max_rows)
        .with_columns(
            pl.col("from_device", "to_device").replace(names),
            pl.col("baseline_op", "candidate_op").cast(pl.String),
        )
        .to_dicts()
    )


def _short_names(devices: tuple[str, ...], table: pl.DataFrame) -> Mapping[str, str]:
    found = {*table["device"], *table["expected_device"].drop_nulls()}
    return {device: short_device(device, devices) for device in found}


def _text(
    field: str, title: str, width: int, flex: int | None = None
) -> dict[str, Any]:
    column = {
        "field": field,
        "headerName": title,
        "filter": "agTextColumnFilter",
        "tooltipField": field,
        "width": width,
    }
    return column if flex is None else column | {"flex": flex, "minWidth": width}


def _number(field: str, title: str) -> dict[str, Any]:
    return {
        "field": field,
        "headerName": title,
        "filter": "agNumberColumnFilter",
        "type": "rightAligned",
        "valueFormatter": _COUNT,
        "width": 118,
    }


def _grid(grid_id: str, columns: list[dict[str, Any]], row_id: str) -> dag.AgGrid:
    return dag.AgGrid(
        id=grid_id,
        columnDefs=columns,
        rowData=[],
        getRowId=row_id,
        defaultColDef={
            "sortable": True,
            "resizable": True,
            "floatingFilter": True,
            "suppressHeaderMenuButton": True,
        },
        dashGridOptions={
            "theme": {"function": "placementTheme(themeQuartz)"},
            "rowSelection": {
                "mode": "singleRow",
                "checkboxes": False,
                "enableClickSelection": True,
            },
            "animateRows": False,
            "tooltipShowDelay": 400,
            "rowHeight": 30,
            "headerHeight": 34,
            "floatingFiltersHeight": 34,
            "ensureDomOrder": True,
        },
        enableEnterpriseModules=False,
        className="grid",
        style={"height": "100%"},
    )
