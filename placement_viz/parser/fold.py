"""Events into columns, batch by batch, without keeping any event."""

from __future__ import annotations

import collections
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from placement_viz.parser import usual
from placement_viz.parser.columns import (
    COLUMNS,
    Numbering,
    general_columns,
    usual_columns,
)
from placement_viz.parser.events import Event
from placement_viz.parser.tensor_sizes import TensorSizes

__all__ = ["Fold"]

#: What tells programs that trace the exchange of tensors from others: the names of
#: events that only they write.
_EXCHANGES = {
    "Horovod": re.compile(r"NEGOTIATE_[A-Z]+"),
    "BytePS": re.compile(r"(?:INIT|PUSH|PULL|PUSH_PULL)(?:QUEUE|COMMUNICATION)"),
}
#: Phases of complete events, and of the two ends of a flow arrow.
_COMMON = frozenset({"X", "s", "t"})
_PAIR = frozenset({"B", "E"})
_FLOW, _OBJECT, _COUNTER = "flow arrow", "tensor object", "counter"
#: Kind of event that is only counted, to what it is called.
_CALLED = {
    usual.Flow: _FLOW,
    usual.FlowEnd: _FLOW,
    usual.TensorMade: _OBJECT,
    usual.Tensor: _OBJECT,
    usual.TensorDeleted: _OBJECT,
    usual.Counter: _COUNTER,
}
#: The same by phase.
_PHASES = {"N": _OBJECT, "O": _OBJECT, "D": _OBJECT, "C": _COUNTER}
_NAME, _TOLD = map(operator.attrgetter, ("name", "told"))
_NO_TIME = "op without a usable time"


class Fold:
    """What was read of a trace so far.

    Rows, lanes and categories are numbered as they appear: a name may come after the
    events that it is for.

    Attributes:
        labels: Row number, as the file has it, to label.
        n_events: How many events there were.
        exchange: The program, if one of them was of a kind that only a program which
            traces the exchange of tensors writes: ``Horovod``, ``BytePS`` or nothing.
        has_pairs: Whether one of them begins or ends an op.
        numbering: The numbers in the columns of :attr:`table`.
        others: Kind of event that is no complete one, to how many there were.
        timeless: Row, by its number, to its complete events without a usable time.
        sizes: The sizes of tensors, where memory is shown.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.labels: dict[Any, str] = {}
        self.n_events = 0
        self.exchange = ""
        self.has_pairs = False
        self.numbering = Numbering()
        self._tables: list[pl.DataFrame] = []
        self.others: collections.Counter[str] = collections.Counter()
        self.timeless: collections.Counter[int] = collections.Counter()
        self.sizes = TensorSizes()

    @property
    def has_ops(self) -> bool:
        """Return whether there was a complete event of any kind."""
        return bool(self._tables or self.timeless)

    @property
    def table(self) -> pl.DataFrame:
        """Return the complete events with a usable time, as :data:`COLUMNS`."""
        return pl.concat([pl.DataFrame(schema=COLUMNS), *self._tables])

    def add(self, events: list[Any]) -> None:
        """Take in more events, in the order of the file, all of the same kind."""
        self.n_events += len(events)
        if events and isinstance(events[0], Event):
            self._add_general(events)
        else:
            self._add_usual(events)

    def _add_usual(self, events: list[usual.Usual]) -> None:
        # Most events of a timeline come here, and what is done for each of them is
        # most of the time that reading takes.
        n_of = collections.Counter(map(type, events))
        for kind, called in _CALLED.items():
            self._count(called, n_of[kind])
        if n_of[usual.RowLabel]:
            for event in events:
                if type(event) is usual.RowLabel:
                    self._add_label(event)
        if n_of[usual.Tensor]:
            tensors = [event for event in events if type(event) is usual.Tensor]
            self.sizes.add(map(_NAME, tensors), map(_TOLD, tensors))
        if n_of[usual.Op]:
            ops = [event for event in events if type(event) is usual.Op]
            self._add_ops({op.name for op in ops}, usual_columns(ops, self.numbering))

    def _add_general(self, events: list[Event]) -> None:
        ops = [event for event in events if event.ph == "X"]
        rest = [event for event in events if event.ph not in _COMMON]
        for event in rest:
            if event.ph == "M":
                self._add_label(event)
                continue
            self.has_pairs |= event.ph in _PAIR
            self._look_for_exchange(event.name)
            self._count(_PHASES.get(event.ph or "", event.cat or "other"), 1)
        self._count(_FLOW, len(events) - len(ops) - len(rest))
        self._add_snapshots([event for event in rest if event.ph == "O"])
        if ops:
            types = {op.name for op in ops}
            self._add_ops(types, general_columns(ops, self.numbering))

    def _add_snapshots(self, events: list[Event]) -> None:
        named = [event for event in events if isinstance(event.name, str)]
        if named:
            names = [str(event.name) for event in named]
            self.sizes.add(names, [_told(event.args) for event in named])

    def _add_label(self, event: usual.RowLabel | Event) -> None:
        self._count("row label", 1)
        label = event.args.get("name") if isinstance(event.args, dict) else None
        if event.name == "process_name" and isinstance(label, str):
            self.labels[event.pid] = label

    def _add_ops(self, types: Iterable[object], table: pl.DataFrame) -> None:
        for each in types:
            self._look_for_exchange(each)
        is_timed = pl.col("start_us").is_not_null() & (pl.col("duration_us") >= 0)
        usable = table.filter(is_timed)
        if usable.height < table.height:
            timeless = table.filter(is_timed.not_().fill_null(value=True))
            self.timeless.update(timeless["pid"].to_list())
        self._tables.append(usable)

    def _look_for_exchange(self, name: object) -> None:
        if not self.exchange and isinstance(name, str) and name.isupper():
            writers = (w for w, names in _EXCHANGES.items() if names.fullmatch(name))
            self.exchange = next(writers, "")

    def _count(self, kind: str, n: int) -> None:
        if n:
            self.others[kind] += n

    def add_table(self, table: pl.DataFrame) -> None:
        """Take in complete events with a usable time, by the numbers of this fold."""
        self._tables.append(table)

    def take_ops(self, rows: Mapping[Any, str]) -> pl.DataFrame:
        """Return the complete events of some rows, in the order of the file.

        They are given away: nothing of them stays here.

        Args:
            rows: Row number, as the file has it, to what to call it.

        Returns:
            ``name``, ``op_type``, ``row``, ``lane`` (a number for each in the file),
            ``start_us``, ``duration_us`` and ``inputs``.
        """
        called = {self.numbering.pids[pid]: label for pid, label in rows.items()}
        table = self.table
        self._tables = []
        # Numbers behind names, for there are few names and many ops.
        labels = pl.Enum(list(dict.fromkeys(called.values())))
        row = pl.col("pid").replace_strict(called, default=None, return_dtype=labels)
        lane = pl.col("pid").cast(pl.Int64) * len(self.numbering.tids) + pl.col("tid")
        table = table.with_columns(row=row, lane=lane).drop("pid", "tid", "kind")
        if table["row"].null_count():
            table = table.filter(pl.col("row").is_not_null())
        return table

    def skipped(self, rows: Mapping[Any, str]) -> dict[str, int]:
        """Return kind of event that is no op of ``rows`` to how many there were."""
        found = collections.Counter(self.others)
        known = {self.numbering.pids[pid] for pid in rows}
        names = list(self.numbering.kinds)
        elsewhere = self.table.filter(~pl.col("pid").is_in(list(known)))
        for kind, n in elsewhere["kind"].value_counts().iter_rows():
            found[names[kind] or "other"] += n
        for row, n in self.timeless.items():
            found[_NO_TIME if row in known else "other"] += n
        return dict(found)


def _told(args: Any) -> str | None:
    """Return the description in the arguments of a snapshot, if there is one."""
    for key in ("snapshot", "tensor_description"):
        args = args.get(key) if isinstance(args, dict) else None
    return args if isinstance(args, str) else None
