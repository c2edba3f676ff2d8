"""GraphDef files (``.pb``, ``.pbtxt``) into a Graph; needs TensorFlow."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

from placement_viz.errors import TraceFormatError
from placement_viz.model import Graph
from placement_viz.parser import files
from placement_viz.schema import GraphNode

__all__ = ["load_graph"]

_COLOCATION = "loc:@"
_RESOURCE = 20  # DT_RESOURCE in types.proto


def load_graph(path: pathlib.Path) -> Graph:
    """Return the graph of a program, as it was before any optimiser.

    Args:
        path: A serialised GraphDef, binary or text, plain or gzipped. It is read as
            text when its name ends in ``.pbtxt`` or ``.pbtxt.gz``.

    Raises:
        TraceFormatError: It is no GraphDef, or TensorFlow is not installed.
    """
    data = files.content_of_file(path).whole()
    try:
        from google.protobuf import message, text_format  # noqa: PLC0415 - heavy
        from tensorflow.core.framework import graph_pb2  # noqa: PLC0415 - heavy
        from tensorflow.python.framework import op_def_registry  # noqa: PLC0415 - heavy
    except ImportError as error:
        text = (
            f"{path}: expected TensorFlow to read a GraphDef with, found none; "
            "install tensorflow, or open a run file, which carries its graph"
        )
        raise TraceFormatError(text) from error
    graph = graph_pb2.GraphDef()
    try:
        if path.name.removesuffix(".gz").endswith(".pbtxt"):
            text_format.Parse(data, graph)
        else:
            graph.ParseFromString(data)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise TraceFormatError(f"{path}: expected a GraphDef: {reason}") from error
    if not graph.node:
        raise TraceFormatError(f"{path}: expected a GraphDef, found no node in it")
    return Graph(
        nodes={
            node.name: _graph_node(node, op_def_registry.get(node.op))
            for node in graph.node
        }
    )


def _graph_node(node: Any, definition: Any) -> GraphNode:
    colocate = (
        tuple(
            loc.decode().removeprefix(_COLOCATION)
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
            types = [one] * number
        for each in types:
            if output.is_ref or each == _RESOURCE:
                yield slot
            slot += 1
