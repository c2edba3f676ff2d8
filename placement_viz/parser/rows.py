"""What the labels of TensorFlow's rows say, in every era.

Executors have rows of their device. A tracer of the graphics cards has others, named
after a CUDA ordinal, and joins node, type and kernel in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import polars as pl

from placement_viz import names
from placement_viz.model import RowKind
from placement_viz.parser.table import Row

__all__ = ["read_annotations", "read_rows"]

_TRACER_PART = re.compile(r"/stream:|/memcpy|(?: \(.*\))?/context#")
#: What TensorFlow's writer calls a type that it could not read.
_NOT_READ = "unknown"
_NODE = r"[\w.][\w./>-]*"
#: ``fwd:MatMul``, and ``fwd:MatMul::kernel`` or, in DeepRec, ``fwd:MatMul@@kernel``.
_ANNOTATION = re.compile(rf"({_NODE}):([A-Z_]\w*)(?:(?:::|@@).*)?", re.DOTALL)
#: ``edge_7_x::MemcpyDtoH`` or just ``MemcpyDtoH``; ``MemcpyD2H`` since 2.2.
_COPY = re.compile(rf"(?:({_NODE})(?:::|@@))?(Memcpy\w(?:to|2)\w)(?:##.*)?", re.DOTALL)


def read_rows(labels: Iterable[str]) -> dict[str, Row]:
    """Return what rows say, by label."""
    return {label: Row(_device_of(label), _row_kind(label)) for label in labels}


def read_annotations(ops: pl.DataFrame, rows: Mapping[str, Row]) -> pl.DataFrame:
    """Return ``ops`` with node and type apart where a tracer's row joins them.

    Args:
        ops: ``name``, ``op_type``, ``row`` and others.
        rows: Label of each row to what it says.

    Source:
        A tracer joins the annotation of an op, ``node:type``, and its kernel; what
        ``Timeline`` makes of that depends on the row. ``SaveRecord`` in
        ``core/platform/default/device_tracer.cc``, 1.14 to 2.1, and DeepRec's.
    """
    tracer = [label for label, row in rows.items() if row.kind != RowKind.EXECUTOR]
    if not tracer:
        return ops
    keys = ["row", "name", "op_type"]
    is_joined = (pl.col("op_type") == _NOT_READ) | pl.col("op_type").str.contains(
        "@@", literal=True
    )
    joined = ops.filter(pl.col("row").is_in(tracer) & is_joined).select(keys).unique()
    parts = [_node_and_type(name, kind) for _, name, kind in joined.iter_rows()]
    joined = joined.with_columns(
        node=pl.Series([node for node, _ in parts], dtype=pl.String),
        node_type=pl.Series([kind for _, kind in parts], dtype=pl.String),
    )
    ops = ops.join(joined, on=keys, how="left", maintain_order="left")
    return ops.with_columns(
        name=pl.coalesce("node", "name"), op_type=pl.coalesce("node_type", "op_type")
    ).drop("node", "node_type")


def _node_and_type(name: str, op_type: str) -> tuple[str, str]:
    """Return the node and the type that a tracer's row tells, as far as it does.

    A kernel without an annotation keeps its own name: ``void Eigen::internal::…``.
    """
    if op_type != _NOT_READ:
        return name, op_type.partition("@@")[0]
    if match := _ANNOTATION.fullmatch(name):
        return match[1], match[2]
    if match := _COPY.fullmatch(name):
        return match[1] or match[2], match[2]
    return name, op_type


def _device_of(row: str) -> str:
    """Return the device that a row names, in canonical spelling."""
    return names.canonical_device(_TRACER_PART.split(row, maxsplit=1)[0])


def _row_kind(row: str) -> RowKind:
    """Return what a row of this label records.

    Source:
        Executor rows carry a full device; tracer rows are named after a CUDA
        ordinal: ``/device:GPU:0/stream:all``, ``/gpu:0/memcpy``,
        ``/gpu:0 (Tesla V100)/context#0/stream#1:Kernel`` or, in the same place,
        ``null stream`` (1.14 to 2.1).
    """
    if "/memcpy" in row or "Memcpy" in row:
        return RowKind.MEMCPY
    if "/stream" in row or "/context#" in row:
        return RowKind.STREAM
    if names.is_full_device(names.canonical_device(row)):
        return RowKind.EXECUTOR
    return RowKind.OTHER
