"""What each op of a step is for."""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.colocation import Colocation
from placement_viz.analysis.step.reach import link_ops, reached
from placement_viz.model import RowKind, Run
from placement_viz.names import COPY_SUFFIX

__all__ = ["UPDATES", "Role", "find_roles"]

_Flags = npt.NDArray[np.bool_]


class Role(enum.StrEnum):
    """What an op is for.

    Where several run at once on a device, its time counts for the first of these.
    """

    GRADIENT = "gradient"
    FORWARD = "forward"
    OPTIMIZER = "optimizer"
    INPUT = "input"
    TRANSFER = "transfer"
    OTHER = "other"


# Op types that bring a batch into the step, or wait for one.
_INPUT = (
    r"^(?:_Arg|Placeholder.*|IteratorGetNext.*|OneShotIterator|.*Dequeue.*|Unstage"
    r"|ReaderRead.*|ReadFile|WholeFileReader.*|Decode.*|Parse(?:Single)?Example.*"
    r"|(?:Eager)?PyFunc.*|.*Dataset(?:V\d)?|Infeed.*)$"
)
#: Op types that change a variable.
UPDATES = r"^(?:(?:Resource)?(?:Sparse)?Apply[A-Z]|(?:Resource)?Scatter|Assign)"
_MOVES = r"^(?:_?(?:Host)?(?:Send|Recv)|RecvTensor|Copy(?:Host)?)$"
_NOTHING = ("_SOURCE", "_SINK")


def find_roles(run: Run, colocation: Colocation, edges: pl.DataFrame) -> pl.Series:
    """Return the :class:`Role` of each op of ``run.trace.ops``, in its order.

    Gradient ops are those that were judged. The optimizer is what takes their values,
    directly or not, and what only this needs: the mean over towers belongs to it. An
    op that gradients are computed from is forward, whatever else it takes. A row of a
    tracer has the role of the op it names.

    Args:
        run: What ran.
        colocation: Its judged gradient ops.
        edges: Its dataflow, as in ``EDGES_SCHEMA``.
    """
    ops = run.trace.ops
    is_gradient = np.zeros(ops.height, dtype=bool)
    is_gradient[colocation.gradients["op"].to_numpy()] = True
    is_update = _is_optimizer(ops, edges, is_gradient)
    name, kind, op_type = pl.col("name"), pl.col("row_kind"), pl.col("op_type")
    nodes = [] if run.graph is None else list(run.graph.nodes)
    is_copy = name.str.contains(COPY_SUFFIX) & op_type.is_in(["Identity", "Const"])
    moves = kind.is_in([RowKind.MEMCPY, RowKind.RECEIVE]) | op_type.str.contains(_MOVES)
    role = (
        pl.when(moves | (is_copy & ~name.is_in(nodes)))
        .then(pl.lit(Role.TRANSFER.value))
        .when(name.is_in(_NOTHING) | op_type.str.starts_with("_Ret"))
        .then(pl.lit(Role.OTHER.value))
        .when(pl.lit(pl.Series(is_gradient)))
        .then(pl.lit(Role.GRADIENT.value))
        .when(op_type.str.contains(_INPUT))
        .then(pl.lit(Role.INPUT.value))
        .when(pl.lit(pl.Series(is_update)))
        .then(pl.lit(Role.OPTIMIZER.value))
        .otherwise(pl.lit(Role.FORWARD.value))
    )
    found = ops.select(name, kind, role=role)
    return _named_by_tracers(found)


def _is_optimizer(ops: pl.DataFrame, edges: pl.DataFrame, gradient: _Flags) -> _Flags:
    """Return which ops only serve to change variables."""
    pairs = edges.select("producer", "consumer").unique()
    graph = link_ops(ops.height, pairs.iter_rows())
    # An optimiser lets forward ops share constants with gradients.
    is_value = gradient & (ops["op_type"] != "Const").to_numpy()
    updates = ops["op_type"].str.contains(UPDATES).to_numpy()
    after: _Flags = reached(graph, np.flatnonzero(is_value)) | updates
    # Turned round, what reaches an op is what the op reaches.
    graph.reverse()
    before = reached(graph, np.flatnonzero(gradient)) | gradient
    after &= ~before
    only_for_it: _Flags = reached(graph, np.flatnonzero(after)) & ~before
    return after | only_for_it


def _named_by_tracers(found: pl.DataFrame) -> pl.Series:
    """Return the roles, with those of kernels taken from the ops they name."""
    is_kernel = pl.col("row_kind") == RowKind.STREAM
    if found.filter(is_kernel).is_empty():
        return found["role"]
    known = (
        found.filter(pl.col("row_kind") == RowKind.EXECUTOR)
        .unique("name", keep="first")
        .select("name", known="role")
    )
    return found.join(known, on="name", how="left", maintain_order="left").select(
        role=pl.when(is_kernel).then(pl.coalesce("known", "role")).otherwise("role")
    )["role"]
