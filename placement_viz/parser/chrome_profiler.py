"""How the profiler of TensorFlow 2 and JAX writes a trace (``*.trace.json``).

It is an XSpace in Chrome's format: processes are its planes, threads their lines, and
arguments the stats. So the same is shown and the same is only counted; see
:mod:`~placement_viz.parser.xplane`.

Source:
    ``trace_events_to_json.cc`` and ``xplane_to_trace_events.cc`` in
    ``core/profiler/convert`` of TensorFlow; ``XProf`` writes a host's name before that
    of a process.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from placement_viz.model import Notice, RowKind
from placement_viz.names import canonical_device
from placement_viz.parser.chrome_dialect import Place, Places, marks_by_thread
from placement_viz.parser.chrome_events import Events, Facts, arguments, name_of
from placement_viz.parser.events import Event
from placement_viz.parser.marks import GROUP, Fact, Key, Marks, marks_of_counts
from placement_viz.parser.table import Row
from placement_viz.parser.xplane_planes import (
    COPIES,
    NAMED_BY,
    is_copy,
    label_of,
    lines_of_ops,
    op_behind,
    op_of_host,
    part_of_device,
)
from placement_viz.parser.xplane_steps import COUNT, STEPS

__all__ = ["Profiler", "is_profiler"]

_PROCESS = re.compile(r"(?:\S+ )?/(device|host):.*", re.DOTALL)
_FACTS = (*NAMED_BY, GROUP, COUNT)
_ONLY_CALLS = Notice(
    "only-calls",
    "this profile names no op, neither on a device nor on the host, so all that the "
    "host did is shown; profile with device and host tracing on to see ops",
)


def is_profiler(labels: Iterable[str]) -> bool:
    """Return whether this profiler wrote a trace with processes of these names."""
    return any(map(_PROCESS.fullmatch, labels))


class Profiler:
    """The profiler of TensorFlow 2 and JAX.

    Attributes:
        labels: Process to what it is called.
    """

    format = "tensorflow-profiler"
    schema = pl.Schema(
        {
            "name": pl.String(),
            "op_type": pl.String(),
            "label": pl.String(),
            "is_op": pl.Boolean(),
            "is_copy": pl.Boolean(),
            "group": pl.String(),
            "count": pl.String(),
        }
    )
    keys: tuple[str, ...] = ("is_op", "is_copy")
    advice = (
        "a profiler's trace records devices of kernels, not of logical ops, so no "
        "gradient is judged; `placement-viz capture` records a step that can be"
    )

    def __init__(self, labels: Mapping[Any, str]) -> None:
        """Take in what the processes are called."""
        self.labels = labels

    def facts(self, events: list[Event]) -> Facts:
        """Return what ran and for which op."""
        columns: dict[str, list[Any]] = {name: [] for name in self.schema}
        for event in events:
            facts = _facts(event)
            label = facts.pop("label")
            is_host = self._is_host(event.pid)
            named = op_of_host(label, facts) if is_host else op_behind(facts)
            name, op_type = named or (label, "")
            for column, value in zip(
                self.schema,
                (
                    name,
                    op_type,
                    label,
                    not is_host or named is not None,
                    not is_host and is_copy(label),
                    facts.get(GROUP),
                    facts.get(COUNT),
                ),
                strict=True,
            ):
                columns[column].append(value)
        return columns

    def places(
        self, events: Events, keys: pl.DataFrame
    ) -> tuple[Places, tuple[Notice, ...]]:
        """Return streams and copies of devices, and hosts with their ops.

        Where there is no op at all, what the host did is shown instead.
        """
        places = self._places(events, keys)
        if any(isinstance(place, Place) for place in places):
            return places, ()
        return self._places(events, keys, has_only_calls=True), (_ONLY_CALLS,)

    def marks(self, events: Events, ops: pl.DataFrame) -> Sequence[Marks]:
        """Return the steps that the profiler found, or that the program counted."""
        threads = list(events.threads)
        on_devices = [
            number
            for thread, number in events.threads.items()
            if events.thread_names.get(thread) == STEPS and not self._is_host(thread[0])
        ]
        found: dict[Any, list[tuple[Key, int]]] = collections.defaultdict(list)
        steps = ops.filter(pl.col("thread").is_in(on_devices))
        columns = ("thread", "start_ns", "group", "count", "label")
        for thread, start, group, count, label in steps.select(columns).iter_rows():
            told_by = ((GROUP, group), (COUNT, count), ("label", label))
            key = next((told, what) for told, what in told_by if what is not None)
            found[threads[thread][0]].append((key, start))
        if found:
            return marks_by_thread(events, found)
        on_hosts = [n for (pid, _), n in events.threads.items() if self._is_host(pid)]
        counted = ops.filter(
            pl.col("count").is_not_null() & pl.col("thread").is_in(on_hosts)
        )
        marks = marks_of_counts(counted.select("start_ns", "count").iter_rows())
        return [marks] * len(threads)

    def _places(
        self, events: Events, keys: pl.DataFrame, *, has_only_calls: bool = False
    ) -> Places:
        threads = list(events.threads)
        lines = self._lines_of_ops(events)
        places: list[Place | str] = []
        for number, is_op, copies in keys.select("thread", *self.keys).iter_rows():
            pid, tid = threads[number]
            kind, label = self._kind(pid), self.labels.get(pid, "")
            line = events.thread_names.get((pid, tid), str(tid))
            if kind == "host":
                is_shown = is_op or has_only_calls
                place = Place(label, Row(label, RowKind.OTHER))
                places.append(place if is_shown else "host event")
            elif kind != "device":
                places.append("other")
            elif line not in lines[pid]:
                places.append("derived event")
            else:
                part, row_kind = part_of_device(line)
                if copies:
                    part, row_kind = COPIES, RowKind.MEMCPY
                said = Row(canonical_device(label), row_kind)
                places.append(Place(f"{label}/{part}", said))
        return places

    def _lines_of_ops(self, events: Events) -> dict[Any, frozenset[str]]:
        """Return for each process its threads that show what ran, each op once."""
        lines: dict[Any, list[str]] = collections.defaultdict(list)
        for pid, tid in events.threads:
            lines[pid].append(events.thread_names.get((pid, tid), str(tid)))
        return {pid: lines_of_ops(names) for pid, names in lines.items()}

    def _is_host(self, pid: object) -> bool:
        return self._kind(pid) == "host"

    def _kind(self, pid: object) -> str:
        """Return ``device``, ``host`` or nothing."""
        return _kind_of(self.labels.get(pid, ""))


@functools.lru_cache(maxsize=1024)
def _kind_of(label: str) -> str:
    found = _PROCESS.fullmatch(label)
    return found[1] if found else ""


def _facts(event: Event) -> dict[str, Any]:
    """Return what an event says of its op, as an XSpace does, and its ``label``."""
    args = arguments(event)
    facts: dict[str, Fact] = {
        key: args[key] for key in _FACTS if isinstance(args.get(key), str | int)
    }
    for key in (GROUP, COUNT):
        if key in facts:
            facts[key] = str(facts[key])
    # What is displayed is shorter where there is a long name.
    name, whole = name_of(event), args.get("long_name")
    is_short = isinstance(whole, str) and whole
    facts["label"] = label_of(str(whole), name) if is_short else label_of(name, "")
    return facts
