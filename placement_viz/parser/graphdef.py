"""GraphDef messages into a Graph; needs TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_viz.model import Graph
from placement_viz.schema import GraphNode

__all__ = ["graph_of"]

_COLOCATION = "loc:@"
_RESOURCE = 20  # DT_RESOURCE in types.proto
#: More outputs than any op has; a damaged graph may claim as many as it likes.
_MOST_OUTPUTS = 4096


def graph_of(graph_def: Any) -> Graph:
    """Return the graph of a program, as it was before any optimiser.

    The functions of the graph's library are left out: what a step runs of them bears
    the name of the call in front (``StatefulPartitionedCall/mm``), and their inputs
    are written in another way.

    Args:
        graph_def: A GraphDef.
    """
    from tensorflow.python.framework import op_def_registry  # noqa: PLC0415 - heavy

    return Graph(
        nodes={
            node.name: _graph_node(node, op_def_registry.get(node.op))
            for node in graph_def.node
        }
    )


def _graph_node(node: Any, definition: Any) -> GraphNode:
    colocate = (
        tuple(
            loc.decode(errors="replace").removeprefix(_COLOCATION)
            for loc in node.attr["_class"].list.s
            if loc != f"{_COLOCATION}{node.name}".encode()
        )
        if "_class" in node.attr
        else ()
    )
    return GraphNode(
        name=node.name,
        op=node.op,
        device=node.device,
        colocate=colocate,
        inputs=tuple(node.input),
        handles=tuple(_handles(node, definition)) if definition else (),
    )


def _handles(node: Any, definition: Any) -> Iterator[int]:
    """Yield the numbers of the outputs that are a resource or a reference.

    Args:
        node: A NodeDef.
        definition: The OpDef of its type.
    """
    slot = 0
    for output in definition.output_arg:
        if output.type_list_attr:
            types = list(node.attr[output.type_list_attr].list.type)
        else:
            number = node.attr[output.number_attr].i if output.number_attr else 1
            one = output.type or node.attr[output.type_attr].type
            types = [one] * min(number, _MOST_OUTPUTS)
        for each in types:
            if output.is_ref or each == _RESOURCE:
                yield slot
            slot += 1
