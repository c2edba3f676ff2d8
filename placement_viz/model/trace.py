"""What ran in a training step, op by op."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Mapping

import polars as pl

from placement_viz import names
from placement_viz.model.recorded import Recorded

__all__ = ["OPS_SCHEMA", "Notice", "RowKind", "Trace"]


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
        recorded: What the trace says of sizes and memory.
    """

    ops: pl.DataFrame
    origin_us: int = 0
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    recorded: Recorded = dataclasses.field(default_factory=Recorded)

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
