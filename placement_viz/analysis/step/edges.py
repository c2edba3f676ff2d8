"""Which execution took what from which: the dataflow of the step that ran."""

from __future__ import annotations

import polars as pl

from placement_viz.model import Trace
from placement_viz.names import COPY_SUFFIX

__all__ = ["EDGES_SCHEMA", "find_edges"]

#: Columns of :func:`find_edges`, by consumer and then in argument order.
#:
#: ``producer``    position in ``Trace.ops`` of the execution that made the tensor
#: ``consumer``    position of the one that took it
#: ``slot``        number of the producer's output; null for a control edge, and for
#:                 what came from another device, of which a trace does not tell it
#: ``is_control``  whether only the order was passed on, and no value
EDGES_SCHEMA = pl.Schema(
    {
        "producer": pl.UInt32,
        "consumer": pl.UInt32,
        "slot": pl.Int32,
        "is_control": pl.Boolean,
    }
)

# An output's number; a longer one is no number.
_SLOT = r":(\d{1,9})$"
#: A copy of a copy of a copy … is none.
_MOST_COPIES = 4


def find_edges(trace: Trace) -> pl.DataFrame:
    """Return the edges between the executions of ``trace``.

    Only ops whose device is proved have any. A name may have run several times in a
    step, as in a loop: then an op takes from the execution that began last before it.
    If none did, which only clocks that differ can show, it takes from the first.
    Inputs that did not run have no edge.

    Returns:
        A table with the columns of :data:`EDGES_SCHEMA`.
    """
    executed = trace.executed
    tensors = _read_tensors(executed)
    taken = (
        executed.select("step", "start_us", "inputs", consumer="op")
        .explode("inputs")
        .join(tensors, on="inputs", how="inner", maintain_order="left")
    )
    made = executed.select("step", "start_us", name="name", producer="op").join(
        tensors.select("name", "node").unique(), on="name", how="inner"
    )
    return (
        taken.with_columns(producer=_last_before(taken, made))
        .drop_nulls("producer")
        .select(EDGES_SCHEMA.names())
        .cast(EDGES_SCHEMA)
    )


def _read_tensors(executed: pl.DataFrame) -> pl.DataFrame:
    """Return what each text among the inputs names.

    Returns:
        ``inputs``, the text; ``name`` of the node that makes it, and ``node``, its
        number; ``slot``; ``is_control``. Only nodes that ran.
    """
    known = executed["name"].unique()
    texts = executed["inputs"].explode(empty_as_null=False).drop_nulls().unique()
    tensors = texts.to_frame("inputs").with_columns(
        is_control=pl.col("inputs").str.starts_with("^"),
        slot=pl.col("inputs").str.extract(_SLOT).cast(pl.Int32),
        name=pl.col("inputs").str.strip_prefix("^").str.replace(_SLOT, ""),
        is_copy=False,
    )
    is_known = pl.col("name").is_in(known.implode())
    for _ in range(_MOST_COPIES):
        tensors = tensors.with_columns(
            name=pl.when(is_known)
            .then("name")
            .otherwise(pl.col("name").str.replace(COPY_SUFFIX, "")),
            is_copy=pl.col("is_copy") | ~is_known,
        )
    return (
        tensors.filter(is_known)
        .with_columns(
            slot=pl.when(~pl.col("is_control") & ~pl.col("is_copy")).then(
                pl.col("slot").fill_null(0)
            ),
            node=pl.col("name").rank("dense").cast(pl.UInt32),
        )
        .drop("is_copy")
    )


def _last_before(taken: pl.DataFrame, made: pl.DataFrame) -> pl.Series:
    """Return the execution that each of ``taken`` is from, in its order."""
    by = ["step", "node"]
    turns = made.sort("start_us", "producer").with_columns(
        before=pl.col("producer").shift(1).over(by),
        first=pl.col("producer").first().over(by),
    )
    wanted = taken.with_row_index("row").sort("start_us", "row")
    last = wanted.join_asof(
        turns.select(*by, "start_us", "producer", "before"),
        on="start_us",
        by=by,
        strategy="backward",
        check_sortedness=False,
    )
    # An op that takes its own output, as in a loop, has it from the turn before.
    is_own = pl.col("producer") == pl.col("consumer")
    first = turns.select(*by, "first").unique()
    is_other = pl.col("first") != pl.col("consumer")
    return (
        last.join(first, on=by, how="left", maintain_order="left")
        .sort("row")
        .select(
            pl.coalesce(
                pl.when(is_own).then("before").otherwise("producer"),
                pl.when(is_other).then("first"),
            )
        )
        .to_series()
    )
