"""A run as bytes that are quick to read again, and back.

Names and inputs of a large run are long and hardly repeat, yet what they consist of
does: the scope (``tower_0/block_7/``) and what is in it (``Conv2D_1``). So each text is
stored as two numbers of words and put together again, which takes less time than
unpacking it would. The tables are Arrow's IPC with Zstandard.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import msgspec
import polars as pl

from placement_viz.model import OPS_SCHEMA, Graph, Notice, Recorded, Run, Trace
from placement_viz.schema import RunSection

__all__ = ["LAYOUT", "pack_run", "unpack_run"]

#: Changes with what the bytes mean.
LAYOUT = 2

#: Columns of few texts, each a word of its own.
_WORDS = ("op_type", "device", "row_kind", "row")
#: Of how many ops texts are taken apart at a time, for what that takes is not small.
_SLICE = 1 << 17
_THREADS = 2
#: What follows the last slash.
_REST = r"[^/]*$"

_GAP = "ops: expected a value in each place, found none"

_Words: TypeAlias = dict[str, pl.Series]
#: The number of each text, and the text of each number.
_Numbered: TypeAlias = tuple[pl.Series, pl.Series]


class _Stored(msgspec.Struct, array_like=True):
    """A :class:`Run` without its source.

    Attributes:
        format: As in the run.
        origin_us: As in its trace, like the next.
        skipped: As there.
        notices: Code and message of each.
        section: What a run file has beside its events.
        words: Table with a list of texts for each column of words.
        ops: Table of the ops in numbers.
        recorded: Tables of tensors, allocations and copies, as in its trace; empty if
            all of them are.
    """

    format: str
    origin_us: int
    skipped: dict[str, int]
    notices: list[tuple[str, str]]
    section: RunSection | None
    words: bytes
    ops: bytes
    recorded: list[bytes]


_STORED = msgspec.msgpack.Decoder(_Stored)


def pack_run(run: Run) -> bytes:
    """Return all of ``run`` but its source.

    Raises:
        ValueError: It has what these bytes cannot say: a graph that is none of a run
            file, or a gap in its table.
    """
    trace = run.trace
    if run.graph is not None and run.section is None:
        message = f"{run.format}: expected a run file for a graph, found none"
        raise ValueError(message)
    ops, words = _numbered_ops(trace.ops)
    return msgspec.msgpack.encode(
        _Stored(
            format=run.format,
            origin_us=trace.origin_us,
            skipped=dict(trace.skipped),
            notices=[(notice.code, notice.message) for notice in trace.notices],
            section=run.section,
            words=_table_bytes(
                pl.DataFrame({name: each.implode() for name, each in words.items()})
            ),
            ops=_table_bytes(ops),
            recorded=[_table_bytes(table) for table in _tables(trace.recorded)],
        )
    )


def unpack_run(data: bytes | memoryview, *, source: str) -> Run:
    """Return the run that :func:`pack_run` made ``data`` of.

    Args:
        data: All of it.
        source: What to call the run.

    Raises:
        msgspec.MsgspecError: It was made of something else, or by another version.
        polars.exceptions.PolarsError: Likewise.
    """
    stored = _STORED.decode(data)
    words = {each.name: each.explode() for each in pl.read_ipc(stored.words)}
    trace = Trace(
        ops=_worded_ops(stored.ops, words),
        origin_us=stored.origin_us,
        skipped=stored.skipped,
        notices=tuple(Notice(*each) for each in stored.notices),
        recorded=Recorded(*(pl.read_ipc(table) for table in stored.recorded)),
    )
    run = Run(source, stored.format, trace, section=stored.section)
    if stored.section is None:
        return run
    return dataclasses.replace(run, graph=Graph.from_section(stored.section))


def _tables(recorded: Recorded) -> tuple[pl.DataFrame, ...]:
    if recorded.is_empty:
        return ()
    return recorded.tensors, recorded.allocations, recorded.copies


def _table_bytes(table: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    table.write_ipc(written, compression="zstd")
    return written.getvalue()


def _numbered_ops(ops: pl.DataFrame) -> tuple[pl.DataFrame, _Words]:
    """Return the ops in numbers, each column as narrow as these are, and the words."""
    if any(column.null_count() for column in ops):
        raise ValueError(_GAP)
    numbers, words = {}, {}
    for name in _WORDS:
        numbers[name], words[name] = _numbered(ops[name].rename(""))
    names, inputs, words["scope"], words["rest"] = _paired(ops.select("name", "inputs"))
    # Starts are in order, and what is between two of them is a small number.
    starts = ops["start_us"]
    table = pl.DataFrame(numbers).with_columns(
        ops["lane"],
        ops["duration_us"],
        ops["step"],
        start_us=starts - starts.shift(1, fill_value=0),
    )
    return table.select(column.shrink_dtype() for column in table).with_columns(
        name=names, inputs=inputs
    ), words


def _paired(ops: pl.DataFrame) -> tuple[pl.Series, pl.Series, pl.Series, pl.Series]:
    """Return a number for each name and input, and the scopes and rests behind them.

    A number is that of the scope, in steps of as many rests as there are, and of the
    rest. Some rows are looked at at a time: all texts once more would be the most that
    storing takes.
    """
    slices = [ops.slice(start, _SLICE) for start in range(0, max(1, len(ops)), _SLICE)]
    with ThreadPoolExecutor(_THREADS) as executor:
        scopes, rests = zip(*executor.map(_split, slices), strict=True)
    scope_numbers, scope_words = _joined(scopes)
    rest_numbers, rest_words = _joined(rests)
    # An input is the name of an op, so that one width is enough for both.
    most = pl.Series([len(scope_words) * len(rest_words)], dtype=pl.UInt64)
    width = most.shrink_dtype().dtype
    names, inputs = [], []
    for part, scope, rest in zip(slices, scope_numbers, rest_numbers, strict=True):
        pairs = (scope.cast(pl.UInt64) * len(rest_words) + rest).cast(width)
        names.append(pairs[: len(part)])
        inputs.append(_replaced(part["inputs"], pairs[len(part) :]))
    return pl.concat(names), pl.concat(inputs), scope_words, rest_words


def _split(ops: pl.DataFrame) -> tuple[_Numbered, _Numbered]:
    """Return the scope of each name, then of each input, and the rest of them."""
    inputs = ops["inputs"].explode(empty_as_null=False)
    texts = pl.concat([ops["name"].rename("text"), inputs.rename("text")])
    if texts.null_count():
        raise ValueError(_GAP)
    scopes = texts.str.replace(_REST, "")
    table = pl.DataFrame({"text": texts, "scope": scopes})
    rests = table.select(pl.col("text").str.strip_prefix(pl.col("scope")))["text"]
    return _numbered(scopes), _numbered(rests)


def _joined(parts: Sequence[_Numbered]) -> tuple[list[pl.Series], pl.Series]:
    """Return one numbering for texts that were numbered in parts, part by part."""
    numbers, words = _numbered(pl.concat([known for _, known in parts]))
    start, joined = 0, []
    for found, known in parts:
        joined.append(numbers.slice(start, len(known)).gather(found))
        start += len(known)
    return joined, words


def _numbered(texts: pl.Series) -> _Numbered:
    """Return ``texts`` in numbers."""
    known = texts.unique(maintain_order=True)
    table = known.to_frame("text").with_row_index("number")
    found = texts.to_frame("text").join(
        table, on="text", how="left", maintain_order="left"
    )
    return found["number"], known


def _replaced(lists: pl.Series, values: pl.Series) -> pl.Series:
    """Return lists as long as ``lists``, of ``values`` one after another."""

    def replace(inner: pl.Series) -> pl.Series:
        if len(inner) != len(values):
            message = f"inputs: expected {len(values)} at once, found {len(inner)}"
            raise ValueError(message)
        return values

    return lists.rechunk().list.eval(
        pl.element().map_batches(
            replace, return_dtype=values.dtype, is_elementwise=True
        )
    )


def _worded_ops(table: bytes, words: _Words) -> pl.DataFrame:
    """Return the ops of a table in numbers."""
    scopes, rests = words["scope"], words["rest"]
    n_rests = len(rests)

    def texts(pairs: pl.Series) -> pl.Series:
        return scopes.gather(pairs // n_rests) + rests.gather(pairs % n_rests)

    def word(name: str) -> pl.Expr:
        return _each(pl.col(name), words[name].gather)

    columns = {
        **{name: word(name) for name in _WORDS},
        "name": _each(pl.col("name"), texts),
        "start_us": pl.col("start_us").cast(pl.Int64).cum_sum(),
        "inputs": pl.col("inputs").list.eval(_each(pl.element(), texts)),
    }
    wanted = (
        columns.get(name, pl.col(name)).cast(dtype).alias(name)
        for name, dtype in OPS_SCHEMA.items()
    )
    # Some rows at a time, on all cores: most of the time goes into asking the system
    # for memory, and so what is in between needs little.
    return pl.scan_ipc(table).select(wanted).collect(engine="streaming")


def _each(column: pl.Expr, texts: Callable[[pl.Series], pl.Series]) -> pl.Expr:
    """Return the text of each number in ``column``."""
    return column.map_batches(texts, return_dtype=pl.String, is_elementwise=True)
