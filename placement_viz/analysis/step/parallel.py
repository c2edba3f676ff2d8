"""Whether parts of a model run beside each other, or one feeds the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import rustworkx as rx

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.reach import link_ops
from placement_viz.analysis.step.roles import Role

__all__ = ["IS_PARAMETER", "are_parallel"]

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]

#: Whether an op is a variable or only reads one: all parts of a model share these.
IS_PARAMETER = pl.col("op_type").str.contains(
    r"^(?:VarHandleOp|Variable(?:V2)?|AutoReloadVariable|_?ReadVariable.*)$"
)
# They make something else each time.
_RANDOM = r"Random|Normal|Uniform|Multinomial|Shuffle"
#: Ops between a variable and the model, such as a cast; a longer chain is a model.
_MOST_ROUNDS = 8


def are_parallel(flow: Flow, parts: _Numbers) -> bool:
    """Return whether no part feeds another.

    What is computed of variables and constants alone feeds nothing: an optimiser lets
    parts share it. Parts may exchange values in both directions by ops outside of
    them, as for the mean over all batches.

    Args:
        flow: What ran.
        parts: (ops,) number of the part that each op is in; -1 for none.
    """
    role = flow.ops["role"]
    is_forward = role.is_in([Role.FORWARD, Role.INPUT]).to_numpy()
    edges = flow.edges.filter(~pl.col("is_control"))
    producer, consumer = (
        edges[end].to_numpy().astype(np.int64) for end in ("producer", "consumer")
    )
    is_shared = _made_of_variables(flow, producer, consumer)
    counts = is_forward[producer] & is_forward[consumer] & ~is_shared[producer]
    producer, consumer = producer[counts], consumer[counts]
    before, after = parts[producer], parts[consumer]
    is_direct = (before >= 0) & (after >= 0) & (before != after)
    return not is_direct.any() and not _leads_one_way(parts, producer, consumer)


def _made_of_variables(flow: Flow, producer: _Numbers, consumer: _Numbers) -> _Flags:
    """Return which ops compute of nothing but variables and constants."""
    ops = flow.ops
    constant = pl.col("op_type") == "Const"
    is_shared = ops.select(IS_PARAMETER | constant).to_series().to_numpy().copy()
    n_inputs = ops["inputs"].list.eval(~pl.element().str.starts_with("^")).list.sum()
    n_found = np.bincount(consumer, minlength=len(is_shared))
    # An input that did not run may be anything.
    is_known = (n_found > 0) & (n_found == n_inputs.to_numpy())
    takes = is_known & ~ops["op_type"].str.contains(_RANDOM).to_numpy()
    for _ in range(_MOST_ROUNDS):
        others = consumer[~is_shared[producer]]
        is_made = takes & (np.bincount(others, minlength=len(is_shared)) == 0)
        if not (is_made & ~is_shared).any():
            break
        is_shared |= is_made
    return is_shared


def _leads_one_way(parts: _Numbers, producer: _Numbers, consumer: _Numbers) -> bool:
    """Return whether a part leads to another that does not lead back to it."""
    n_parts = int(parts.max(initial=-1)) + 1
    # Each part is one node, and each op outside of them.
    nodes = np.where(parts >= 0, parts, n_parts + np.arange(len(parts)))
    pairs = np.stack((nodes[producer], nodes[consumer]), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    known, ends = np.unique(pairs.ravel(), return_inverse=True)
    graph = link_ops(len(known), zip(ends[::2], ends[1::2], strict=True))
    places = np.flatnonzero(known < n_parts).tolist()
    reach = {
        place: rx.descendants(graph, place).intersection(places) for place in places
    }
    return any(place not in reach[other] for place in places for other in reach[place])
