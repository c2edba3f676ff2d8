"""Events into columns, batch by batch, without keeping any event."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from placement_viz.parser.events import Event
from placement_viz.parser.table import SEPARATOR

__all__ = ["Fold"]

# Times beyond this cannot be differences of real clocks and overflow an int64 sum.
_LATEST_US = 1 << 61

_HOROVOD = frozenset(
    {"NEGOTIATE_ALLREDUCE", "NEGOTIATE_BROADCAST", "ALLREDUCE", "PUSH", "PULL"}
)
#: The most inputs that are looked for in one comparison; few ops have more.
_MAX_USUAL = 16
#: Number of inputs to the keys of an op with so many, as TensorFlow writes them.
_USUAL = tuple(
    ("name", "op", *(f"input{i}" for i in range(n))) for n in range(_MAX_USUAL + 1)
)
#: Complete events, and the two ends of a flow arrow.
_COMMON = frozenset({"X", "s", "t"})
_NO_TIME = "op without a usable time"

_SCHEMA = pl.Schema(
    {
        "name": pl.String(),
        "op_type": pl.String(),
        "pid": pl.Int32(),
        "lane": pl.Int32(),
        "start_us": pl.Int64(),
        "duration_us": pl.Int64(),
        "inputs": pl.String(),
        "kind": pl.Int32(),
    }
)


class Fold:
    """What was read of a trace so far.

    Rows, lanes and categories are numbered as they appear: a name may come after the
    events that it is for.

    Attributes:
        labels: Row number, as the file has it, to label.
        n_events: How many events there were.
        is_horovod: Whether one of them was of a kind that Horovod or BytePS write.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.labels: dict[Any, str] = {}
        self.n_events = 0
        self.is_horovod = False
        self._tables: list[pl.DataFrame] = []
        self._others: collections.Counter[str] = collections.Counter()
        self._timeless: collections.Counter[int] = collections.Counter()
        self._pids = _Numbers()
        self._lanes = _Numbers()
        self._kinds = _Numbers()

    @property
    def has_ops(self) -> bool:
        """Return whether there was a complete event of any kind."""
        return bool(self._tables or self._timeless)

    def add(self, events: list[Event]) -> None:
        """Take in more events, in the order of the file."""
        # Most events of a timeline are ops and flow arrows, and what is done for each
        # of them is most of the time that reading takes.
        self.n_events += len(events)
        ops = [event for event in events if event.ph == "X"]
        rest = [event for event in events if event.ph not in _COMMON]
        for event in rest:
            self._add_other(event)
        if n_flows := len(events) - len(ops) - len(rest):
            self._others["flow arrow"] += n_flows
        if not ops:
            return
        self.is_horovod |= any(map(_is_horovod, {event.name for event in ops}))
        args = [event.args if type(event.args) is dict else {} for event in ops]
        types = _texts([each.get("op") for each in args], [e.name for e in ops])
        names = _texts([each.get("name") for each in args], types)
        pids, lanes, kinds = self._pids, self._lanes, self._kinds
        table = pl.DataFrame(
            {
                "name": names,
                "op_type": types,
                "pid": [pids[event.pid] for event in ops],
                "lane": [lanes[event.pid, event.tid] for event in ops],
                "start_us": _times([event.ts for event in ops]),
                "duration_us": _times([event.dur for event in ops]),
                "inputs": [_inputs(each) for each in args],
                "kind": [kinds[event.cat] for event in ops],
            },
            schema=_SCHEMA,
        )
        is_timed = pl.col("start_us").is_not_null() & (pl.col("duration_us") >= 0)
        usable = table.filter(is_timed)
        if usable.height < table.height:
            timeless = table.filter(is_timed.not_().fill_null(value=True))
            self._timeless.update(timeless["pid"].to_list())
        self._tables.append(usable)

    def take_ops(self, rows: Mapping[Any, str]) -> pl.DataFrame:
        """Return the complete events of some rows, in the order of the file.

        They are given away: nothing of them stays here.

        Args:
            rows: Row number, as the file has it, to what to call it.

        Returns:
            ``name``, ``op_type``, ``row``, ``lane`` (numbered as they appear),
            ``start_us``, ``duration_us`` and ``inputs``, joined by :data:`SEPARATOR`;
            null for none.
        """
        called = {self._pids[pid]: label for pid, label in rows.items()}
        table = self._table()
        self._tables = []
        # Numbers behind names, for there are few names and many ops.
        labels = pl.Enum(list(dict.fromkeys(called.values())))
        row = pl.col("pid").replace_strict(called, default=None, return_dtype=labels)
        table = table.with_columns(row=row).drop("pid", "kind")
        if table["row"].null_count():
            table = table.filter(pl.col("row").is_not_null())
        return table

    def skipped(self, rows: Mapping[Any, str]) -> dict[str, int]:
        """Return kind of event that is no op of ``rows`` to how many there were."""
        found = collections.Counter(self._others)
        known = {self._pids[pid] for pid in rows}
        names = list(self._kinds)
        elsewhere = self._table().filter(~pl.col("pid").is_in(list(known)))
        for kind, n in elsewhere["kind"].value_counts().iter_rows():
            found[names[kind] or "other"] += n
        for row, n in self._timeless.items():
            found[_NO_TIME if row in known else "other"] += n
        return dict(found)

    def _table(self) -> pl.DataFrame:
        if len(self._tables) != 1:
            self._tables = [pl.concat(self._tables or [pl.DataFrame(schema=_SCHEMA)])]
        return self._tables[0]

    def _add_other(self, event: Event) -> None:
        if event.ph == "M":
            self._others["row label"] += 1
            label = event.args.get("name") if isinstance(event.args, dict) else None
            if event.name == "process_name" and isinstance(label, str):
                self.labels[event.pid] = label
            return
        self.is_horovod |= _is_horovod(event.name)
        self._others["counter" if event.ph == "C" else event.cat or "other"] += 1


class _Numbers(dict[Any, int]):
    """Things to numbers, in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def _inputs(args: Mapping[str, Any]) -> str | None:
    """Return ``input0``, ``input1``, … in one text; None when there are none."""
    n_inputs = len(args) - 2
    # As TensorFlow writes them, which is nearly always.
    if 0 < n_inputs <= _MAX_USUAL and tuple(args) == _USUAL[n_inputs]:
        found = list(args.values())[2:]
        if not all(type(tensor) is str for tensor in found):
            found = _leading_inputs(args)
    else:
        found = _leading_inputs(args)
    if not found:
        return None
    joined = SEPARATOR.join(found)
    if joined.count(SEPARATOR) >= len(found):
        return SEPARATOR.join(each.replace(SEPARATOR, "\ufffd") for each in found)
    return joined


def _leading_inputs(args: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    while isinstance(tensor := args.get(f"input{len(found)}"), str):
        found.append(tensor)
    return found


def _texts(values: list[Any], otherwise: list[Any]) -> list[str]:
    """Return what of ``values`` is a text, and elsewhere what is there instead."""
    if set(map(type, values)) == {str} and all(values):
        return values
    return [
        value if type(value) is str and value else other if type(other) is str else ""
        for value, other in zip(values, otherwise, strict=True)
    ]


def _times(values: list[Any]) -> list[int | None]:
    """Return times as whole microseconds; None for what is no usable number."""
    if set(map(type, values)) != {int}:
        values = [_microseconds(value) for value in values]
    known = [value for value in values if value is not None]
    if known and (max(known) >= _LATEST_US or min(known) <= -_LATEST_US):
        return [v if v is not None and abs(v) < _LATEST_US else None for v in values]
    return values


def _microseconds(value: object) -> int | None:
    """Return a time as whole microseconds; None when it is no usable number."""
    # bool is an int to isinstance, but true is no timestamp.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value) if math.isfinite(value) else None


def _is_horovod(name: object) -> bool:
    return isinstance(name, str) and (name in _HOROVOD or name.startswith("NCCL_"))
