"""The ops of a step, what each is for, and what it took from which."""

from __future__ import annotations

import dataclasses
import functools

import polars as pl

from placement_viz.analysis.colocation import Colocation
from placement_viz.analysis.step.edges import find_edges
from placement_viz.analysis.step.roles import find_roles
from placement_viz.model import RowKind, Run, Trace

__all__ = ["Flow"]


@dataclasses.dataclass(frozen=True, eq=False)
class Flow:
    """A run as everything about its step is read from it.

    Attributes:
        run: What ran.
        colocation: Its judged gradient ops.
    """

    run: Run
    colocation: Colocation

    @property
    def trace(self) -> Trace:
        """Return what ran."""
        return self.run.trace

    @functools.cached_property
    def edges(self) -> pl.DataFrame:
        """Return the dataflow between executions, see ``EDGES_SCHEMA``."""
        return find_edges(self.run.trace)

    @functools.cached_property
    def ops(self) -> pl.DataFrame:
        """Return all rows of ``Trace.ops`` with their position, end and role.

        Added are ``op``, the position; ``end_us``; and ``role``, a
        :class:`~placement_viz.analysis.step.roles.Role`.
        """
        roles = find_roles(self.run, self.colocation, self.edges)
        return self.run.trace.ops.with_row_index("op").with_columns(
            end_us=pl.col("start_us") + pl.col("duration_us"), role=roles
        )

    @functools.cached_property
    def executed(self) -> pl.DataFrame:
        """Return the rows of :attr:`ops` whose device is proved."""
        return self.ops.filter(pl.col("row_kind") == RowKind.EXECUTOR)
