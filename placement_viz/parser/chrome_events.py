"""Events of any program that writes Chrome's format, in columns.

What may be an op is kept, everything else is counted by what a person would call it.
Ops are complete events and pairs of a begin and an end; times are whole nanoseconds, so
that what follows something else on a thread still does.

Source:
    "Trace Event Format", the description of the format by the authors of Chrome.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import polars as pl

from placement_viz.parser.events import Event
from placement_viz.parser.nesting import matching_ends

__all__ = ["NO_TIME", "Events", "Facts", "arguments", "name_of"]

#: Columns of what a kind of trace says of its events, by name.
Facts: TypeAlias = Mapping[str, list[Any]]

NO_TIME = "op without a usable time"
_PAIR_END = "end of an op"

_COMPLETE, _BEGIN, _END = range(3)
_PHASES = {"X": _COMPLETE, "B": _BEGIN, "E": _END}
#: What events that are no ops are called, by phase.
_CALLED = {
    "M": "row label",
    "C": "counter",
    "P": "sample",
    "c": "clock mark",
    **dict.fromkeys("stf", "flow arrow"),
    **dict.fromkeys("bneSTpF", "async event"),
    **dict.fromkeys("iIR", "moment"),
    **dict.fromkeys("NOD", "object"),
    **dict.fromkeys("vV", "memory dump"),
}
_OTHER = "other"
#: What has neither a name nor a row.
_UNKNOWN = "unknown"

_SCHEMA = pl.Schema(
    {
        "thread": pl.Int32(),
        "phase": pl.Int8(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
    }
)
_PS_PER_US = 1_000_000
#: Some 140 years. What is further away is no time of a real clock, and a start and a
#: duration beyond it would not fit into 64 bits as nanoseconds.
_LATEST_US = 1 << 52


class Events:
    """What was read of a trace so far.

    Attributes:
        threads: Process and thread, as the file numbers them, to their number.
        labels: Process to what it is called.
        thread_names: Process and thread to what the thread is called.
        skipped: Kind of event that is no op, to how many there were.
    """

    def __init__(
        self, schema: pl.Schema, facts: Callable[[list[Event]], Facts]
    ) -> None:
        """Start with nothing.

        Args:
            schema: The columns that ``facts`` gives.
            facts: What is to be kept of events beside their times.
        """
        self.threads: dict[tuple[Any, Any], int] = {}
        self.labels: dict[Any, str] = {}
        self.thread_names: dict[tuple[Any, Any], str] = {}
        self.skipped: collections.Counter[str] = collections.Counter()
        self._facts = facts
        self._schema = pl.Schema({**_SCHEMA, **schema})
        self._tables: list[pl.DataFrame] = []

    def add(self, events: list[Event]) -> None:
        """Take in more events, in the order of the file."""
        timed = [event for event in events if event.ph in _PHASES]
        for event in events:
            if event.ph not in _PHASES:
                self.skipped[_CALLED.get(event.ph or "", _OTHER)] += 1
                if event.ph == "M":
                    self._add_label(event)
        if not timed:
            return
        times = [_times(event) for event in timed]
        threads = self.threads
        columns = {
            "thread": [
                threads.setdefault((event.pid, event.tid), len(threads))
                for event in timed
            ],
            "phase": [_PHASES[event.ph or ""] for event in timed],
            "start_ns": [start for start, _ in times],
            "end_ns": [end for _, end in times],
            **self._facts(timed),
        }
        self._tables.append(pl.DataFrame(columns, schema=self._schema))

    def ops(self) -> pl.DataFrame:
        """Return the ops in the order of the file, and count what is none.

        A pair is one op, with the place and the facts of its begin; its end is counted.

        Returns:
            ``thread``, ``start_ns``, ``end_ns`` and the facts.
        """
        events = pl.concat([pl.DataFrame(schema=self._schema), *self._tables])
        self._tables = []
        is_complete = pl.col("phase") == _COMPLETE
        is_usable = pl.col("start_ns").is_not_null() & (
            pl.col("end_ns").is_not_null() | ~is_complete
        )
        usable = events.filter(is_usable).with_row_index("at")
        self._count(NO_TIME, events.height - usable.height)
        pairs = _pairs(usable.filter(~is_complete))
        n_of = dict(usable["phase"].value_counts().iter_rows())
        self._count(_PAIR_END, pairs.height)
        self._count("begin without end", n_of.get(_BEGIN, 0) - pairs.height)
        self._count("end without begin", n_of.get(_END, 0) - pairs.height)
        return (
            usable.join(pairs, on="at", how="left", maintain_order="left")
            .with_columns(end_ns=pl.coalesce("end_ns", "pair_end_ns"))
            .filter(pl.col("end_ns").is_not_null())
            .drop("at", "phase", "pair_end_ns")
        )

    def rows_of(self, pids: Iterable[Any]) -> dict[Any, str]:
        """Return what to call the rows of processes: each otherwise than the others."""
        rows = {
            pid: self.labels.get(pid) or (_UNKNOWN if pid is None else f"process {pid}")
            for pid in pids
        }
        n_called = collections.Counter(rows.values())
        return {
            pid: f"{row} ({pid})" if n_called[row] > 1 else row
            for pid, row in rows.items()
        }

    def _add_label(self, event: Event) -> None:
        label = arguments(event).get("name")
        if not isinstance(label, str):
            return
        if event.name == "process_name":
            self.labels[event.pid] = label
        elif event.name == "thread_name":
            self.thread_names[event.pid, event.tid] = label

    def _count(self, kind: str, n: int) -> None:
        if n:
            self.skipped[kind] += n


def arguments(event: Event) -> Mapping[str, Any]:
    """Return the arguments of an event; none when they are of another kind."""
    return event.args if isinstance(event.args, dict) else {}


def name_of(event: Event) -> str:
    """Return what an event is called; never empty."""
    return _UNKNOWN if event.name is None else str(event.name) or _UNKNOWN


def _pairs(events: pl.DataFrame) -> pl.DataFrame:
    """Return ``at`` of each begin that has an end, and its ``pair_end_ns``."""
    found: list[tuple[int, int]] = []
    for part in events.partition_by("thread"):
        at, times = part["at"].to_list(), part["start_ns"].to_list()
        ends = matching_ends(times, (part["phase"] == _END).to_list())
        found += [
            (begin, times[end])
            for begin, end in zip(at, ends, strict=True)
            if end is not None
        ]
    schema = {"at": events.schema["at"], "pair_end_ns": pl.Int64()}
    return pl.DataFrame(found, schema=schema, orient="row")


def _times(event: Event) -> tuple[int | None, int | None]:
    """Return start and end in ns; None for what is no usable time.

    Only a complete event has an end. Both are rounded, and not the duration: an op that
    follows another, to the picosecond that profilers write, still does.
    """
    start_ps = _picoseconds(event.ts)
    if start_ps is None:
        return None, None
    start_ns = _nanoseconds(start_ps)
    duration_ps = _picoseconds(event.dur) if event.ph == "X" else None
    if duration_ps is None or duration_ps < 0:
        return start_ns, None
    return start_ns, _nanoseconds(start_ps + duration_ps)


def _nanoseconds(time_ps: int) -> int:
    return (time_ps + 500) // 1000


def _picoseconds(time_us: object) -> int | None:
    """Return a time exactly, as far as its number is; None when it is not usable."""
    if isinstance(time_us, str):
        try:
            time_us = float(time_us)
        except ValueError:
            return None
    # bool is an int to isinstance, but true is no timestamp.
    if isinstance(time_us, bool) or not isinstance(time_us, int | float):
        return None
    if not abs(time_us) < _LATEST_US:
        return None
    return round(time_us * _PS_PER_US)
