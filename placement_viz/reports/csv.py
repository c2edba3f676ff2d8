"""The gradient ops of a run as CSV, one row each time one ran."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis import Analysis

__all__ = ["format_csv"]

#: A spreadsheet takes a cell that starts like this for a formula.
_FORMULA = r"^[=+\-@\t\r]"


def format_csv(analysis: Analysis) -> str:
    """Return the gradient ops as CSV with a header, in the order of the trace.

    The columns are those of ``Colocation.gradients``. Text that a spreadsheet would
    run as a formula gets a quote in front.
    """
    table = analysis.colocation.gradients.with_columns(
        pl.when(pl.col(pl.String).str.contains(_FORMULA))
        .then("'" + pl.col(pl.String))
        .otherwise(pl.col(pl.String))
        .name.keep()
    )
    return table.write_csv()
