"""What comes after some ops, however far."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import rustworkx as rx

__all__ = ["link_ops", "reached"]


def link_ops(n_ops: int, links: Iterable[tuple[int, int]]) -> rx.PyDiGraph:
    """Return a graph of ops, numbered from 0, with links from one to another."""
    graph = rx.PyDiGraph()
    graph.add_nodes_from(range(n_ops))
    graph.extend_from_edge_list(list(links))
    return graph


def reached(graph: rx.PyDiGraph, ops: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return which ops of ``graph`` come after one of ``ops``.

    Of these only what comes after another of them, or after itself.
    """
    found = np.zeros(graph.num_nodes(), dtype=bool)
    following = {after for op in ops for after in graph.successor_indices(int(op))}
    source = graph.add_node(None)
    graph.extend_from_edge_list([(source, op) for op in following])
    found[list(rx.descendants(graph, source))] = True
    graph.remove_node(source)
    return found
