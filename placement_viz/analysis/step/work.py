"""What kept each device busy: its ops, or their kernels where a tracer tells them."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.usage import told_once
from placement_viz.model import RowKind

__all__ = ["WORK_SCHEMA", "Work", "find_work"]

#: Columns of :attr:`Work.rows`.
#:
#: ``op``           position in ``Trace.ops``
#: ``executed``     position of the executed op that it is or that started it; null
#:                  where that is not known
#: ``device``       one of ``Trace.devices``
#: ``role``         a :class:`~placement_viz.analysis.step.roles.Role`
#: ``step``         0, 1, … in a run of several steps
#: ``start_us``     from the first op of the run
#: ``duration_us``  0 is legal
WORK_SCHEMA = pl.Schema(
    {
        "op": pl.UInt32,
        "executed": pl.UInt32,
        "device": pl.String,
        "role": pl.String,
        "step": pl.Int32,
        "start_us": pl.Int64,
        "duration_us": pl.Int64,
    }
)

_TYPE = r"/device:(\w+):"
# Copies stand on rows of streams too.
_COPY = r"(?i)^memcpy"


@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """What ran on the devices of a run.

    Attributes:
        rows: Kernels of the devices whose kernels are known, and ops of the others, as
            in :data:`WORK_SCHEMA`.
        ops: What was executed, in the same columns; empty unless the trace is placed.
            Where kernels are known it is the work of the host, which starts them.
        with_kernels: Devices whose kernels are known.
        lost_kernels: Number of kernels of which nothing proves the device. If there is
            one, no kernel is in ``rows``: what is left would look like an idle device.
    """

    rows: pl.DataFrame
    ops: pl.DataFrame
    with_kernels: frozenset[str] = frozenset()
    lost_kernels: int = 0


def find_work(flow: Flow) -> Work:
    """Return what kept the devices of ``flow`` busy, each op or kernel once."""
    if not flow.trace.is_placed:
        return _without_placement(flow)
    ops = flow.executed.with_columns(executed="op").select(WORK_SCHEMA.names())
    kernels = _find_kernels(flow)
    lost = kernels["device"].null_count()
    if lost:
        kernels = kernels.clear()
    with_kernels = frozenset(kernels["device"])
    others = ops.filter(~pl.col("device").is_in(with_kernels))
    return Work(pl.concat([others, kernels]), ops, with_kernels, lost)


def _without_placement(flow: Flow) -> Work:
    kinds = [kind for kind in flow.trace.device_rows if kind != RowKind.MEMCPY]
    ran = flow.ops.filter(pl.col("row_kind").is_in(kinds))
    ran = ran.filter(told_once())
    executed = pl.lit(None, dtype=pl.UInt32)
    ran = ran.with_columns(executed=executed).select(WORK_SCHEMA.names())
    is_of_tracer = RowKind.STREAM in kinds
    with_kernels = frozenset(ran["device"] if is_of_tracer else ())
    return Work(ran, ran.clear(), with_kernels)


def _find_kernels(flow: Flow) -> pl.DataFrame:
    """Return the kernels of a placed run; ``device`` is null where nothing proves it.

    A kernel ran where the op that it names was placed. What names none belongs to the
    only device of its type, if there is one and the tracer names no more.
    """
    kernels = flow.ops.filter(
        pl.col("row_kind") == RowKind.STREAM, ~pl.col("op_type").str.contains(_COPY)
    )
    if kernels.is_empty():
        return pl.DataFrame(schema=WORK_SCHEMA)
    placed = flow.executed.select("name", home="device").unique()
    homes = placed.filter(pl.len().over("name") == 1)
    kind = pl.col("device").str.extract(_TYPE)
    only = (
        placed.select(only="home")
        .unique()
        .with_columns(kind=pl.col("only").str.extract(_TYPE))
        .filter(pl.len().over("kind") == 1)
    )
    is_same = pl.col("home").str.extract(_TYPE) == pl.col("kind")
    is_only = pl.col("device").n_unique().over("kind") == 1
    return (
        kernels.with_columns(kind=kind)
        .join(homes, on="name", how="left", maintain_order="left")
        .join(only, on="kind", how="left", maintain_order="left")
        .with_columns(
            proved=pl.coalesce(
                pl.when(is_same).then("home"), pl.when(is_only).then("only")
            )
        )
        .with_columns(device=pl.coalesce("proved", "device"))
        .filter(told_once())
        .with_columns(device="proved")
        .pipe(_with_launch, flow)
        .select(WORK_SCHEMA.names())
    )


def _with_launch(kernels: pl.DataFrame, flow: Flow) -> pl.DataFrame:
    """Add ``executed``: the op of its name that began last before a kernel.

    If none did, as when the clocks of card and host differ, it is the next one.
    """
    by = ["step", "name"]
    launches = flow.executed.select(*by, "start_us", executed="op").sort("start_us")
    kernels = kernels.sort("start_us", "op")
    before, after = (
        kernels.join_asof(
            launches, on="start_us", by=by, strategy=strategy, check_sortedness=False
        )["executed"]
        for strategy in ("backward", "forward")
    )
    return kernels.with_columns(executed=before.fill_null(after))
