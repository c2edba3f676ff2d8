"""What programs that write Chrome's format agree on, and what each says its own way."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import polars as pl

from placement_viz.model import Notice, RowKind
from placement_viz.parser.chrome_events import Events, Facts, name_of
from placement_viz.parser.events import Event
from placement_viz.parser.marks import Key, Marks, marks_of_steps
from placement_viz.parser.table import Row

__all__ = ["AnyProgram", "Dialect", "Place", "Places", "marks_by_thread"]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where ops are shown.

    Attributes:
        row: The label of their row.
        said: What that row says about them.
    """

    row: str
    said: Row


#: For each kind of op where it is shown or, if it is not, what it is called.
Places: TypeAlias = Sequence[Place | str]


class Dialect(Protocol):
    """How one program writes a trace.

    Attributes:
        format: What such a file is called.
        schema: The columns of :meth:`facts`: ``name`` and ``op_type`` of the op, those
            in :attr:`keys`, and maybe ``label``, what a copy is of, and ``group``, what
            events of a step share.
        keys: The columns that, with the thread, tell where an op is shown.
        advice: Why there is nothing to judge, and what to do.
    """

    format: str
    schema: pl.Schema
    keys: tuple[str, ...]
    advice: str

    def facts(self, events: list[Event]) -> Facts:
        """Return what is kept of events beside their times, in columns."""

    def places(
        self, events: Events, keys: pl.DataFrame
    ) -> tuple[Places, tuple[Notice, ...]]:
        """Return where ops are shown, and what a reader must know of it.

        Args:
            events: All that was read.
            keys: ``thread``, its number, and :attr:`keys`; one row a kind of op.
        """

    def marks(self, events: Events, ops: pl.DataFrame) -> Sequence[Marks]:
        """Return where steps start on each thread, in ns; empty when none is known."""


class AnyProgram:
    """A program that is not known: processes are rows, and all ops are shown."""

    format: str = "chrome-trace"
    schema = pl.Schema({"name": pl.String(), "op_type": pl.String()})
    keys: tuple[str, ...] = ()
    advice = (
        "a Chrome trace of a program that is not TensorFlow names processes and "
        "threads, not devices of ops, so no gradient is judged; `placement-viz "
        "capture` records a step of TensorFlow that can be"
    )

    def facts(self, events: list[Event]) -> Facts:
        """Return names and categories."""
        return {
            "name": [name_of(event) for event in events],
            "op_type": [event.cat or "" for event in events],
        }

    def places(
        self, events: Events, keys: pl.DataFrame
    ) -> tuple[Places, tuple[Notice, ...]]:
        """Return the rows of the processes."""
        pids = [pid for pid, _ in events.threads]
        found = [pids[thread] for thread in keys["thread"]]
        rows = events.rows_of(dict.fromkeys(found))
        places = [Place(rows[pid], Row(rows[pid], RowKind.OTHER)) for pid in found]
        return places, ()

    def marks(self, events: Events, ops: pl.DataFrame) -> Sequence[Marks]:
        """Return none."""
        del events, ops  # Nobody knows what is a step in them.
        return ()


def marks_by_thread(
    events: Events, found: Mapping[Any, Sequence[tuple[Key, int]]]
) -> Sequence[Marks]:
    """Return the marks of each thread, which are those of its process.

    Args:
        events: All that was read.
        found: The steps of each process; of those that are left out no step is known.
    """
    if not any(found.values()):
        return ()
    pids = list(dict.fromkeys(pid for pid, _ in events.threads))
    marks = marks_of_steps([found.get(pid, ()) for pid in pids])
    by_pid = dict(zip(pids, marks, strict=True))
    return [by_pid[pid] for pid, _ in events.threads]
