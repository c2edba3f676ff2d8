"""A run: what happened in a training step and, where known, the graph behind it.

Ops are rows of a table, not objects, and the key of an op is its position: names
repeat (``RecvTensor``, loop iterations, ``_SOURCE`` on every device).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Mapping

import polars as pl

from placement_viz import names
from placement_viz.schema import GraphNode, RunSection

__all__ = ["OPS_SCHEMA", "TENSORS_SCHEMA", "Graph", "Notice", "RowKind", "Run", "Trace"]


class RowKind(enum.StrEnum):
    """What a row of the timeline records.

    Only ``EXECUTOR`` rows prove a placement. ``STREAM`` and ``MEMCPY`` rows come from
    the GPU tracer, which numbers devices its own way and, up to about TensorFlow
    1.13, called every one of them 0; they give times. ``RECEIVE`` rows are tensors
    that a device waited for from another process; no op of the program.
    """

    EXECUTOR = "executor"
    RECEIVE = "receive"
    STREAM = "stream"
    MEMCPY = "memcpy"
    OTHER = "other"


#: What tells the devices of a trace, the best first.
_WITNESSES = (
    (RowKind.EXECUTOR,),
    (RowKind.STREAM, RowKind.MEMCPY),
    (RowKind.OTHER,),
)

#: Columns of :attr:`Trace.ops`. Rows are in order of start, then as in the file.
#:
#: ``name``         node that ran
#: ``op_type``      its op type; the optimiser may have changed it
#: ``device``       full canonical device; for tracer rows the device it *names*
#: ``row_kind``     a :class:`RowKind`
#: ``row``          the row's own label
#: ``lane``         display line within (device, row), from 0, without gaps
#: ``start_us``     from the first op of the run
#: ``duration_us``  0 is legal
#: ``inputs``       tensors as the trace writes them, in argument order
#: ``step``         0, 1, … in a run of several steps
OPS_SCHEMA = pl.Schema(
    {
        "name": pl.String(),
        "op_type": pl.String(),
        "device": pl.String(),
        "row_kind": pl.String(),
        "row": pl.String(),
        "lane": pl.Int32(),
        "start_us": pl.Int64(),
        "duration_us": pl.Int64(),
        "inputs": pl.List(pl.String()),
        "step": pl.Int32(),
    }
)


#: Columns of :attr:`Run.tensors`, one row a tensor.
#:
#: ``name``     node that makes it
#: ``slot``     number of that node's output
#: ``n_bytes``  its size; 0 is legal
TENSORS_SCHEMA = pl.Schema(
    {"name": pl.String(), "slot": pl.Int32(), "n_bytes": pl.Int64()}
)


@dataclasses.dataclass(frozen=True)
class Notice:
    """Something a reader must know before trusting a result.

    Attributes:
        code: Stable, for programs: ``stream-rows-mislabelled``.
        message: One sentence, for people.
    """

    code: str
    message: str


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """The ops that ran, by position.

    Attributes:
        ops: A table with the columns of :data:`OPS_SCHEMA`; never empty.
        origin_us: Clock time of the first op's start, as the file gives it.
        skipped: Kind of event that holds no op, to how many there were.
        notices: What the reader had to repair or to leave out.
    """

    ops: pl.DataFrame
    origin_us: int = 0
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @functools.cached_property
    def executed(self) -> pl.DataFrame:
        """Return the ops whose device is proved, with their position in ``op``.

        These are the rows of :attr:`RowKind.EXECUTOR`, in the order of ``ops``.
        """
        return self.ops.with_row_index("op").filter(
            pl.col("row_kind") == RowKind.EXECUTOR
        )

    @functools.cached_property
    def device_rows(self) -> tuple[RowKind, ...]:
        """Return the kinds of row that :attr:`devices` are read from.

        They are the best that are there: executors, else the tracer of a device, else
        processes of any kind; none when nothing but tensors was received.
        """
        there = set(self.ops["row_kind"].unique())
        return next((kinds for kinds in _WITNESSES if there.intersection(kinds)), ())

    @property
    def is_placed(self) -> bool:
        """Return whether a row proves where an op was placed."""
        return RowKind.EXECUTOR in self.device_rows

    @functools.cached_property
    def devices(self) -> tuple[str, ...]:
        """Return the devices on which an op ran, sorted.

        Unless the trace :attr:`is_placed`, they are those that a tracer names, and if
        there is none, the processes; nobody placed an op there.
        """
        rows = self.ops.filter(pl.col("row_kind").is_in(list(self.device_rows)))
        found = rows["device"].unique().to_list()
        return tuple(sorted(found, key=names.device_order))

    @functools.cached_property
    def span_us(self) -> int:
        """Return the time from the first op's start to the last op's end."""
        end = (self.ops["start_us"] + self.ops["duration_us"]).max()
        return 0 if end is None else int(end)  # type: ignore[arg-type]

    @property
    def n_steps(self) -> int:
        """Return the number of steps, at least 1."""
        return self.ops["step"].n_unique()


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
        sizes = {} if self.section is None else self.section.tensor_bytes
        slots = [names.producer_and_slot(tensor) for tensor in sizes]
        return pl.DataFrame(
            {
                "name": [name for name, _ in slots],
                "slot": [slot for _, slot in slots],
                "n_bytes": list(sizes.values()),
            },
            schema=TENSORS_SCHEMA,
        )

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return what the run can rest a result on: ``trace`` and maybe ``graph``."""
        return ("trace",) if self.graph is None else ("trace", "graph")
