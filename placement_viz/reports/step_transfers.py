"""What crossed between devices, in sentences."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis.step.avoidable import Avoidable
from placement_viz.analysis.step.crossings import known_bytes
from placement_viz.analysis.step.transfers import Transfers
from placement_viz.model import Trace
from placement_viz.names import short_device
from placement_viz.reports.step_links import link_sentences, rate
from placement_viz.units import format_bytes, format_count, format_share, format_us

__all__ = ["hiding_answer", "transfer_sentences"]

#: No more devices, or pairs of them, are told of; how many there are is.
_MOST = 3
_WAYS = {
    "copies": "that {what} were copied to or from {device}",
    "received": "that {device} waited for {what} from other processes",
    "waits": "at most that {what} were on their way to {device}",
}


def transfer_sentences(transfers: Transfers, trace: Trace) -> list[str]:
    """Return what crossed, what of it was needless, what it cost and what is not known.

    Args:
        transfers: What crossed in the step.
        trace: What ran in it.
    """
    devices = trace.devices
    return [
        *_crossed(transfers, trace),
        *_avoidable(transfers),
        *_hidden(transfers.hiding, devices, "tensors"),
        *_hidden(transfers.weights, devices, "values of variables"),
        *link_sentences(transfers.link),
        *_not_recorded(transfers, trace),
    ]


def hiding_answer(transfers: Transfers, trace: Trace) -> str:
    """Return whether transfers lie behind computing, device by device."""
    said = _hidden(transfers.hiding, trace.devices, "tensors")
    return " ".join(said) if said else "No transfer took a time that is known."


def _crossed(transfers: Transfers, trace: Trace) -> list[str]:
    tensors, devices = transfers.tensors, trace.devices
    if not trace.is_placed:
        return [
            "Which tensors crossed is not recorded: no row proves a placement.",
            *_copies(transfers.copies),
        ]
    said = []
    if tensors.is_empty():
        said.append("No tensor that is recorded crossed between devices.")
    else:
        pairs = transfers.matrix.filter(pl.col("n_tensors") > 0).sort(
            "n_bytes", "n_tensors", descending=True, nulls_last=True
        )
        parts = [_pair(row, devices) for row in pairs.head(_MOST).iter_rows(named=True)]
        more = f"; {_rest(pairs, 'pair')} of devices" if pairs.height > _MOST else ""
        count, size = _count(tensors, "tensor"), _size(tensors)
        said += [
            f"{count} crossed between devices, {size}: {'; '.join(parts)}{more}.",
            *_largest(tensors, trace),
        ]
    return [*said, *_control(transfers), *_copies(transfers.copies)]


def _pair(row: dict[str, object], devices: tuple[str, ...]) -> str:
    size = row["n_bytes"]
    n_tensors = row["n_tensors"]
    known = format_bytes(float(str(size))) if size is not None else "size not recorded"
    return (
        f"{n_tensors:,} from {short_device(str(row['source']), devices)} to "
        f"{short_device(str(row['destination']), devices)}, {known}"
    )


def _largest(tensors: pl.DataFrame, trace: Trace) -> list[str]:
    """Return which tensor was the largest, and when it was on its way."""
    sized = tensors.drop_nulls("n_bytes")
    if sized.is_empty():
        return []
    row = sized.sort("n_bytes", "producer", descending=[True, False]).row(0, named=True)
    name = trace.ops["name"][row["producer"]]
    source, destination = (
        short_device(row[end], trace.devices) for end in ("source", "destination")
    )
    when = "" if row["time_us"] is None else f", {_when(row)}"
    size = format_bytes(row["n_bytes"])
    way = f"from {source} to {destination}"
    return [f"The largest is what {name} made, {size} {way}{when}."]


def _when(row: dict[str, int]) -> str:
    if row["time_us"] < 0:
        return "which seems to have been taken before it was made"
    begin, end = row["start_us"], row["start_us"] + row["time_us"]
    between = f"between {format_us(begin)} and {format_us(end)}"
    if row["bytes_per_s"] is None:
        return f"somewhere {between}"
    return f"copied {between} at {rate(row['bytes_per_s'])}"


def _control(transfers: Transfers) -> list[str]:
    said = []
    n_handles = int((transfers.tensors["bytes_from"] == "handle").sum())
    if n_handles:
        what = format_count(n_handles, "is a handle", "are handles")
        said.append(f"Of the tensors {what} of resources, which are tiny.")
    if transfers.control.height:
        edges = _count(transfers.control, "control edge")
        said.append(f"{edges} crossed too: a message each way, and no bytes.")
    if transfers.n_loop_ops:
        ops = format_count(transfers.n_loop_ops, "op")
        said.append(
            f"{ops} ran only to repeat a loop on one more device (_cloop…), which "
            "costs a message each turn."
        )
    return said


def _copies(copies: pl.DataFrame) -> list[str]:
    """Return how many copies are recorded, and of how many the tensor is known."""
    is_received = pl.col("kind").eq_missing("received")
    parts = (
        (copies.filter(~is_received), "copy is recorded", "copies are recorded"),
        (copies.filter(is_received), "receipt is recorded", "receipts are recorded"),
    )
    return [
        f"{_count(some, one, several)}, {_durations(some)} of durations{_others(some)}."
        for some, one, several in parts
        if some.height
    ]


def _durations(copies: pl.DataFrame) -> str:
    return format_us(int(copies["duration_us"].sum()))


def _others(copies: pl.DataFrame) -> str:
    """Return of how many copies the tensor is not among those that crossed."""
    n = copies["transfer"].null_count()
    if not n:
        return ""
    who = "all of them" if n == copies.height else f"{n:,} of them"
    return f"; which tensor {who} moved is not recorded, or not certain"


def _avoidable(transfers: Transfers) -> list[str]:
    avoidable, tensors = transfers.avoidable, transfers.tensors
    gone, added = avoidable.gone, avoidable.added
    if not avoidable.n_ops:
        return []
    which = f"{gone.height:,} of {_count(tensors, 'tensor')} ({_part(gone, tensors)})"
    who = "No tensor" if gone.is_empty() else which
    said = (
        f"{who} crossed only because gradient ops were away from home; bringing "
        f"{_ops(avoidable)} home, and nothing else, would add "
        f"{_count(added, 'tensor')} ({_size(added)}){_net(avoidable)}."
    )
    control = avoidable.control_gone, avoidable.control_added
    if not any(control):
        return [said]
    gone_edges, added_edges = (format_count(n, "control edge") for n in control)
    return [said, f"{gone_edges} would go as well, and {added_edges} be added."]


def _ops(avoidable: Avoidable) -> str:
    return "it" if avoidable.n_ops == 1 else f"the {avoidable.n_ops:,}"


def _net(avoidable: Avoidable) -> str:
    net = avoidable.net_bytes
    if net is None:
        return "; what that is in bytes is not recorded"
    if not net:
        return ""
    return f": {format_bytes(abs(net))} {'less' if net > 0 else 'more'} would cross"


def _hidden(hiding: pl.DataFrame, devices: tuple[str, ...], what: str) -> list[str]:
    worst = hiding.sort(
        "exposed_us", "device", descending=[True, False], nulls_last=True
    )
    said = []
    for row in worst.head(_MOST).iter_rows(named=True):
        device = short_device(row["device"], devices)
        total = format_us(row["total_us"])
        way = f"Of {total} {_WAYS[row['evidence']].format(what=what, device=device)}"
        if row["hidden_us"] is None:
            said.append(f"{way}, it is not recorded how much it computed meanwhile.")
            continue
        share = format_share(row["hidden_us"], row["total_us"])
        exposed = format_us(row["exposed_us"])
        said.append(
            f"{way}, {format_us(row['hidden_us'])} ({share}) lay behind its computing "
            f"and {exposed} did not."
        )
    if hiding.height > _MOST:
        said.append(f"{_rest(hiding, 'device')} exposed less, or it is not recorded.")
    return said


def _not_recorded(transfers: Transfers, trace: Trace) -> list[str]:
    tensors = transfers.tensors
    said = []
    if n_unknown := tensors["bytes_from"].null_count():
        said.append(
            "The size of no tensor that crossed is recorded; `placement-viz capture` "
            "records sizes."
            if n_unknown == tensors.height
            else f"The size of {n_unknown:,} of the tensors is not recorded."
        )
    if n := transfers.n_unrecorded:
        came = format_count(n, "more tensor came", "more tensors came")
        said.append(
            f"{came} from ops that are not recorded, such as what a step is fed with."
        )
    n_waits = int(tensors["is_upper_bound"].sum())
    if tensors["time_us"].null_count():
        said.append("When tensors crossed is not recorded: this run has no times.")
    elif n_waits:
        whose = "any" if n_waits == tensors.height else f"{n_waits:,}"
        count = _count(tensors, "tensor")
        said.append(
            f"No copy is certain of {whose} of the {count}, so that "
            "times are from a producer's end to its first consumer's start: the most "
            "that a copy can have taken."
        )
    if n := int(tensors["clocks_differ"].sum()):
        seem = format_count(n, "tensor seems", "tensors seem")
        said.append(
            f"{seem} to have been taken before being made: the hosts' clocks differ."
        )
    return said if trace.is_placed else []


def _size(tensors: pl.DataFrame) -> str:
    """Return the size of tensors as far as it is known."""
    known = known_bytes(tensors)
    n_unknown = tensors["bytes_from"].null_count()
    if known is None:
        return "sizes not recorded" if n_unknown else "handles only"
    and_more = f" and {n_unknown:,} of unknown size" if n_unknown else ""
    return f"{format_bytes(known)}{and_more}"


def _part(some: pl.DataFrame, whole: pl.DataFrame) -> str:
    if known_bytes(whole) is None:
        return _size(whole)
    return f"{_size(some)} of {_size(whole)}"


def _count(table: pl.DataFrame, noun: str, plural: str | None = None) -> str:
    return format_count(table.height, noun, plural)


def _rest(table: pl.DataFrame, noun: str) -> str:
    return format_count(table.height - _MOST, f"more {noun}")
