"""How much of the time that tensors were on their way a device computed as well."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.copies import homes_of_tracers, is_copy
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.roles import Role
from placement_viz.model import RowKind

__all__ = ["HIDING_SCHEMA", "computing", "find_hiding"]

#: Columns of :func:`find_hiding`, by device in the order of its name.
#:
#: ``device``      device that copied, or that waited for tensors
#: ``evidence``    ``copies``; ``received``: it waited for another process, and had it
#:                 sent; ``waits``: from the producer's end to the first consumer's
#:                 start, which is the most that a copy can have taken
#: ``total_us``    time during which one tensor at least was on its way
#: ``hidden_us``   of that, while the device computed; null when its computing is not
#:                 recorded
#: ``exposed_us``  the rest; null likewise
HIDING_SCHEMA = pl.Schema(
    {
        "device": pl.String,
        "evidence": pl.String,
        "total_us": pl.Int64,
        "hidden_us": pl.Int64,
        "exposed_us": pl.Int64,
    }
)


def find_hiding(moved: pl.DataFrame, computing: Mapping[str, Cover]) -> pl.DataFrame:
    """Return how much of the copying lay behind computing, by device.

    Args:
        moved: Intervals as ``device``, ``evidence``, ``start_us`` and ``time_us``; one
            that is not positive counts nothing.
        computing: Device to when it computed, see :func:`computing`.

    Returns:
        A table with the columns of :data:`HIDING_SCHEMA`.
    """
    rows = []
    spent = moved.filter(pl.col("time_us") > 0).sort("device", "evidence")
    for (device, evidence), each in spent.group_by(
        "device", "evidence", maintain_order=True
    ):
        way = cover(each["start_us"], each["time_us"])
        busy = computing.get(str(device))
        hidden_us = None if busy is None else (way & busy).total_us
        exposed_us = None if hidden_us is None else way.total_us - hidden_us
        rows.append((device, evidence, way.total_us, hidden_us, exposed_us))
    return pl.DataFrame(rows, schema=HIDING_SCHEMA, orient="row")


def computing(flow: Flow) -> dict[str, Cover]:
    """Return each device to when it computed: kernels, or ops where none are recorded.

    Ops of a GPU without kernels are only launched in their time, so it may have
    computed longer.
    """
    ops = flow.ops.select(
        "device", "row_kind", "role", "start_us", "duration_us"
    ).filter(~flow.trace.ops.select(is_copy()).to_series())
    kernels = ops.filter(pl.col("row_kind") == RowKind.STREAM).with_columns(
        pl.col("device").replace(homes_of_tracers(flow.trace))
    )
    idle = pl.col("role").is_in([Role.TRANSFER, Role.OTHER])
    executed = ops.filter(pl.col("row_kind") == RowKind.EXECUTOR).with_columns(
        duration_us=pl.when(~idle).then("duration_us").otherwise(0)
    )
    found: dict[str, Cover] = {}
    for table in (executed, kernels):
        for (device,), rows in table.partition_by("device", as_dict=True).items():
            found[str(device)] = cover(rows["start_us"], rows["duration_us"])
    return found
