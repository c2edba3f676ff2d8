"""Events into columns, without keeping any event.

Two ways with one result: the usual one is fast since it knows all types, the general
one takes whatever is there. Rows, lanes and categories become numbers, in the order in
which they appear.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from placement_viz.parser.events import Event
from placement_viz.parser.usual import INPUTS, Args, Op

__all__ = [
    "COLUMNS",
    "SEPARATOR",
    "Numbering",
    "general_columns",
    "separated",
    "usual_columns",
]

#: Between the tensors in a text of several. TensorFlow's names cannot have it; in
#: somebody else's it is shown as what cannot be shown.
SEPARATOR = "\x1f"

COLUMNS = pl.Schema(
    {
        "name": pl.String(),
        "op_type": pl.String(),
        "pid": pl.Int32(),
        "tid": pl.Int32(),
        "start_us": pl.Int64(),
        "duration_us": pl.Int64(),
        "inputs": pl.List(pl.String()),
        "kind": pl.Int32(),
    }
)

# Called for each event: what a loop in C reads takes two thirds of the time.
_PID, _TID, _CAT, _TS, _DUR, _NAME, _OP, _ARGS = map(
    operator.attrgetter, ("pid", "tid", "cat", "ts", "dur", "name", "op", "args")
)
_INPUTS = tuple(map(operator.attrgetter, INPUTS))

# Times beyond this cannot be differences of real clocks and overflow an int64 sum.
_LATEST_US = 1 << 61


class _Numbers(dict[Any, int]):
    """Things to numbers, in the order in which they are first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Numbering:
    """The numbers that stand for rows, lanes and categories.

    Attributes:
        pids: Row as the file numbers it to its number.
        tids: Lane as the file numbers it to its number; each row has lanes of its own.
        kinds: Category to its number.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.pids = _Numbers()
        self.tids = _Numbers()
        self.kinds = _Numbers()

    def of(self, events: Iterable[Op | Event]) -> list[pl.Series]:
        """Return the columns of numbers for some events."""
        found = {
            "pid": map(self.pids.__getitem__, map(_PID, events)),
            "tid": map(self.tids.__getitem__, map(_TID, events)),
            "kind": map(self.kinds.__getitem__, map(_CAT, events)),
        }
        return [
            pl.Series(name, list(numbers), dtype=pl.Int32)
            for name, numbers in found.items()
        ]


def usual_columns(ops: list[Op], numbering: Numbering) -> pl.DataFrame:
    """Return complete events as :data:`COLUMNS`.

    Args:
        ops: At least one.
        numbering: Continued by what is new.
    """
    args: list[Any] = list(map(_ARGS, ops))
    if None in args:
        args = [Args() if each is None else each for each in args]
    types = _usual_texts(map(_OP, args), map(_NAME, ops))
    return pl.DataFrame(
        [
            _usual_texts(map(_NAME, args), types).alias("name"),
            types.alias("op_type"),
            _usual_times(list(map(_TS, ops))).alias("start_us"),
            _usual_times(list(map(_DUR, ops))).alias("duration_us"),
            _usual_inputs(args).alias("inputs"),
            *numbering.of(ops),
        ]
    ).select(list(COLUMNS))


def general_columns(ops: list[Event], numbering: Numbering) -> pl.DataFrame:
    """Return complete events as :data:`COLUMNS`, whatever they hold.

    Args:
        ops: At least one.
        numbering: Continued by what is new.
    """
    args = [op.args if type(op.args) is dict else {} for op in ops]
    types = _texts([each.get("op") for each in args], [op.name for op in ops])
    return pl.DataFrame(
        {
            "name": _texts([each.get("name") for each in args], types),
            "op_type": types,
            "start_us": _times([op.ts for op in ops]),
            "duration_us": _times([op.dur for op in ops]),
            "inputs": separated([_leading_inputs(each) for each in args]),
            **{column.name: column for column in numbering.of(ops)},
        },
        schema_overrides=COLUMNS,
    ).select(list(COLUMNS))


def separated(joined: Iterable[str | None]) -> pl.Series:
    """Return a list of the texts in each text, which :data:`SEPARATOR` joins.

    A list for each op to begin with would take many times as long.

    Args:
        joined: None for an empty list.
    """
    return pl.Series(joined, dtype=pl.String).str.split(SEPARATOR).fill_null([])


def _usual_inputs(args: list[Any]) -> pl.Series:
    """Return ``input0``, ``input1``, … of each op in a list."""
    columns: list[pl.Series] = []
    for tensor in _INPUTS:
        column = pl.Series(list(map(tensor, args)), dtype=pl.String)
        if column.null_count() == len(args):
            break
        if columns:
            # What follows a gap is no input.
            column = column.set(columns[-1].is_null(), None)
        columns.append(column)
    if not columns:
        return separated([None] * len(args))
    joined = pl.concat_str(columns, separator=SEPARATOR, ignore_nulls=True)
    return separated(
        pl.select(pl.when(columns[0].is_not_null()).then(joined)).to_series()
    )


def _leading_inputs(args: Mapping[str, Any]) -> str | None:
    """Return ``input0``, ``input1``, … in one text; None when there are none."""
    found: list[str] = []
    while isinstance(tensor := args.get(f"input{len(found)}"), str):
        found.append(tensor.replace(SEPARATOR, "\ufffd"))
    return SEPARATOR.join(found) if found else None


def _usual_texts(
    values: Iterable[str | None], otherwise: Iterable[str | None]
) -> pl.Series:
    """Return :func:`_texts` of values that are texts or nothing."""
    texts = pl.Series(list(values), dtype=pl.String)
    has_text = texts.str.len_bytes() > 0
    if has_text.all(ignore_nulls=False):
        return texts
    instead = pl.Series(list(otherwise), dtype=pl.String).fill_null("")
    return texts.zip_with(has_text.fill_null(value=False), instead)


def _texts(values: list[Any], otherwise: list[Any]) -> list[str]:
    """Return what of ``values`` is a text, and elsewhere what is there instead."""
    if set(map(type, values)) == {str} and all(values):
        return values
    return [
        value if type(value) is str and value else other if type(other) is str else ""
        for value, other in zip(values, otherwise, strict=True)
    ]


def _usual_times(values: list[int | None]) -> pl.Series:
    """Return :func:`_times` of values that are whole numbers or nothing."""
    try:
        times = pl.Series(values, dtype=pl.Int64)
    except TypeError:  # beyond 64 bits
        return pl.Series(_times(values), dtype=pl.Int64)
    is_usable = times.is_between(-_LATEST_US, _LATEST_US, closed="none")
    return times.set(~is_usable, None)


def _times(values: list[Any]) -> list[int | None]:
    """Return times as whole microseconds; None for what is no usable number."""
    if set(map(type, values)) == {int}:
        known = values
    else:
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
