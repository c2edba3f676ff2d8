"""Is this trace lying? What is wrong with the rows themselves, found and put right.

Everything that judges ops comes after this: each finding gives a notice that says what
was seen and what was done about it, and a trace that later steps may rely on.

Source:
    Labels of tracer rows: ``core/platform/default/device_tracer.cc`` up to TensorFlow
    1.13, whose device number is the constant 0. The limit of the collector:
    ``core/common_runtime/step_stats_collector.cc``.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz.analysis.merged_steps import put_rows_right
from placement_viz.model import Notice, RowKind, Trace
from placement_viz.names import short_device
from placement_viz.units import format_count

__all__ = ["COLLECTOR_LIMIT", "examine"]

#: The collector stops here, without a word.
COLLECTOR_LIMIT = 1 << 20
#: No training step lasts a day, so what lies further from the rest is a broken clock.
_FURTHEST_US = 86_400_000_000
_TRACER_KINDS = [RowKind.STREAM, RowKind.MEMCPY]


def examine(trace: Trace) -> tuple[Trace, tuple[Notice, ...]]:
    """Return ``trace`` as far as it can be trusted, and what was wrong with it."""
    notices = []
    for check in (_check_clock, put_rows_right, _check_tracer_rows, _check_limit):
        trace, notice = check(trace)
        if notice:
            notices.append(notice)
    return trace, tuple(notices)


def _check_clock(trace: Trace) -> tuple[Trace, Notice | None]:
    """Leave out ops that started long before or after all others."""
    starts = trace.ops["start_us"]
    # The start of an op in the middle, not the mean of two that may be far apart: then
    # neither of them would be near.
    middle = starts.sort()[(len(starts) - 1) // 2]
    distance = (starts - middle).abs()
    is_near = distance <= _FURTHEST_US
    n_far = trace.ops.height - int(is_near.sum())
    if n_far == 0:
        return trace, None
    ops = trace.ops.filter(is_near)
    first = int(ops["start_us"].min() or 0)  # type: ignore[arg-type]
    ops = ops.with_columns(pl.col("start_us") - first)
    notice = Notice(
        "clock-broken",
        f"{format_count(n_far, 'op')} started more than a day away from the others: "
        "their clock is broken; they are left out",
    )
    origin_us = trace.origin_us + first
    return dataclasses.replace(trace, ops=ops, origin_us=origin_us), notice


def _check_tracer_rows(trace: Trace) -> tuple[Trace, Notice | None]:
    """Count each kernel to the device of its op where the rows' labels are wrong."""
    if not trace.ops["row_kind"].is_in(_TRACER_KINDS).any():
        return trace, None
    homes = (
        trace.executed.group_by("name")
        .agg(pl.col("device").unique())
        .filter(pl.col("device").list.len() == 1)
        .select("name", home=pl.col("device").list.first())
    )
    ops = trace.ops.join(homes, on="name", how="left", maintain_order="left")
    is_tracer = pl.col("row_kind").is_in(_TRACER_KINDS)
    # A tracer row names only type and number: "/device:GPU:0".
    kind = r"/device:(\w+):"
    is_elsewhere = (
        is_tracer
        & (pl.col("home").str.extract(kind) == pl.col("device").str.extract(kind))
        & ~pl.col("home").str.ends_with(pl.col("device"))
    )
    moved = ops.filter(is_elsewhere)
    if moved.is_empty():
        return trace, None
    kernels = ops.filter(is_tracer)
    is_once = _is_once(kernels)
    rows = sorted(moved["device"].unique())
    homes_seen = sorted(moved["home"].unique())
    n_gpus = sum("/device:GPU:" in device for device in trace.devices)
    several = n_gpus > 1 and kernels["device"].n_unique() == 1
    why = (
        "TensorFlow up to about 1.13 calls the rows of every GPU so, and later ones "
        "where several logical devices share a physical one"
        if several
        else "tracer rows are numbered by CUDA, which need not be TensorFlow's numbers"
    )
    notice = Notice(
        "stream-rows-mislabelled",
        f"{moved.filter(is_once).height} of "
        f"{format_count(kernels.filter(is_once).height, 'kernel')} stand on rows "
        f"called {', '.join(map(short_device, rows))} although their ops ran on "
        f"{', '.join(map(short_device, homes_seen))}: {why}; each kernel is counted to "
        "the device of its op, and no finding rests on such a row",
    )
    device = pl.when(is_elsewhere).then("home").otherwise("device")
    repaired = ops.with_columns(device=device).select(trace.ops.columns)
    return dataclasses.replace(trace, ops=repaired), notice


def _is_once(kernels: pl.DataFrame) -> pl.Expr:
    """Return which rows of tracers hold each kernel and each copy once.

    Source:
        What stands on the row of a stream stands also on the one of all streams or of
        all copies (``StatSummarizer::ProcessStepStats`` leaves it out likewise).
    """
    of_all = pl.col("row").str.contains("(?:/stream:all|/memcpy)$")
    return of_all if kernels.select(of_all.any()).item() else pl.lit(value=True)


def _check_limit(trace: Trace) -> tuple[Trace, Notice | None]:
    most = trace.executed.group_by("step").len()["len"].max() or 0
    if most < COLLECTOR_LIMIT:  # type: ignore[operator]
        return trace, None
    notice = Notice(
        "collector-full",
        f"this trace holds {COLLECTOR_LIMIT:,} ops, where TensorFlow stops collecting: "
        "the rest of the step is missing; trace a smaller batch or fewer steps",
    )
    return trace, notice
