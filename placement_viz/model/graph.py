"""The graph behind a step, and where TensorFlow put it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from placement_viz import names
from placement_viz.schema import GraphNode, RunSection

__all__ = ["Graph"]


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """The graph that the program built, and where TensorFlow put it.

    Attributes:
        nodes: Name to node, in the order of creation.
        placed: Node to assigned device, for the nodes that the traced step kept;
            also nodes that only the optimiser made. Empty for a bare GraphDef.
        sources: ``file:line`` strings that :attr:`GraphNode.source` points into.
        kernels: Op type to the types of device that have a kernel for it; empty when
            not known.
    """

    nodes: Mapping[str, GraphNode]
    placed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sources: tuple[str, ...] = ()
    kernels: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_section(cls, section: RunSection) -> Graph:
        """Return the graph of a run file's section."""
        return cls(
            nodes={node.name: node for node in section.nodes},
            placed={
                node: names.canonical_device(device)
                for device, members in section.placed.items()
                for node in members
            },
            sources=section.sources,
            kernels={op: frozenset(kinds) for op, kinds in section.kernels.items()},
        )

    def source_of(self, node: str) -> str | None:
        """Return the ``file:line`` that a person has to look at for ``node``.

        It is the line that asked for gradients, for an op that was made for these,
        and else the line that created it; None when not known.
        """
        found = self.nodes.get(node)
        if found is None:
            return None
        position = found.source if found.call is None else found.call
        if position is None or not 0 <= position < len(self.sources):
            return None
        return self.sources[position]
