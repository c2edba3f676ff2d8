"""The towers of a step: copies of a model, each with its own part of the batch."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.analysis.intervals import Cover, cover, covers_at_once
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.roles import Role
from placement_viz.analysis.step.tower_comparison import compare_towers
from placement_viz.analysis.step.tower_exchanges import find_exchanges
from placement_viz.analysis.step.tower_members import find_members
from placement_viz.analysis.step.tower_scopes import find_scopes
from placement_viz.model import RowKind

__all__ = ["TOGETHER_SCHEMA", "TOWERS_SCHEMA", "Towers", "find_towers"]

#: Columns of :attr:`Towers.table`, one row a tower and step, in this order.
#:
#: ``step``              as in ``Trace.ops``
#: ``tower``             number of the tower, from 0
#: ``scope``             its scope; empty for one that has none of its own
#: ``devices``           where its forward ops ran, in the order of the run's devices
#: ``gradient_devices``  where its gradient ops ran, likewise
#: ``ops``               how many of its ops ran, each time it ran
#: ``gradient_ops``      how many of these are gradient ops
#: ``start_us``          start of the first; null in a run without times, as below
#: ``end_us``            end of the last
#: ``compute_us``        time in which one of them or of their kernels ran
#: ``wait_us``           time from start to end in which none ran
TOWERS_SCHEMA = pl.Schema(
    {
        "step": pl.Int32(),
        "tower": pl.Int32(),
        "scope": pl.String(),
        "devices": pl.List(pl.String()),
        "gradient_devices": pl.List(pl.String()),
        "ops": pl.Int64(),
        "gradient_ops": pl.Int64(),
        "start_us": pl.Int64(),
        "end_us": pl.Int64(),
        "compute_us": pl.Int64(),
        "wait_us": pl.Int64(),
    }
)

#: Columns of :attr:`Towers.together`, one row a step.
#:
#: ``step``         as in ``Trace.ops``
#: ``any_us``       time in which a tower computed
#: ``together_us``  time in which two of them did, at least
TOGETHER_SCHEMA = pl.Schema(
    {"step": pl.Int32, "any_us": pl.Int64, "together_us": pl.Int64}
)

_BY = ("step", "tower")
#: Step and tower to when it computed.
_Covers = dict[tuple[int, int], Cover]


@dataclasses.dataclass(frozen=True, eq=False)
class Towers:
    """The towers of a step.

    Attributes:
        members: What is in which, with the columns of ``MEMBERS_SCHEMA``.
        table: Each tower in each step, with the columns of :data:`TOWERS_SCHEMA`.
        together: How far they computed at the same time, with the columns of
            :data:`TOGETHER_SCHEMA`; empty in a run without times.
        exchanges: What each took and gave, with the columns of ``EXCHANGES_SCHEMA``.
        comparison: The ops of each tower beside those of tower 0, with the columns of
            ``COMPARISON_SCHEMA``.
        scopes: The scope of each; empty text for one that has none of its own.
    """

    members: pl.DataFrame
    table: pl.DataFrame
    together: pl.DataFrame
    exchanges: pl.DataFrame
    comparison: pl.DataFrame
    scopes: tuple[str, ...] = ()

    @property
    def is_serial(self) -> bool:
        """Return whether all towers ran on one device."""
        used = pl.concat_list("devices", "gradient_devices").explode()
        devices = self.table.select(used).drop_nulls()
        return len(self.scopes) > 1 and devices.n_unique() == 1


def find_towers(flow: Flow) -> Towers:
    """Return the towers of the step; without any if there are none or none are told."""
    scopes = find_scopes(flow)
    members = find_members(flow, scopes)
    names = () if scopes is None else scopes.names
    # Ops are keyed by their position.
    facts = flow.ops.select(
        "step", "device", "row_kind", "role", "start_us", "duration_us"
    )
    ran = members.with_columns(facts[members["op"]])
    has_times = bool(flow.trace.ops["duration_us"].max())
    covers = _covers(ran) if has_times else {}
    return Towers(
        members=members,
        table=_tower_table(ran, flow.trace.devices, names, covers),
        together=_together(covers),
        exchanges=find_exchanges(flow, members),
        comparison=compare_towers(flow, members),
        scopes=names,
    )


def _covers(ran: pl.DataFrame) -> _Covers:
    """Return when each tower computed in each step."""
    return {
        (step, tower): cover(ops["start_us"], ops["duration_us"])
        for (step, tower), ops in ran.select(*_BY, "start_us", "duration_us")
        .partition_by(_BY, as_dict=True)
        .items()
    }


def _tower_table(
    ran: pl.DataFrame,
    devices: tuple[str, ...],
    names: tuple[str, ...],
    covers: _Covers,
) -> pl.DataFrame:
    """Return the table of the towers, with times where there are ``covers``."""
    is_op = pl.col("row_kind") == RowKind.EXECUTOR
    is_gradient = is_op & (pl.col("role") == Role.GRADIENT)
    device = pl.col("device").cast(pl.Enum(devices), strict=False)
    counted = ran.group_by(_BY).agg(
        devices=device.filter(is_op & ~is_gradient).unique().sort(),
        gradient_devices=device.filter(is_gradient).unique().sort(),
        ops=is_op.sum(),
        gradient_ops=is_gradient.sum(),
        start_us=pl.col("start_us").min(),
        end_us=(pl.col("start_us") + pl.col("duration_us")).max(),
    )
    times = pl.DataFrame(
        [(*key, found.total_us) for key, found in covers.items()],
        schema={name: TOWERS_SCHEMA[name] for name in (*_BY, "compute_us")},
        orient="row",
    )
    has_times = pl.col("compute_us").is_not_null()
    known = pl.DataFrame(
        {"tower": range(len(names)), "scope": names},
        schema={"tower": pl.Int32, "scope": pl.String},
    )
    return (
        counted.join(times, on=_BY, how="left")
        .join(known, on="tower", how="left")
        .with_columns(pl.when(has_times).then(pl.col("start_us", "end_us")))
        .with_columns(
            wait_us=pl.col("end_us") - pl.col("start_us") - pl.col("compute_us")
        )
        .sort(_BY)
        .select(TOWERS_SCHEMA.names())
        .cast(TOWERS_SCHEMA)
    )


def _together(covers: _Covers) -> pl.DataFrame:
    """Return how far the towers computed at the same time."""
    steps = sorted({step for step, _ in covers})
    by_step = [
        [found for (s, _), found in covers.items() if s == step] for step in steps
    ]
    return pl.DataFrame(
        {
            "step": steps,
            "any_us": [covers_at_once(found, 1).total_us for found in by_step],
            "together_us": [covers_at_once(found, 2).total_us for found in by_step],
        },
        schema=TOGETHER_SCHEMA,
    )
