"""Files that hold the graph of a program into a Graph.

TensorFlow keeps a graph in a GraphDef, in a MetaGraphDef (``model.ckpt.meta``), in a
SavedModel and in the event files of TensorBoard; which of these a file is, its content
tells. Run files carry their graph, and a log of ``log_device_placement`` tells at least
where the nodes were placed.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable
from typing import Any

from placement_viz.errors import TraceFormatError
from placement_viz.model import Graph
from placement_viz.parser import event_file, files, placement_log, timeline
from placement_viz.parser.events import is_json
from placement_viz.parser.graphdef import graph_of

__all__ = ["load_graph"]

#: The first field of a message in text, by the message that has it.
_TEXT = re.compile(
    rb"\s*(?:#[^\n]*\n\s*)*(?:"
    rb"(?P<SavedModel>saved_model_schema_version|meta_graphs)|"
    rb"(?P<MetaGraphDef>meta_info_def|graph_def|saver_def|collection_def"
    rb"|signature_def|asset_file_def|object_graph_def)|"
    rb"(?P<GraphDef>node|library|versions?|debug_info))\s*[:{<]"
)
_SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")
#: Begins a graph whose first message has 91 or 123 bytes: "[" and "{" as lengths, after
#: the field's number, which is a line feed. No JSON has the other control characters.
_GRAPH_LIKE_JSON = re.compile(rb"\n[\[{].*?[\x00-\x08\x0e-\x1f]", re.DOTALL)
#: The MetaGraph of a SavedModel that training is continued with.
_TRAIN = "train"


def load_graph(path: pathlib.Path) -> Graph:
    """Return the graph of a program, as it was before any optimiser.

    Args:
        path: A GraphDef, MetaGraphDef or SavedModel, binary or text, or the folder of
            a SavedModel; a run file; an event file of TensorBoard; or a log of
            ``log_device_placement``, of which the graph has no ``nodes`` and only
            ``placed``. Plain or gzipped; recognised by its content. Of a SavedModel
            with several MetaGraphs it is the one tagged ``train``, else the first.

    Raises:
        TraceFormatError: It is none of these, holds no node, or TensorFlow, which is
            needed for all but a run file and a log, is not installed.
        NoOpsError: It is a timeline in which no op ran.
    """
    content = files.content_of_file(_saved_model_in(path))
    source, head = content.source, content.head()
    is_binary = event_file.is_event_file(head) or _GRAPH_LIKE_JSON.match(head)
    if is_json(head) and not is_binary:
        found = timeline.read_timeline(content).graph
    else:
        found = _parse_graph(content.whole(), head, source)
    if found is None:
        raise TraceFormatError(
            f"{source}: expected a graph, found a file of runs that carries none; give "
            "the GraphDef that tf.io.write_graph writes"
        )
    return found


def _parse_graph(data: bytes, head: bytes, source: str) -> Graph | None:
    if event_file.is_event_file(head):
        return event_file.parse_event_file(data, source=source).graph
    if placement_log.is_placement_log(head):
        return placement_log.read_placement_log(data, source=source).graph
    return graph_of(_graph_def(data, source))


def _saved_model_in(path: pathlib.Path) -> pathlib.Path:
    """Return the file with the graph, if ``path`` is a SavedModel's folder."""
    try:
        if not path.is_dir():
            return path
        for name in _SAVED_MODEL:
            if (path / name).is_file():
                return path / name
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"{path}: expected a readable file or folder, found: {reason}"
        raise TraceFormatError(message) from error
    raise TraceFormatError(
        f"{path}: expected a SavedModel, found a folder without {_SAVED_MODEL[0]}; "
        "give the file that holds the graph"
    )


def _graph_def(data: bytes, source: str) -> Any:
    """Return the GraphDef in a message of any of the three kinds."""
    try:
        from tensorflow.core.framework import graph_pb2  # noqa: PLC0415 - heavy
        from tensorflow.core.protobuf import (  # noqa: PLC0415 - heavy
            meta_graph_pb2,
            saved_model_pb2,
        )
    except ImportError as error:
        text = (
            f"{source}: expected TensorFlow to read a graph with, found none; "
            "install tensorflow, or open a run file, which carries its graph"
        )
        raise TraceFormatError(text) from error
    # The longest way in first: a GraphDef has no node with a type when it is read as
    # one of the others.
    kinds = {
        "SavedModel": saved_model_pb2.SavedModel,
        "MetaGraphDef": meta_graph_pb2.MetaGraphDef,
        "GraphDef": graph_pb2.GraphDef,
    }
    if (match := _TEXT.match(data)) and match.lastgroup:
        name = match.lastgroup
        found = _from_text(data, kinds[name], f"{source}: expected a {name} in text")
    else:
        found = _from_binary(data, kinds.values())
    if found is None:
        raise TraceFormatError(
            f"{source}: expected a GraphDef, MetaGraphDef or SavedModel with a node, a "
            f"run file, an event file or a log of log_device_placement, found "
            f"{_first_bytes(data)}"
        )
    return found


def _from_text(data: bytes, kind: Any, expected: str) -> Any:
    """Return the GraphDef in a message in text.

    Raises:
        TraceFormatError: It is damaged, or has no node; begins as ``expected`` says.
    """
    from google.protobuf import text_format  # noqa: PLC0415 - heavy

    try:
        found = text_format.Parse(data, kind(), allow_unknown_field=True)
    except (text_format.ParseError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise TraceFormatError(f"{expected}, found damage: {reason}") from error
    graph = _main_graph(found)
    if graph is None or not graph.node:
        raise TraceFormatError(f"{expected}, found no node in it")
    return graph


def _from_binary(data: bytes, kinds: Iterable[Any]) -> Any:
    """Return the GraphDef in the first of ``kinds`` that ``data`` is; else None."""
    from google.protobuf import message  # noqa: PLC0415 - heavy

    for kind in kinds:
        try:
            graph = _main_graph(kind.FromString(data))
        except message.DecodeError:
            continue
        if graph is not None and any(node.op for node in graph.node):
            return graph
    return None


def _main_graph(found: Any) -> Any:
    """Return the GraphDef in a message of any of the three kinds; None without one."""
    if hasattr(found, "meta_graphs"):
        metas = found.meta_graphs
        tagged = (each for each in metas if _TRAIN in each.meta_info_def.tags)
        found = next(tagged, metas[0] if metas else None)
    return getattr(found, "graph_def", found)


def _first_bytes(data: bytes) -> str:
    if not data:
        return "an empty file"
    return f"content that starts with {data[:12]!r}, of another kind or damaged"
