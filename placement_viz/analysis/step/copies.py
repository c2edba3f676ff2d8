"""The copies that a trace records, and which tensor each one moved."""

from __future__ import annotations

import polars as pl

from placement_viz import names
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.usage import told_once
from placement_viz.model import RowKind, Trace

__all__ = ["COPIES_SCHEMA", "find_copies", "homes_of_tracers", "is_copy"]

#: Columns of :func:`find_copies`, in the order of ``Trace.ops``.
#:
#: ``op``           position in ``Trace.ops``
#: ``device``       device that copied: that of the executors where it is certain which
#:                  one a tracer means, else what the row names; for what was received
#:                  from another process, the one that received it
#: ``kind``         ``HtoD``, ``DtoH``, ``DtoD``, ``received``; null when not told
#: ``tensor``       name of the node whose output was copied; null when not told
#: ``start_us`` … ``duration_us``  as in ``Trace.ops``
#: ``transfer``     row of the transfer that it was part of; null when none or not
#:                  certain
#: ``n_bytes``      size of the tensor; null when not known
COPIES_SCHEMA = pl.Schema(
    {
        "op": pl.UInt32,
        "device": pl.String,
        "kind": pl.String,
        "tensor": pl.String,
        "start_us": pl.Int64,
        "duration_us": pl.Int64,
        "transfer": pl.UInt32,
        "n_bytes": pl.Int64,
    }
)

# What partitioning calls a tensor on its way: the number of the edge and the producer.
_ON_ITS_WAY = r"edge_\d+_([^\s;]+)"
# What stands on the row of a stream stands on that of all copies too.
_ROWS_OF_ALL = "(?:/stream:all|/memcpy)$"
_KINDS = {
    "HtoD": r"(?i)\bmemcpy ?H(?:to|2)D",
    "DtoH": r"(?i)\bmemcpy ?D(?:to|2)H",
    "DtoD": r"(?i)\bmemcpy ?(?:D(?:to|2)D|P(?:to|2)P)",
}


def is_copy() -> pl.Expr:
    """Return which rows of ``Trace.ops`` are copies, on whatever row they stand."""
    named = pl.col("name").str.contains(r"^edge_\d+_") & (
        pl.col("row_kind") == RowKind.STREAM
    )
    is_moved = pl.col("row_kind").is_in([RowKind.MEMCPY, RowKind.RECEIVE])
    typed = pl.col("op_type").str.contains(r"(?i)memcpy|memset")
    return is_moved | named | typed


def find_copies(flow: Flow, transfers: pl.DataFrame) -> pl.DataFrame:
    """Return each copy once, as in :data:`COPIES_SCHEMA`.

    Args:
        flow: The step.
        transfers: The tensors that crossed, with ``producer``, ``source``,
            ``destination`` and ``n_bytes``.
    """
    copies = _read_copies(flow.trace)
    if copies.is_empty():
        return pl.DataFrame(schema=COPIES_SCHEMA)
    copies = _told_by_the_file(copies, flow.run.copies)
    found = _match(copies, flow.trace, transfers)
    # A tensor may be copied that does not cross, between two memories of a device.
    only = (
        flow.run.tensors.group_by(tensor="name")
        .agg(n=pl.len(), only_bytes=pl.col("n_bytes").first())
        .filter(pl.col("n") == 1)
    )
    return (
        copies.join(found, on="op", how="left", maintain_order="left")
        .join(only, on="tensor", how="left", maintain_order="left")
        .with_columns(n_bytes=pl.coalesce("told_bytes", "n_bytes", "only_bytes"))
        .select(COPIES_SCHEMA.names())
        .cast(COPIES_SCHEMA)
    )


def homes_of_tracers(trace: Trace) -> dict[str, str]:
    """Return each device that a tracer names to the one that executors mean by it.

    There are none where a tracer calls several devices the same, or numbers them
    otherwise.
    """
    is_tracer = pl.col("row_kind").is_in([RowKind.STREAM, RowKind.MEMCPY])
    written = trace.ops.filter(is_tracer)["device"].unique().to_list()
    placed = trace.devices if trace.is_placed else ()
    others = [d for d in placed if names.device_type(d) != "CPU"]
    # Rows that were put right have the executor's device: the others may lie as well.
    was_wrong = any(names.is_full_device(device) for device in written)
    if was_wrong or (len(others) > 1 and len(written) == 1):
        return {}
    matches = {
        device: [d for d in placed if names.device_matches(device, d)]
        for device in written
        if names.device_type(device)
    }
    return {device: found[0] for device, found in matches.items() if len(found) == 1}


def _read_copies(trace: Trace) -> pl.DataFrame:
    """Return the copies, each once, with ``home``: the device where it is certain."""
    copies = trace.ops.with_row_index("op").filter(
        is_copy() & (pl.col("row_kind") != RowKind.EXECUTOR)
    )
    copies = copies.filter(~pl.col("op_type").str.contains("(?i)memset"))
    is_received = pl.col("row_kind") == RowKind.RECEIVE
    homes = homes_of_tracers(trace)
    return copies.filter(is_received | told_once(_ROWS_OF_ALL)).select(
        "op",
        "step",
        "start_us",
        "duration_us",
        device=pl.col("device").replace(homes),
        home=pl.when(is_received)
        .then("device")
        .otherwise(pl.col("device").replace_strict(homes, default=None)),
        kind=pl.when(is_received).then(pl.lit("received")).otherwise(_kind()),
        tensor=pl.coalesce(
            pl.col("name").str.extract(f"^{_ON_ITS_WAY}$"),
            pl.col("inputs").list.first().str.extract(_ON_ITS_WAY),
        ),
    )


def _told_by_the_file(copies: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Return the copies with ``told_bytes``, and the tensor where the file has it.

    A timeline leaves out what was received and how large it was; a run file does not.
    """
    times = ["start_us", "duration_us"]
    told = recorded.select(
        *times, told="name", target="device", told_bytes="n_bytes"
    ).unique([*times, "target"], keep="none")
    is_it = pl.col("target").is_null() | (pl.col("target") == pl.col("device"))
    known = (
        copies.join(told, on=times, how="inner")
        .filter(is_it)
        .select("op", "told", "told_bytes")
        .unique("op", keep="none")
    )
    return copies.join(known, on="op", how="left", maintain_order="left").with_columns(
        tensor=pl.coalesce("told", "tensor")
    )


def _kind() -> pl.Expr:
    return pl.coalesce(
        pl.when(pl.col("op_type").str.contains(pattern)).then(pl.lit(kind))
        for kind, pattern in _KINDS.items()
    )


def _match(copies: pl.DataFrame, trace: Trace, transfers: pl.DataFrame) -> pl.DataFrame:
    """Return ``op`` of each copy of which the ``transfer`` is certain, and that."""
    executed = trace.executed.select("step", "start_us", tensor="name", producer="op")
    made = copies.sort("start_us").join_asof(
        executed.sort("start_us", "producer"),
        on="start_us",
        by=["step", "tensor"],
        strategy="backward",
        check_sortedness=False,
    )
    crossed = transfers.with_row_index("transfer").select(
        "transfer", "producer", "source", "destination", "n_bytes"
    )
    fitting = made.join(crossed, on="producer", how="inner").filter(_fits())
    return fitting.filter(pl.len().over("op") == 1).select("op", "transfer", "n_bytes")


def _fits() -> pl.Expr:
    """Return whether a copy of this kind, on this device, is part of the transfer."""
    is_there, is_here = (
        (pl.col("home") == pl.col(end)).fill_null(value=True)
        for end in ("destination", "source")
    )
    to_host, from_host = (
        pl.col(end).str.contains("/device:CPU:") for end in ("destination", "source")
    )
    kind = pl.col("kind")
    return (
        pl.when(kind == "HtoD")
        .then(~to_host & is_there)
        .when(kind == "DtoH")
        .then(~from_host & is_here)
        .when(kind == "DtoD")
        .then(~from_host & ~to_host & (is_here | is_there))
        .when(kind == "received")
        .then(is_there)
        .otherwise(is_here | is_there)
    )
