"""Which tensors have to cross from one device to another, wherever ops are put."""

from __future__ import annotations

import polars as pl

from placement_viz import names
from placement_viz.analysis.step.flow import Flow
from placement_viz.model import Run

__all__ = [
    "CROSSINGS_SCHEMA",
    "count_unrecorded",
    "cross",
    "known_bytes",
    "tensor_edges",
    "with_sizes",
]

#: Columns of what crosses, one row a tensor and destination, by producer, slot and
#: destination.
#:
#: ``producer``     position in ``Trace.ops`` of the execution that made the tensor
#: ``slot``         number of the producer's output; null when not known, and then all
#:                  such tensors of a producer are one
#: ``is_control``   whether only the order crosses, and no value
#: ``source``       device of the producer
#: ``destination``  device of the consumers
#: ``consumers``    positions of the executions that took it there, in order
#: ``n_bytes``      its size; null when not recorded, and for a handle
#: ``bytes_from``   how the size is known: ``recorded``; ``handle`` for a resource, of
#:                  which only a small handle crosses; null when it is not known
CROSSINGS_SCHEMA = pl.Schema(
    {
        "producer": pl.UInt32(),
        "slot": pl.Int32(),
        "is_control": pl.Boolean(),
        "source": pl.String(),
        "destination": pl.String(),
        "consumers": pl.List(pl.UInt32()),
        "n_bytes": pl.Int64(),
        "bytes_from": pl.String(),
    }
)

_TENSOR = ["producer", "slot", "is_control", "destination"]
# What graph partitioning calls a copy that is taken.
_COPY_TAKEN = r"^[^^].*(?:/_|_S)\d+(?::\d+)?$"


def tensor_edges(flow: Flow) -> pl.DataFrame:
    """Return the edges of a step as the program has them, as in ``EDGES_SCHEMA``.

    The ops by which partitioning lands a control edge on another device are left out:
    who waited for one waited for its origin. Slots are told where the graph or the
    recorded sizes tell them, also for what came from another device.
    """
    edges = _without_landings(flow)
    return _with_slots(flow.run, edges)


def cross(edges: pl.DataFrame, places: pl.Series) -> pl.DataFrame:
    """Return what crosses, each tensor once to a device.

    Args:
        edges: The :func:`tensor_edges` of a step.
        places: The device of each op, by position; an enumeration whose order is that
            of the result.

    Returns:
        The columns of :data:`CROSSINGS_SCHEMA` but the sizes, see :func:`with_sizes`.
    """
    return (
        edges.with_columns(
            source=places.gather(edges["producer"]),
            destination=places.gather(edges["consumer"]),
        )
        .filter(pl.col("source") != pl.col("destination"))
        .unique([*_TENSOR, "consumer"])
        .sort("consumer")
        .group_by(_TENSOR)
        .agg(pl.col("source").first(), consumers=pl.col("consumer"))
        .sort(_TENSOR)
        .cast({"source": pl.String, "destination": pl.String})
    )


def count_unrecorded(flow: Flow) -> int:
    """Return how many tensors came to a device from an op that is not recorded.

    What a step is fed with is sent by ops that no trace records.
    """
    executed = flow.trace.executed
    ran = executed["name"].unique()
    copies = (
        executed.select("device", text="inputs")
        .explode("text")
        .filter(pl.col("text").str.contains(_COPY_TAKEN))
        .unique()
        .with_columns(name=pl.col("text").str.replace(r":\d+$", ""))
        # Nearly all have been copied once, from an op that ran.
        .filter(~pl.col("name").is_in(ran.implode()))
        .filter(~pl.col("name").str.replace(names.COPY_SUFFIX, "").is_in(ran.implode()))
    )
    if copies.is_empty():
        return 0
    known = {*ran.to_list(), *(flow.run.graph.nodes if flow.run.graph else ())}
    return sum(names.producer_of(name, known) not in known for name in copies["name"])


def known_bytes(crossings: pl.DataFrame) -> int | None:
    """Return the size of the tensors whose size is known; None when none is."""
    sizes = crossings["n_bytes"].drop_nulls()
    is_recorded = crossings.is_empty() or not sizes.is_empty()
    return int(sizes.sum()) if is_recorded else None


def _without_landings(flow: Flow) -> pl.DataFrame:
    edges = flow.edges
    origins = _landings(flow)
    if origins.is_empty():
        return edges
    left = (
        edges.rename({"producer": "landing"})
        .join(origins, on="landing", how="inner")
        .with_columns(slot=pl.lit(None, pl.Int32))
    )
    # Of one that nothing waited for, all that is known is that it came.
    unused = (
        origins.join(left, on="landing", how="anti")
        .rename({"landing": "consumer"})
        .with_columns(slot=pl.lit(None, pl.Int32), is_control=pl.lit(value=True))
    )
    is_landing = pl.col("producer").is_in(origins["landing"].implode()) | pl.col(
        "consumer"
    ).is_in(origins["landing"].implode())
    columns = edges.columns
    kept = edges.filter(~is_landing)
    return pl.concat([kept, left.select(columns), unused.select(columns)])


def _landings(flow: Flow) -> pl.DataFrame:
    """Return each op that lands a control edge as ``landing``, with its ``producer``.

    Source:
        A control edge between devices becomes a dummy constant that is sent, and an
        Identity ``X/_7`` of what is received (``core/graph/graph_partition.cc``).
    """
    nodes = {} if flow.run.graph is None else flow.run.graph.nodes
    ops = flow.trace.executed.filter(
        (pl.col("op_type") == "Identity")
        & pl.col("name").str.contains(names.COPY_SUFFIX)
    ).select("name", consumer="op")
    every = flow.trace.ops["name"]
    taken = ops.join(flow.edges, on="consumer", how="inner")
    rows = zip(
        taken["name"],
        every.gather(taken["producer"]),
        taken.select("consumer", "producer").iter_rows(),
        strict=True,
    )
    return pl.DataFrame(
        [
            ends
            for name, origin, ends in rows
            if name not in nodes and names.producer_of(name, (origin,)) == origin
        ],
        schema={"landing": pl.UInt32, "producer": pl.UInt32},
        orient="row",
    ).unique("landing")


def _with_slots(run: Run, edges: pl.DataFrame) -> pl.DataFrame:
    is_unknown = pl.col("slot").is_null() & ~pl.col("is_control")
    edges = edges.with_row_index("edge")
    unknown = edges.filter(is_unknown)
    producers = run.trace.ops["name"].gather(unknown["producer"])
    found = unknown.select("edge").with_columns(
        name=producers, in_graph=_slots_in_graph(run, unknown, producers)
    )
    # Of several outputs one may not have been recorded, but of one none is missing.
    only = (
        run.tensors.group_by("name")
        .agg(n=pl.len(), only=pl.col("slot").first())
        .filter(pl.col("n") == 1)
    )
    found = found.join(only, on="name", how="left").select(
        "edge", found=pl.coalesce("in_graph", "only")
    )
    return (
        edges.join(found, on="edge", how="left", maintain_order="left")
        .with_columns(slot=pl.coalesce("slot", "found"))
        .drop("edge", "found")
    )


def _slots_in_graph(run: Run, edges: pl.DataFrame, producers: pl.Series) -> pl.Series:
    """Return which output of its producer each consumer takes in the graph, if one."""
    nodes = {} if run.graph is None else run.graph.nodes
    consumers = run.trace.ops["name"].gather(edges["consumer"])
    slots: list[int | None] = []
    for producer, consumer in zip(
        producers.to_list(), consumers.to_list(), strict=True
    ):
        node, numbered = nodes.get(consumer), f"{producer}:"
        taken = {
            names.producer_and_slot(tensor)[1]
            for tensor in (node.inputs if node else ())
            if tensor == producer or tensor.startswith(numbered)
        }
        slots.append(taken.pop() if len(taken) == 1 else None)
    return pl.Series(slots, dtype=pl.Int32)


def with_sizes(run: Run, crossings: pl.DataFrame) -> pl.DataFrame:
    """Return what crosses as in :data:`CROSSINGS_SCHEMA`, with sizes where known."""
    made_by = run.trace.ops.select("name", "op_type")[crossings["producer"]]
    nodes = {} if run.graph is None else run.graph.nodes
    handles = [
        name
        for name in made_by["name"].unique().to_list()
        if (node := nodes.get(name)) and node.dtype == "resource"
    ]
    is_handle = pl.col("name").is_in(handles) | (pl.col("op_type") == "VarHandleOp")
    return (
        pl.concat([crossings, made_by], how="horizontal")
        .join(run.tensors, on=["name", "slot"], how="left", maintain_order="left")
        .with_columns(
            n_bytes=pl.when(~is_handle & ~pl.col("is_control")).then("n_bytes")
        )
        .with_columns(
            bytes_from=pl.when(is_handle & ~pl.col("is_control"))
            .then(pl.lit("handle"))
            .when(pl.col("n_bytes").is_not_null())
            .then(pl.lit("recorded"))
        )
        .select(CROSSINGS_SCHEMA.names())
        .cast(CROSSINGS_SCHEMA)
    )
