"""The lines of a timeline: a group for each device, in it a line for each lane."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import polars as pl

from placement_viz import names
from placement_viz.model import RowKind, Trace

__all__ = ["RowGroup", "Rows", "place_rows"]

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
    """

    label: str
    device: str
    top: float
    bottom: float


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Where everything is drawn, from top to bottom.

    Attributes:
        groups: One a device, in order.
        lines: ``device``, ``row``, ``lane``, ``row_kind`` and ``y``, the middle of
            the line; one row a line.
        top: Upper edge of the first group.
        bottom: Lower edge of the last one.
    """

    groups: tuple[RowGroup, ...]
    lines: pl.DataFrame
    top: float
    bottom: float


def place_rows(trace: Trace, top: float = 0.0, collapsed: Collection[str] = ()) -> Rows:
    """Return the lines for ``trace``, the first of which begins at ``top``.

    The lines of the devices in ``collapsed`` all lie at the same height.

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
    is_first = pl.col("group") != pl.col("group").shift(1, fill_value=-1)
    lines = (
        lines.with_columns(
            group=pl.col("home").replace_strict(order, return_dtype=pl.Int32)
        )
        .sort("group", "kind_order", "row", "lane")
        .with_columns(
            y=top
            - 0.5
            + (is_first | ~pl.col("home").is_in(list(collapsed))).cum_sum()
            + _GAP * pl.col("group").cast(float)
        )
    )
    groups = tuple(
        RowGroup(
            label=names.short_device(home, trace.devices),
            device=home,
            top=first - 0.5,
            bottom=last + 0.5,
        )
        for home, first, last in lines.group_by("home", maintain_order=True)
        .agg(first=pl.col("y").min(), last=pl.col("y").max())
        .iter_rows()
    )
    return Rows(groups, lines, top, groups[-1].bottom)


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
