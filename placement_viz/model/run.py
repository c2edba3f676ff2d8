"""A trace and the graph behind it."""

from __future__ import annotations

import dataclasses
import functools

import polars as pl

from placement_viz.model.graph import Graph
from placement_viz.model.recorded import Recorded, recorded_tables
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
    def recorded(self) -> Recorded:
        """Return what is recorded of sizes and memory, by the file or by its trace."""
        section = self.section
        if section is None or not self.trace.recorded.is_empty:
            return self.trace.recorded
        return recorded_tables(
            section.tensor_bytes,
            section.allocations,
            section.copies,
            self.trace.origin_us,
        )

    @property
    def tensors(self) -> pl.DataFrame:
        """Return the tensors whose size is recorded, as in ``TENSORS_SCHEMA``."""
        return self.recorded.tensors

    @property
    def allocations(self) -> pl.DataFrame:
        """Return what ops allocated, as in ``ALLOCATIONS_SCHEMA``."""
        return self.recorded.allocations

    @property
    def copies(self) -> pl.DataFrame:
        """Return the copies whose size is recorded, as in ``COPIES_SCHEMA``."""
        return self.recorded.copies

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return what the run can rest a result on: ``trace`` and maybe ``graph``."""
        return ("trace",) if self.graph is None else ("trace", "graph")
