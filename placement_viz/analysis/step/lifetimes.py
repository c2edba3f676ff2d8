"""For how long the tensors of a step are needed, where only their sizes are known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.names import device_type, task_of

__all__ = ["find_lifetimes"]

#: Their output is their first input, and takes no memory of its own.
_PASSING = (
    "Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient",
    "PreventGradient", "Snapshot", "Switch", "Merge", "Enter", "Exit",
    "NextIteration", "RefSwitch", "RefMerge", "RefEnter", "RefExit", "Bitcast",
    "_Retval",
)  # fmt: skip
#: Their output is memory that was there before the step and stays after it.
_LASTING = r"^(?:Const|_Arg|Placeholder|Variable(?:V2)?|VarHandleOp|ReadVariableOp)$"


def find_lifetimes(flow: Flow) -> pl.DataFrame:
    """Return how long each tensor of a known size is needed, on each device.

    It is from the start of the op that makes it to the end of the last op that takes
    it, on another device from the start of the first one there: that it came no later
    is all a trace proves. Devices that are processors of one process share memory, so
    that nothing is copied between them.

    Returns:
        ``op``, ``name``, ``device``, ``start_us``, ``end_us`` and ``n_bytes``.
    """
    sizes = flow.run.tensors
    ran = flow.executed.select("op", "name", "op_type", "device", "start_us", "end_us")
    made = (
        ran.join(sizes, on="name", how="inner")
        .filter(
            ~pl.col("op_type").is_in(list(_PASSING)),
            ~pl.col("op_type").str.contains(_LASTING),
            pl.col("n_bytes") > 0,
        )
        .with_columns(memory=_memory_of(pl.col("device"), ran))
    )
    if made.is_empty():
        return made.select("op", "name", "device", "start_us", "end_us", "n_bytes")
    uses = _uses(flow, ran)
    local = uses.group_by("op", "memory").agg(last_us=pl.col("end_us").max())
    own = made.join(local, on=["op", "memory"], how="left").with_columns(
        end_us=pl.max_horizontal("end_us", "last_us")
    )
    copies = _copies(made, uses)
    columns = ["op", "name", "device", "start_us", "end_us", "n_bytes"]
    return pl.concat([own.select(columns), copies.select(columns)])


def _memory_of(device: pl.Expr, ran: pl.DataFrame) -> pl.Expr:
    """Return the memory that a device uses: all processors of a task use one."""
    places = {
        each: task_of(each) if device_type(each) == "CPU" else each
        for each in ran["device"].unique()
    }
    return device.replace_strict(places, return_dtype=pl.String)


def _uses(flow: Flow, ran: pl.DataFrame) -> pl.DataFrame:
    """Return who takes the memory of each op, through all that only passes it on.

    Returns:
        ``op`` that made it; ``device``, ``memory``, ``start_us`` and ``end_us`` of
        the one that takes it.
    """
    edges = flow.edges.filter(~pl.col("is_control")).select("producer", "consumer")
    origin = _origins(edges, ran, flow.ops.height)
    taken = edges.with_columns(op=pl.Series(origin[edges["producer"].to_numpy()]))
    return taken.join(
        ran.select("device", "start_us", "end_us", consumer="op"), on="consumer"
    ).with_columns(
        memory=_memory_of(pl.col("device"), ran), op=pl.col("op").cast(pl.UInt32)
    )


def _origins(
    edges: pl.DataFrame, ran: pl.DataFrame, n_ops: int
) -> npt.NDArray[np.int64]:
    """Return for each op whose memory its output is: its own, or an input's."""
    origin = np.arange(n_ops, dtype=np.int64)
    passing = ran.filter(pl.col("op_type").is_in(list(_PASSING)))["op"]
    first = edges.filter(pl.col("consumer").is_in(passing.implode())).unique(
        "consumer", keep="first", maintain_order=True
    )
    origin[first["consumer"].to_numpy()] = first["producer"].to_numpy()
    # Each round doubles how far is looked; loops end at what began them.
    for _ in range(max(1, n_ops).bit_length()):
        further = origin[origin]
        if (further == origin).all():
            break
        origin = further
    return origin


def _copies(made: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Return the tensors that lie on a second device, and for how long."""
    there = uses.group_by("op", "memory").agg(
        pl.col("device").first(), pl.col("start_us").min(), pl.col("end_us").max()
    )
    return (
        made.select("op", "name", "n_bytes", home="memory")
        .join(there, on="op", how="inner")
        .filter(pl.col("memory") != pl.col("home"))
    )
