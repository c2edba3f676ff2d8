"""What the timeline asks the server while somebody moves in it.

Dash's callbacks carry figures; a window is asked for several times a second and is a
few kB of numbers, so it has addresses of its own. Each answer is for the browser
session that asks, and for a run that this session may see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flask
import msgspec
import numpy as np
import polars as pl

from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.pictures import Picture
from placement_viz.dashboard.sessions import session_id
from placement_viz.dashboard.windows import Segments, coalesce
from placement_viz.errors import PlacementVizError, UnknownNameError
from placement_viz.names import short_device
from placement_viz.units import format_us

__all__ = ["PREFIX", "add_timeline_routes"]

#: Where the addresses begin, within the app.
PREFIX = "_timeline"
_MOST_PIXELS = 8_000
#: More than these are put together where they touch.
_MOST_SEGMENTS = 4_000
#: An op as wide as this has room for its name.
_LABELLED_PIXELS = 28
_MOST_LABELS = 300
_LONGEST_LABEL = 120
_LONGEST_PATTERN = 500
_MOST_DIGITS = 10


def add_timeline_routes(
    server: flask.Flask, catalog: Catalog, prefix: str = "/"
) -> None:
    """Answer what the timeline asks about the runs of ``catalog``.

    Args:
        server: The server of the app.
        catalog: The runs.
        prefix: Path of the app on the server; begins and ends with a slash.
    """
    routes = flask.Blueprint("timeline", __name__)

    def picture() -> Picture:
        return catalog.picture(flask.request.args.get("run", ""), session_id())

    def add(name: str, answer: Callable[[Picture], object]) -> None:
        routes.add_url_rule(f"/{name}", name, lambda: _json(answer(picture())))

    def twin() -> flask.Response:
        """Return the op of the other run of a comparison that does the same."""
        query, session = flask.request.args, session_id()
        labels = query.get("baseline", ""), query.get("candidate", "")
        side = int(_whole("side") != 0)
        pairs = catalog.comparison(labels[0], labels[1], session).pairs
        columns = ("baseline_op", "candidate_op")
        found = pairs.filter(pl.col(columns[side]) == _whole("op"))
        other = found[columns[1 - side]].to_list()
        picture = catalog.picture(labels[1 - side], session)
        return _json(_told(picture, other[0] if other else None))

    routes.add_url_rule("/twin", "twin", twin)
    for name, answer in _ANSWERS.items():
        add(name, answer)
    routes.add_url_rule("/window", "window", lambda: _window(picture()))
    routes.register_error_handler(
        PlacementVizError, lambda error: (_json({"error": str(error)}), 404)
    )
    server.register_blueprint(routes, url_prefix=f"{prefix}{PREFIX}")


def _frame(picture: Picture) -> object:
    return picture.frame


def _op(picture: Picture) -> object:
    return _told(picture, _whole("op"))


def _beside(picture: Picture) -> object:
    """Return the misplaced op before or after."""
    step = -1 if _whole("step") < 0 else 1
    return _told(picture, picture.misplaced_beside(_number("at"), _whole("op"), step))


def _forward(picture: Picture) -> object:
    return _told(picture, picture.forward_of(_whole("op")))


def _links(picture: Picture) -> object:
    ends = picture.links(_whole("op"))
    return {kind: [_told(picture, op) for op in ops] for kind, ops in ends.items()}


def _search(picture: Picture) -> object:
    pattern = flask.request.args.get("for", "")[:_LONGEST_PATTERN]
    try:
        total, ops = picture.search(pattern)
    except UnknownNameError as error:
        # An answer like another: the address is right, and a typing error is no fault
        # that a browser should complain about.
        return {"error": str(error)}
    return {"total": total, "ops": ops}


def _sums(picture: Picture) -> object:
    span = _number("from"), _number("to")
    lines = _numbers("lines")
    is_whole = "whole" in flask.request.args
    return picture.sums(span, lines, _hidden(), is_whole=is_whole)


def _busy(picture: Picture) -> object:
    """Return how many devices are busy, part by part of a window."""
    start_us, end_us = _number("from"), _number("to")
    if not start_us < end_us:
        flask.abort(400)
    n_parts = min(max(_whole("px"), 1), _MOST_PIXELS)
    values = picture.busy.mean(start_us, end_us, n_parts)
    return {"of": picture.busy.n_devices, "busy": values.round(2).tolist()}


def _counters(picture: Picture) -> object:
    """Return what is counted over time, part by part of a window."""
    start_us, end_us = _number("from"), _number("to")
    if not start_us < end_us:
        flask.abort(400)
    n_parts = min(max(_whole("px"), 1), _MOST_PIXELS)
    return picture.step.counters(start_us, end_us, n_parts)


def _path(picture: Picture) -> object:
    """Return the critical path through a window, a list for each column."""
    lines = picture.ops["line"]
    path = picture.step.path(_number("from"), _number("to"), lines)
    return path.to_dict(as_series=False)


_ANSWERS: Mapping[str, Callable[[Picture], object]] = {
    "beside": _beside,
    "busy": _busy,
    "counters": _counters,
    "forward": _forward,
    "frame": _frame,
    "links": _links,
    "op": _op,
    "path": _path,
    "search": _search,
    "sums": _sums,
}


def _window(picture: Picture) -> flask.Response:
    """Return the segments of a window: a header in JSON, then a column after another.

    A column has 4 bytes an entry: op, line and class as integers in two of them,
    begin and end as floats, in parts of the window. Without a window it is all.
    """
    if {"from", "to"} & flask.request.args.keys():
        start_us, end_us = _number("from"), _number("to")
    else:
        start_us, end_us = picture.frame.whole_us
    n_pixels = min(max(_whole("px"), 1), _MOST_PIXELS)
    # Narrower than a nanosecond is no window, and no number of pixels fits into it.
    if end_us - start_us < 1e-3:
        flask.abort(400)
    levels = picture.levels(_hidden())
    segments = levels.cut(start_us, end_us, n_pixels)
    if len(segments) > _MOST_SEGMENTS:
        segments = coalesce(segments, (start_us, end_us), n_pixels)
    n_ops = levels.count(start_us, end_us)
    n_shown = int((segments.op >= 0).sum())
    head = msgspec.json.encode(
        {
            "n": len(segments),
            "shown": n_shown,
            "merged": n_ops - n_shown,
            "labels": _labels(picture, segments, (end_us - start_us) / n_pixels),
        }
    )
    head += b" " * (-len(head) % 4)
    width_us = end_us - start_us
    body = b"".join(
        (
            len(head).to_bytes(4, "little"),
            head,
            segments.op.astype("<i4").tobytes(),
            (segments.line * 256 + segments.op_class).astype("<i4").tobytes(),
            _parts(segments.start_us - start_us, width_us),
            _parts(segments.end_us - start_us, width_us),
        )
    )
    response = flask.Response(body, mimetype="application/octet-stream")
    response.headers["Cache-Control"] = "no-store"
    return response


def _parts(distances_us: Any, width_us: float) -> bytes:
    """Return moments in parts of the window; what is far outside is cut off."""
    parts = np.clip(distances_us / width_us, -2, 3)
    return bytes(parts.astype("<f4").tobytes())


def _labels(picture: Picture, segments: Segments, pixel_us: float) -> dict[int, str]:
    """Return the names of ops with room for one, the widest if there are many."""
    width_us = segments.end_us - segments.start_us
    is_wide = (segments.op >= 0) & (width_us >= _LABELLED_PIXELS * pixel_us)
    wide = np.flatnonzero(is_wide)
    if len(wide) > _MOST_LABELS:
        wide = wide[np.argsort(-width_us[wide], kind="stable")[:_MOST_LABELS]]
    ops = segments.op[wide]
    last = pl.col("name").str.split("/").list.last()
    named = picture.ops.select("name", "op_type")[ops].select(
        pl.when(pl.col("op_type") == "")
        .then(last)
        .otherwise(pl.format("{} · {}", last, "op_type"))
        .str.head(_LONGEST_LABEL)
    )
    return dict(zip(ops.tolist(), named.to_series().to_list(), strict=True))


def _told(picture: Picture, op: int | None) -> dict[str, object] | None:
    """Return what is drawn of an op, and what the pointer is told about it."""
    if op is None:
        return None
    found = picture.op(op)
    device = short_device(found.device, picture.devices)
    begin, length = format_us(found.start_us), format_us(found.duration_us)
    told = [f"{found.op_type} on {device}: {length} at {begin}"]
    if found.forward_op:
        told.append(f"gradient of {found.forward_op}")
    if found.expected_device:
        home = short_device(found.expected_device, picture.devices)
        told.append(f"{found.op_class}: belongs on {home} ({found.evidence})")
    keys = ("op", "name", "line", "start_us", "duration_us", "op_class")
    return {**{key: getattr(found, key) for key in keys}, "told": told}


def _hidden() -> list[str]:
    """Return the classes of ops that are switched off."""
    return flask.request.args.get("hide", "").split(",")


def _number(name: str) -> float:
    value = flask.request.args.get(name, type=float)
    if value is None or not np.isfinite(value) or abs(value) > 1e15:
        flask.abort(400)
    return value


def _numbers(name: str) -> list[int]:
    texts = flask.request.args.get(name, "").split(",")
    if not all(text.isdecimal() and len(text) < _MOST_DIGITS for text in texts):
        flask.abort(400)
    return [int(text) for text in texts]


def _whole(name: str) -> int:
    value = flask.request.args.get(name, type=int)
    if value is None or abs(value) > 1 << 40:
        flask.abort(400)
    return value


def _json(value: object) -> flask.Response:
    return flask.Response(msgspec.json.encode(value), mimetype="application/json")
