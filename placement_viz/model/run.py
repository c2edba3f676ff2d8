"""A trace and the graph behind it."""

from __future__ import annotations

import dataclasses
import functools

import polars as pl

from placement_viz.model.graph import Graph
from placement_viz.model.recorded import (
    allocations_table,
    copies_table,
    tensors_table,
)
from placement_viz.model.trace import Trace
from placement_viz.schema import RunSection

__all__ = ["Run"]


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A trace and, where we have it, its graph.

    Attributes:
        source: Where it came from, as a person would name it.
        format: What kind of file that was, such as ``tensorflow-timeline``.
        trace: What ran.
        graph: What was asked for; None for a plain timeline.
        section: The facts that ``capture`` recorded; None for a plain timeline.
    """

    source: str
    format: str
    trace: Trace
    graph: Graph | None = None
    section: RunSection | None = None

    @functools.cached_property
    def tensors(self) -> pl.DataFrame:
        """Return the tensors whose size is recorded, as in :data:`TENSORS_SCHEMA`."""
        return tensors_table(self.section)

    @functools.cached_property
    def allocations(self) -> pl.DataFrame:
        """Return what ops allocated, as in :data:`ALLOCATIONS_SCHEMA`.

        Empty when that is not recorded.
        """
        return allocations_table(self.section, self.trace.origin_us)

    @functools.cached_property
    def copies(self) -> pl.DataFrame:
        """Return the copies whose size is recorded, as in :data:`COPIES_SCHEMA`."""
        return copies_table(self.section, self.trace.origin_us)

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return what the run can rest a result on: ``trace`` and maybe ``graph``."""
        return ("trace",) if self.graph is None else ("trace", "graph")
