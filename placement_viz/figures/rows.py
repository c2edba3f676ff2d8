"""The lines of a timeline: a group for each device, in it a line for each lane."""

from __future__ import annotations

import dataclasses

import polars as pl

from placement_viz import names
from placement_viz.model import RowKind, Trace

__all__ = ["RowGroup", "RowLabel", "Rows", "label_rows", "place_rows"]

#: Empty space between two groups, in lines.
_GAP = 0.6
_KIND_ORDER = {
    RowKind.EXECUTOR: 0,
    RowKind.RECEIVE: 1,
    RowKind.STREAM: 2,
    RowKind.MEMCPY: 3,
}


@dataclasses.dataclass(frozen=True)
class RowGroup:
    """The lines of one device.

    Attributes:
        label: The device as a person would call it.
        device: Its full canonical name; for a group of tracer rows whose device is
            not proved, the name they carry.
        top: Upper edge, in lines from the top of the picture.
        bottom: Lower edge.
        first: Position of its first line in :attr:`Rows.lines`.
        last: Position of its last line.
    """

    label: str
    device: str
    top: float
    bottom: float
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class RowLabel:
    """What is written beside some lines of a device.

    Attributes:
        device: The device as a person would call it; empty where that is said beside
            other lines.
        row: The row that the lines are of; empty for those that prove a placement.
        first: Position of the first line in :attr:`Rows.lines`.
        last: Position of the last one.
    """

    device: str
    row: str
    first: int
    last: int


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Where everything is drawn, from top to bottom.

    Attributes:
        groups: One a device, in order.
        lines: ``line`` (from 0 at the top), ``device``, ``row``, ``lane``,
            ``row_kind``, ``home`` (the device of the group), ``group`` (its position)
            and ``y``, the middle of the line; one row a line, in order.
    """

    groups: tuple[RowGroup, ...]
    lines: pl.DataFrame


def place_rows(trace: Trace) -> Rows:
    """Return the lines for ``trace``.

    Tracer rows come under the device they name when they name just one that ran
    ops, or when nothing else names devices; otherwise they stand alone, since they
    prove nothing.
    """
    homes = _homes(trace)
    lines = (
        trace.ops.select("device", "row", "lane", "row_kind")
        .unique()
        .with_columns(
            home=pl.col("device").replace_strict(homes, return_dtype=pl.String),
            kind_order=pl.col("row_kind").replace_strict(
                _KIND_ORDER, default=len(_KIND_ORDER), return_dtype=pl.Int32
            ),
        )
    )
    order = {
        home: position
        for position, home in enumerate(
            sorted(
                lines["home"].unique(),
                key=lambda d: (d not in trace.devices, names.device_order(d)),
            )
        )
    }
    lines = (
        lines.with_columns(
            group=pl.col("home").replace_strict(order, return_dtype=pl.Int32)
        )
        .sort("group", "kind_order", "row", "lane")
        .with_row_index("line")
        .with_columns(y=0.5 + pl.col("line") + _GAP * pl.col("group").cast(float))
    )
    groups = tuple(
        RowGroup(
            label=names.short_device(home, trace.devices),
            device=home,
            top=top - 0.5,
            bottom=bottom + 0.5,
            first=first,
            last=last,
        )
        for home, top, bottom, first, last in lines.group_by(
            "home", maintain_order=True
        )
        .agg(
            top=pl.col("y").min(),
            bottom=pl.col("y").max(),
            first=pl.col("line").min(),
            last=pl.col("line").max(),
        )
        .iter_rows()
    )
    return Rows(groups, lines)


def label_rows(rows: Rows) -> list[RowLabel]:
    """Return what is written beside the lines: devices, and rows of a tracer."""
    proved = rows.lines.filter(pl.col("row_kind") == RowKind.EXECUTOR)
    ends = pl.col("line").min().alias("first"), pl.col("line").max().alias("last")
    places = {
        home: (first, last)
        for home, first, last in proved.group_by("home").agg(*ends).iter_rows()
    }
    labels = [
        RowLabel(group.label, "", *places[group.device])
        for group in rows.groups
        if group.device in places
    ]
    alone = {g.device: g.label for g in rows.groups if g.device not in places}
    tracer = rows.lines.filter(pl.col("row_kind") != RowKind.EXECUTOR)
    for row, kind, home, first, last in (
        tracer.group_by("row", "row_kind", "home", maintain_order=True)
        .agg(*ends)
        .iter_rows()
    ):
        name = "received" if kind == RowKind.RECEIVE else row.rpartition("/")[2]
        # Nothing else names a device of which nothing but this is known.
        device = alone[home] if home in alone and names.device_type(home) else ""
        labels.append(RowLabel(device, name, first, last))
    return labels


def _homes(trace: Trace) -> dict[str, str]:
    """Return each device that a row names to the group it is drawn in."""
    tracer = trace.ops.filter(pl.col("row_kind") != RowKind.EXECUTOR)
    written = tracer["device"].unique().to_list()
    homes = {device: device for device in (*trace.devices, *written)}
    # "/host:CPU" is a process with its threads, and no device.
    named = [device for device in written if names.device_type(device)]
    for device in named:
        matches = [d for d in trace.devices if names.device_matches(device, d)]
        # All stream rows of an old trace are called GPU 0, whatever they show.
        if len(matches) == 1 and not _is_mislabelled(trace, named):
            homes[device] = matches[0]
    return homes


def _is_mislabelled(trace: Trace, named: list[str]) -> bool:
    gpus = [device for device in trace.devices if "/device:GPU:" in device]
    return len(gpus) > 1 and len(named) == 1
