"""How PyTorch's profiler writes a trace (Kineto).

What ran on a graphics card says on which one and on which of its streams; a device is a
process and a stream a thread. Of the host the operators are shown; calls of the runtime
and of Python around them are counted.

Source:
    ``libkineto/src/output_json.cpp`` and ``libkineto/include/ActivityType.h``;
    categories in capitals are those of its first year.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from placement_viz.model import Notice, RowKind
from placement_viz.names import canonical_device
from placement_viz.parser.chrome_dialect import Place, Places, marks_by_thread
from placement_viz.parser.chrome_events import Events, Facts, arguments, name_of
from placement_viz.parser.events import Event
from placement_viz.parser.marks import Key, Marks
from placement_viz.parser.table import Row
from placement_viz.parser.xplane_planes import COPIES

__all__ = ["Kineto", "is_kineto"]

_KERNELS = frozenset({"kernel", "Kernel"})
_COPIES = frozenset({"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"})
_HOST_OPS = frozenset({"cpu_op", "Operator"})
_ANNOTATIONS = frozenset({"user_annotation", "gpu_user_annotation"})
#: What is only counted, by category; any other is called after its category.
_CALLED = {
    **dict.fromkeys(_ANNOTATIONS, "annotation"),
    **dict.fromkeys(("cuda_sync", "Trace"), "profiler's own event"),
    "overhead": "profiler's own event",
    "python_function": "call in Python",
    "Runtime": "runtime call",
}
_RUNTIME = re.compile(r"\w+_(?:runtime|driver)")
#: Categories that no other program is known to have.
_ONLY_HERE = frozenset({"cpu_op", "gpu_memcpy", "gpu_memset", "cuda_runtime"})

_STEP = re.compile(r"ProfilerStep#\d+")


def is_kineto(categories: Collection[Any], *, has_head: bool) -> bool:
    """Return whether PyTorch's profiler wrote a trace.

    Args:
        categories: Those of its complete events.
        has_head: Whether it says beside them what this profiler does.
    """
    known = _KERNELS | _COPIES | _HOST_OPS | _ANNOTATIONS if has_head else _ONLY_HERE
    return not known.isdisjoint(categories)


class Kineto:
    """PyTorch's profiler."""

    format = "kineto"
    schema = pl.Schema(
        {
            "name": pl.String(),
            "op_type": pl.String(),
            "kind": pl.String(),
            "device": pl.String(),
            "stream": pl.String(),
        }
    )
    keys: tuple[str, ...] = ("kind", "device", "stream")
    advice = (
        "a profile of PyTorch records devices of kernels, not where its program wants "
        "ops, and has no gradients of TensorFlow, so none is judged; `placement-viz "
        "capture` records a step of TensorFlow that can be"
    )

    def facts(self, events: list[Event]) -> Facts:
        """Return what ran, as what kind of thing and where."""
        columns: dict[str, list[Any]] = {name: [] for name in self.schema}
        for event in events:
            kind, name = event.cat or "", name_of(event)
            is_copy = kind in _COPIES
            args = arguments(event) if is_copy or kind in _KERNELS else None
            columns["name"].append(name)
            columns["op_type"].append(name if is_copy else "")
            columns["kind"].append(kind)
            columns["device"].append(_number(args, "device", event.pid))
            columns["stream"].append(_number(args, "stream", event.tid))
        return columns

    def places(
        self, events: Events, keys: pl.DataFrame
    ) -> tuple[Places, tuple[Notice, ...]]:
        """Return streams, copies of a device, and the processes with operators."""
        pids = [pid for pid, _ in events.threads]
        kinds = [
            (pids[thread], kind, device, stream)
            for thread, kind, device, stream in keys.iter_rows()
        ]
        rows = events.rows_of(
            dict.fromkeys(pid for pid, kind, *_ in kinds if kind in _HOST_OPS)
        )
        places: list[Place | str] = []
        for pid, kind, device, stream in kinds:
            if kind in _HOST_OPS:
                places.append(Place(rows[pid], Row(rows[pid], RowKind.OTHER)))
            elif kind in _KERNELS or kind in _COPIES:
                places.append(_place_on(device, stream if kind in _KERNELS else None))
            elif _RUNTIME.fullmatch(kind):
                places.append("runtime call")
            else:
                places.append(_CALLED.get(kind, kind or "other"))
        return places, ()

    def marks(self, events: Events, ops: pl.DataFrame) -> Sequence[Marks]:
        """Return where steps of the profiler start, on the host and on each device.

        What runs on a device is late: where the profiler shows the steps there too,
        they are those of its kernels.
        """
        is_step = pl.col("kind").is_in(list(_ANNOTATIONS)) & pl.col(
            "name"
        ).str.starts_with("ProfilerStep#")
        pids = [pid for pid, _ in events.threads]
        found: dict[Any, list[tuple[Key, int]]] = collections.defaultdict(list)
        steps = ops.filter(is_step).select("thread", "name", "start_ns")
        for thread, name, start in steps.iter_rows():
            if _STEP.fullmatch(name):
                found[pids[thread]].append((("label", name), start))
        return marks_by_thread(events, found)


def _place_on(device: str, stream: str | None) -> Place:
    name = f"/device:GPU:{device}"
    part = COPIES if stream is None else f"stream:{stream}"
    kind = RowKind.MEMCPY if stream is None else RowKind.STREAM
    return Place(f"{name}/{part}", Row(canonical_device(name), kind))


def _number(args: Any, key: str, otherwise: object) -> str | None:
    """Return a number of a device or a stream; None where there are no arguments."""
    if args is None:
        return None
    value = args.get(key)
    return str(value if isinstance(value, int | str) else otherwise)
