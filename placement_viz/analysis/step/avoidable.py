"""What crossed between devices only because gradient ops were away from home."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz import names
from placement_viz.analysis.step.crossings import cross, known_bytes, with_sizes
from placement_viz.analysis.step.flow import Flow
from placement_viz.model import RowKind

__all__ = ["Avoidable", "find_avoidable", "places_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Avoidable:
    """What would change if each misplaced gradient op ran where it belongs.

    Everything else is thought to run where it ran.

    Attributes:
        gone: The tensors that would cross no more, as in ``CROSSINGS_SCHEMA``.
        added: Those that would cross and did not.
        control_gone: Number of control edges that would cross no more.
        control_added: Number of those that would cross and did not.
        n_ops: Number of misplaced gradient ops that this thinks at home.
    """

    gone: pl.DataFrame
    added: pl.DataFrame
    control_gone: int
    control_added: int
    n_ops: int

    @property
    def net_bytes(self) -> int | None:
        """Return how much less would cross; negative if more, None if not known."""
        both = (self.gone, self.added)
        is_known = all(each["bytes_from"].null_count() == 0 for each in both)
        gone, added = (known_bytes(each) for each in both)
        if not is_known or gone is None or added is None:
            return None
        return gone - added


def find_avoidable(
    flow: Flow, edges: pl.DataFrame, places: pl.Series, crossed: pl.DataFrame
) -> Avoidable:
    """Return what would cross no more, and what would instead.

    Args:
        flow: The step.
        edges: Its tensor edges.
        places: Where its ops ran, see :func:`places_of`.
        crossed: What crossed so, as in ``CROSSINGS_SCHEMA``.
    """
    misplaced = _misplaced(flow)
    homes = misplaced["expected_device"].cast(places.dtype)
    at_home = cross(edges, places.clone().scatter(misplaced["op"], homes))
    gone = _without(crossed, at_home)
    added = with_sizes(flow.run, _without(at_home, crossed))
    is_control = pl.col("is_control")
    return Avoidable(
        gone=gone.filter(~is_control),
        added=added.filter(~is_control),
        control_gone=gone.filter(is_control).height,
        control_added=added.filter(is_control).height,
        n_ops=misplaced.height,
    )


def places_of(flow: Flow) -> pl.Series:
    """Return the device of each op by position, null for rows that prove none.

    It is an enumeration of the devices where an op ran or belongs, in order.
    """
    ran_on = flow.trace.executed["device"].unique()
    devices = {*ran_on, *_misplaced(flow)["expected_device"]}
    order = pl.Enum(sorted(devices, key=names.device_order))
    return flow.trace.ops.select(
        place=pl.when(pl.col("row_kind") == RowKind.EXECUTOR).then("device").cast(order)
    )["place"]


def _misplaced(flow: Flow) -> pl.DataFrame:
    return flow.colocation.misplaced.drop_nulls("expected_device")


def _without(crossings: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return those whose tensor does not cross to that device among ``others``."""
    tensor = ["producer", "slot", "is_control", "destination"]
    return crossings.join(
        others, on=tensor, how="anti", nulls_equal=True, maintain_order="left"
    )
