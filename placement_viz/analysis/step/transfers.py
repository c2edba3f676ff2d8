"""What crossed between devices, how long that took and what of it was needless."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz import names
from placement_viz.analysis.step.avoidable import Avoidable, find_avoidable, places_of
from placement_viz.analysis.step.copies import find_copies
from placement_viz.analysis.step.crossings import (
    CROSSINGS_SCHEMA,
    count_unrecorded,
    cross,
    tensor_edges,
    with_sizes,
)
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.hiding import computing, find_hiding
from placement_viz.analysis.step.links import Link, find_link

__all__ = ["MATRIX_SCHEMA", "TRANSFERS_SCHEMA", "Transfers", "find_transfers"]

#: Columns of :attr:`Transfers.tensors`: those of ``CROSSINGS_SCHEMA`` but
#: ``is_control``, and
#:
#: ``is_weight``       whether it is the value of a variable, as it is read
#: ``start_us``        when its copies began, and without a copy when its producer
#:                     ended; null in a run without times, as is ``time_us``
#: ``time_us``         from the begin of its first copy to the end of the last; without
#:                     a copy from the producer's end to the first consumer's start,
#:                     and negative if that seems to have begun before
#: ``is_upper_bound``  whether no copy of it is recorded: it took at most the time
#: ``clocks_differ``   whether the time is negative, between two tasks
#: ``bytes_per_s``     size over time; null without a copy or a size
TRANSFERS_SCHEMA = pl.Schema(
    {
        **{k: v for k, v in CROSSINGS_SCHEMA.items() if k != "is_control"},
        "is_weight": pl.Boolean(),
        "start_us": pl.Int64(),
        "time_us": pl.Int64(),
        "is_upper_bound": pl.Boolean(),
        "clocks_differ": pl.Boolean(),
        "bytes_per_s": pl.Float64(),
    }
)

#: Columns of :attr:`Transfers.matrix`, one row for two devices between which something
#: crossed, in the order of ``Trace.devices``.
#:
#: ``source``, ``destination``  the devices
#: ``n_tensors``  number of tensors
#: ``n_bytes``    size of those whose size is known; null when it is of none
#: ``n_unknown``  number of tensors without a known size, handles aside
#: ``n_handles``  number of handles of resources among the tensors
#: ``n_control``  number of control edges, which have no bytes
#: ``copy_us``    sum of the times of the tensors with a copy; null when none has one
MATRIX_SCHEMA = pl.Schema(
    {
        "source": pl.String,
        "destination": pl.String,
        "n_tensors": pl.UInt32,
        "n_bytes": pl.Int64,
        "n_unknown": pl.UInt32,
        "n_handles": pl.UInt32,
        "n_control": pl.UInt32,
        "copy_us": pl.Int64,
    }
)

_READS = r"^_?Read(?:Variable|Variables)Op$"
_VARIABLE = r"^Variable(?:V2)?$"
# Partitioning repeats the control flow of a loop on each device that it spans.
_LOOP = r"(?:^|/)_cloop"


@dataclasses.dataclass(frozen=True, eq=False)
class Transfers:
    """What crossed between devices in a step.

    Attributes:
        tensors: A table with the columns of :data:`TRANSFERS_SCHEMA`, each tensor once
            to a device, however many ops take it there; by producer.
        control: Control edges that crossed, as in ``CROSSINGS_SCHEMA``; no bytes.
        copies: The copies that are recorded, as in ``COPIES_SCHEMA``.
        matrix: A table with the columns of :data:`MATRIX_SCHEMA`.
        avoidable: What crossed only for gradient ops that were away from home.
        hiding: How much of the copies lay behind computing, as in ``HIDING_SCHEMA``;
            waits for devices without a copy.
        weights: The same for values of variables alone, by destination.
        link: The link between host and cards; None when nothing is known of it.
        n_loop_ops: How often an op ran that only repeats a loop's control flow on one
            more device.
        n_unrecorded: Number of tensors that came to a device from an op that is not
            recorded, such as what the step was fed with; they are in no table.
    """

    tensors: pl.DataFrame
    control: pl.DataFrame
    copies: pl.DataFrame
    matrix: pl.DataFrame
    avoidable: Avoidable
    hiding: pl.DataFrame
    weights: pl.DataFrame
    link: Link | None
    n_loop_ops: int
    n_unrecorded: int


def find_transfers(flow: Flow) -> Transfers:
    """Return what crossed between the devices of a step."""
    edges = tensor_edges(flow)
    places = places_of(flow)
    crossed = with_sizes(flow.run, cross(edges, places))
    is_control = pl.col("is_control")
    sent = crossed.filter(~is_control).drop("is_control")
    control = crossed.filter(is_control)
    copies = find_copies(flow, sent)
    tensors = _with_times(flow, sent, copies)
    busy = computing(flow)
    is_loop = flow.trace.executed["name"].str.contains(_LOOP)
    return Transfers(
        tensors=tensors,
        control=control,
        copies=copies,
        matrix=_matrix(flow, tensors, control),
        avoidable=find_avoidable(flow, edges, places, crossed),
        hiding=find_hiding(_on_the_way(tensors, copies), busy),
        weights=find_hiding(_intervals(tensors.filter("is_weight")), busy),
        link=find_link(flow.run, copies),
        n_loop_ops=int(is_loop.sum()),
        n_unrecorded=count_unrecorded(flow),
    )


def _with_times(flow: Flow, sent: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    ops = flow.trace.ops
    made = ops.select(made_us=pl.col("start_us") + pl.col("duration_us"))
    # Ops are in order of start, so the first consumer is the one that began first.
    taken = ops["start_us"].gather(sent["consumers"].list.first())
    has_times = bool((ops["duration_us"] > 0).any())
    end_us = pl.col("start_us") + pl.col("duration_us")
    copied = (
        copies.drop_nulls("transfer")
        .group_by("transfer")
        .agg(copied_us=pl.col("start_us").min(), copy_end_us=end_us.max())
    )
    timed = (
        sent.with_row_index("transfer")
        .with_columns(
            is_weight=_is_weight(flow, sent["producer"]),
            made_us=made["made_us"].gather(sent["producer"]),
            taken_us=taken,
        )
        .join(copied, on="transfer", how="left", maintain_order="left")
        .with_columns(
            is_upper_bound=pl.col("copied_us").is_null(),
            start_us=pl.coalesce("copied_us", "made_us"),
            time_us=pl.coalesce("copy_end_us", "taken_us")
            - pl.coalesce("copied_us", "made_us"),
        )
        .with_columns(
            pl.when(pl.lit(has_times)).then(pl.col("start_us", "time_us")),
        )
    )
    return _judge_times(timed).select(TRANSFERS_SCHEMA.names()).cast(TRANSFERS_SCHEMA)


def _judge_times(timed: pl.DataFrame) -> pl.DataFrame:
    devices = {*timed["source"].unique(), *timed["destination"].unique()}
    tasks = {device: names.task_of(device) for device in devices}
    source, destination = (
        pl.col(end).replace_strict(tasks, return_dtype=pl.String)
        for end in ("source", "destination")
    )
    time_us = pl.col("time_us")
    return timed.with_columns(
        clocks_differ=(time_us < 0) & (source != destination),
        bytes_per_s=pl.when(~pl.col("is_upper_bound") & (time_us > 0)).then(
            pl.col("n_bytes") * 1_000_000 / time_us
        ),
    )


def _is_weight(flow: Flow, producers: pl.Series) -> pl.Series:
    """Return which executions read a variable, as an op for it or a copy of it."""
    types = flow.trace.ops["op_type"]
    reads = types.str.contains(_READS) | types.str.contains(_VARIABLE)
    edges = flow.edges.filter(
        pl.col("consumer").is_in(producers.implode()) & ~pl.col("is_control")
    )
    is_read = (types.gather(edges["consumer"]) == "Identity") & (
        types.gather(edges["producer"]).str.contains(_VARIABLE)
    )
    read = edges.filter(is_read)["consumer"]
    return reads.gather(producers) | producers.is_in(read.implode())


def _matrix(flow: Flow, tensors: pl.DataFrame, control: pl.DataFrame) -> pl.DataFrame:
    pair = ["source", "destination"]
    size, bytes_from = pl.col("n_bytes"), pl.col("bytes_from")
    copy_us = pl.when(~pl.col("is_upper_bound")).then("time_us")
    sums = tensors.group_by(pair).agg(
        n_tensors=pl.len(),
        n_bytes=pl.when(size.count() > 0).then(size.sum()),
        n_unknown=bytes_from.null_count(),
        n_handles=(bytes_from == "handle").sum(),
        copy_us=pl.when(copy_us.count() > 0).then(copy_us.sum()),
    )
    order = pl.Enum(flow.trace.devices)
    return (
        sums.join(
            control.group_by(pair).agg(n_control=pl.len()),
            on=pair,
            how="full",
            coalesce=True,
        )
        .with_columns(
            pl.col("n_tensors", "n_unknown", "n_handles", "n_control").fill_null(0)
        )
        .sort(pl.col(pair).cast(order))
        .select(MATRIX_SCHEMA.names())
        .cast(MATRIX_SCHEMA)
    )


def _on_the_way(tensors: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Return when each device copied, or waited if none of its copies is recorded."""
    is_received = pl.col("kind") == "received"
    copied = copies.select(
        "device",
        "start_us",
        evidence=pl.when(is_received).then("kind").otherwise(pl.lit("copies")),
        time_us="duration_us",
    )
    waits = _intervals(
        tensors.filter(
            "is_upper_bound",
            ~pl.col("destination").is_in(copies["device"].implode()),
        )
    )
    return pl.concat([copied, waits.select(copied.columns)])


def _intervals(tensors: pl.DataFrame) -> pl.DataFrame:
    evidence = (
        pl.when("is_upper_bound").then(pl.lit("waits")).otherwise(pl.lit("copies"))
    )
    return tensors.select(
        "start_us", "time_us", device="destination", evidence=evidence
    )
