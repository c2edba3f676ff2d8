"""What towers take from the variables and give for them."""

from __future__ import annotations

import enum

import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.roles import Role
from placement_viz.schema import OWN_SCOPE

__all__ = ["EXCHANGES_SCHEMA", "Exchange", "find_exchanges"]


class Exchange(enum.StrEnum):
    """What is taken or given."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"


#: Columns of :func:`find_exchanges`, in the order of towers, weights first.
#:
#: ``tower``          number of the tower
#: ``exchange``       an :class:`Exchange`
#: ``tensors``        weights that it takes, or gradients that are taken from it by ops
#:                    in no tower; each once
#: ``n_bytes``        their size; null unless that of every one is recorded
#: ``moved_tensors``  those of them that went to another device
#: ``moved_bytes``    their size, likewise
EXCHANGES_SCHEMA = pl.Schema(
    {
        "tower": pl.Int32,
        "exchange": pl.String,
        "tensors": pl.Int64,
        "n_bytes": pl.Int64,
        "moved_tensors": pl.Int64,
        "moved_bytes": pl.Int64,
    }
)

_VARIABLE = r"^(?:Variable(?:V2)?|AutoReloadVariable)$"
_READ = r"^_?ReadVariable"


def find_exchanges(flow: Flow, members: pl.DataFrame) -> pl.DataFrame:
    """Return how much each tower takes and gives.

    Args:
        flow: What ran.
        members: What is in which tower, with ``op`` and ``tower``.

    Returns:
        A table with the columns of :data:`EXCHANGES_SCHEMA`; two rows a tower.
    """
    if members.is_empty():
        return pl.DataFrame(schema=EXCHANGES_SCHEMA)
    edges = _edges_across(flow, members)
    taken = edges.filter("is_weight", pl.col("to").is_not_null())
    given = edges.filter(
        pl.col("to").is_null(),
        pl.col("role") == Role.GRADIENT,
        pl.col("consumer_role").is_in([Role.GRADIENT, Role.OPTIMIZER]),
        pl.col("op_type") != "Const",
    )
    counted = pl.concat(
        _counted(flow, each.with_columns(tower=tower), exchange)
        for each, tower, exchange in (
            (taken, pl.col("to"), Exchange.WEIGHTS),
            (given.drop_nulls("from"), pl.col("from"), Exchange.GRADIENTS),
        )
    )
    kinds = pl.DataFrame({"exchange": [each.value for each in Exchange]})
    towers = members.select(pl.col("tower").unique().sort()).join(kinds, how="cross")
    nothing = pl.col("tensors").is_null()
    return (
        towers.join(
            counted, on=["tower", "exchange"], how="left", maintain_order="left"
        )
        .with_columns(
            pl.when(nothing).then(0).otherwise(pl.col(name)).alias(name)
            for name in EXCHANGES_SCHEMA.names()[2:]
        )
        .select(EXCHANGES_SCHEMA.names())
        .cast(EXCHANGES_SCHEMA)
    )


def _edges_across(flow: Flow, members: pl.DataFrame) -> pl.DataFrame:
    """Return the edges with a tower at one end, and what is at both.

    ``from`` and ``to`` are the towers, ``is_weight`` tells whether a variable's value
    is passed on.
    """
    tower = members.select("op", "tower")
    ends = flow.edges.filter(~pl.col("is_control"))
    ends = ends.join(
        tower.rename({"op": "producer", "tower": "from"}), on="producer", how="left"
    ).join(tower.rename({"op": "consumer", "tower": "to"}), on="consumer", how="left")
    is_across = pl.col("from").is_null() != pl.col("to").is_null()
    made = flow.ops.select("name", "op_type", "role", "device")
    variables = flow.ops.filter(pl.col("op_type").str.contains(_VARIABLE))["op"]
    # A reference variable is read by a copy that passes it on.
    reads = flow.edges.filter(pl.col("producer").is_in(variables.implode()))["consumer"]
    inputs = flow.ops.filter(pl.col("name").str.starts_with(OWN_SCOPE))["op"]
    batches = flow.edges.filter(pl.col("producer").is_in(inputs.implode()))["consumer"]
    across = ends.filter(is_across)
    producer, consumer = across["producer"], across["consumer"]
    return across.with_columns(
        made["name"].gather(producer),
        made["op_type"].gather(producer),
        made["role"].gather(producer),
        consumer_role=made["role"].gather(consumer),
        is_moved=made["device"].gather(producer) != made["device"].gather(consumer),
    ).with_columns(
        # A replayed function has its input in variables of ours.
        is_weight=(
            pl.col("op_type").str.contains(_READ)
            & ~pl.col("producer").is_in(batches.implode())
        )
        | pl.col("producer").is_in(variables.implode())
        | (
            pl.col("producer").is_in(reads.implode())
            & (pl.col("op_type") == "Identity")
        )
    )


def _counted(flow: Flow, edges: pl.DataFrame, exchange: Exchange) -> pl.DataFrame:
    """Return number and size of the tensors of each tower."""
    sizes = flow.run.tensors
    # Of a copy the trace does not tell the slot; most ops have one output.
    only = sizes.filter(pl.len().over("name") == 1).select("name", only="slot")
    tensors = (
        edges.join(only, on="name", how="left")
        .with_columns(slot=pl.coalesce("slot", "only"))
        .group_by("tower", "name", "slot")
        .agg(pl.col("is_moved").any())
        .join(sizes, on=["name", "slot"], how="left")
    )
    size, is_moved = pl.col("n_bytes"), pl.col("is_moved")
    moved = size.filter(is_moved)
    return tensors.group_by("tower").agg(
        exchange=pl.lit(exchange.value),
        tensors=pl.len().cast(pl.Int64),
        moved_tensors=is_moved.sum().cast(pl.Int64),
        moved_bytes=pl.when(moved.is_null().any()).then(None).otherwise(moved.sum()),
        n_bytes=pl.when(size.is_null().any()).then(None).otherwise(size.sum()),
    )
