"""A run as its timeline is drawn: ops on lines, at every level of detail."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Iterable, Sequence

import polars as pl

from placement_viz.analysis import Analysis
from placement_viz.dashboard.counters import BusyDevices
from placement_viz.dashboard.frames import run_frame
from placement_viz.dashboard.step_lines import StepLines
from placement_viz.dashboard.windows import CLASS_TYPE, Levels, build_levels
from placement_viz.errors import UnknownNameError
from placement_viz.figures import OpClass, op_classes, place_rows
from placement_viz.model import RowKind
from placement_viz.names import possible_producers, producer_of
from placement_viz.units import format_count

__all__ = ["DrawnOp", "Picture"]

#: Pyramids that are kept of one run: one for each set of classes switched off.
_MOST_LEVELS = 3
#: The most that a search lists, and the most inputs and consumers of an op.
_MOST_FOUND = 5_000
_MOST_LINKS = 200
_MOST_TYPES = 12


@dataclasses.dataclass(frozen=True)
class DrawnOp:
    """One op: a row of :attr:`Picture.ops`, and what its verdict rests on."""

    op: int
    name: str
    op_type: str
    device: str
    line: int
    start_us: int
    duration_us: int
    op_class: str
    forward_op: str | None
    expected_device: str | None
    evidence: str | None


class Picture:
    """Where the ops of a run are drawn, and what can be asked about them.

    Attributes:
        rows: Its lines.
        frame: What its ops are drawn into.
        devices: Those of the run, for names as short as they can be.
        step: The lines that the step adds to the picture.
    """

    def __init__(self, analysis: Analysis) -> None:
        """Draw the ops of ``analysis``, when they are first asked for."""
        self._run = analysis.run
        self._colocation = analysis.colocation
        self.rows = place_rows(analysis.run.trace)
        self.frame = run_frame(analysis, self.rows)
        self.devices = analysis.run.trace.devices
        self.step = StepLines(analysis)
        self._levels: collections.OrderedDict[frozenset[str], Levels] = (
            collections.OrderedDict()
        )
        # All who look at a run want its picture at once, and it is made once.
        self._lock = threading.RLock()

    @property
    def ops(self) -> pl.DataFrame:
        """Return where each op is drawn, in order of start.

        Columns are ``op``, ``name``, ``op_type``, ``device``, ``row_kind``,
        ``start_us``, ``duration_us``, ``line`` (from 0 at the top) and ``op_class``.
        """
        with self._lock:
            return self._ops

    @functools.cached_property
    def _ops(self) -> pl.DataFrame:
        ops = self._run.trace.ops
        place = ("device", "row", "lane", "row_kind")
        # Columns of the trace are shared with it; joins would copy them.
        lines = ops.select(place).join(
            self.rows.lines.select(*place, "line"),
            on=place,
            how="left",
            maintain_order="left",
        )
        return ops.select(
            "name", "op_type", "device", "row_kind", "start_us", "duration_us"
        ).with_columns(
            op=pl.int_range(pl.len(), dtype=pl.Int32),
            line=lines["line"].cast(pl.Int32),
            op_class=op_classes(self._run, self._colocation).cast(CLASS_TYPE),
        )

    def levels(self, hidden: Iterable[str] = ()) -> Levels:
        """Return the levels of detail without the classes in ``hidden``."""
        key = frozenset(hidden) & {each.value for each in OpClass}
        with self._lock:
            if key not in self._levels:
                drawn = self._ops.select(
                    "line", "start_us", "duration_us", "op_class", "op"
                )
                if key:
                    drawn = drawn.filter(~pl.col("op_class").is_in(sorted(key)))
                self._levels[key] = build_levels(drawn, self.rows.lines.height)
                while len(self._levels) > _MOST_LEVELS:
                    self._levels.popitem(last=False)
            self._levels.move_to_end(key)
            return self._levels[key]

    def op(self, op: int) -> DrawnOp:
        """Return one op.

        Args:
            op: Position in the trace.

        Raises:
            UnknownNameError: There is no such op.
        """
        if not 0 <= op < self.ops.height:
            message = f"no op number {op}: there are {self.ops.height:,}"
            raise UnknownNameError(message)
        found = self.ops.drop("row_kind").row(op, named=True)
        verdict = ("forward_op", "expected_device", "evidence")
        judged = self._colocation.gradients.filter(pl.col("op") == op).select(verdict)
        known = judged.row(0, named=True) if judged.height else dict.fromkeys(verdict)
        return DrawnOp(**found, **known)

    def misplaced_beside(self, moment_us: float, op: int, step: int) -> int | None:
        """Return the misplaced op before or after; None when there is none.

        Args:
            moment_us: Where to begin when no op is chosen.
            op: The chosen op; -1 for none.
            step: 1 for the next, -1 for the one before.
        """
        found = self._misplaced
        if 0 <= op < self.ops.height:
            place = found.search_sorted(op, side="right" if step > 0 else "left")
        else:
            starts = self.ops["start_us"].gather(found)
            place = starts.search_sorted(moment_us, side="left")
        place = int(place) - (step < 0)
        return int(found[place]) if 0 <= place < len(found) else None

    def forward_of(self, op: int) -> int | None:
        """Return the forward op of a gradient op; None when it did not run.

        Of several executions it is the last that began before, else the first.
        """
        this = self.op(op)
        found = self._executions(this.forward_op or "")
        if found.is_empty():
            return None
        starts = self.ops["start_us"].gather(found)
        n_before = int((starts <= this.start_us).sum())
        return int(found[max(n_before - 1, 0)])

    def _executions(self, name: str) -> pl.Series:
        """Return the ops of a name that are proved to have run, in order of start."""
        is_it = (pl.col("name") == name) & (pl.col("row_kind") == RowKind.EXECUTOR)
        return self.ops.filter(is_it)["op"]

    def search(self, pattern: str) -> tuple[int, list[int]]:
        """Return how many ops have a name or type that fits, and the first of them.

        Args:
            pattern: A regular expression; case makes no difference.

        Raises:
            UnknownNameError: It is no regular expression.
        """
        # In time that is linear in the text, whatever the expression.
        expression = f"(?i){pattern}"
        fits = pl.col("name").str.contains(expression)
        fits |= pl.col("op_type").str.contains(expression)
        try:
            found = self.ops.filter(fits)["op"]
        except pl.exceptions.ComputeError as error:
            message = f"{pattern!r} is no regular expression"
            raise UnknownNameError(message) from error
        return len(found), found.head(_MOST_FOUND).to_list()

    def links(self, op: int) -> dict[str, list[int]]:
        """Return the ops that an op took something from, and those that took from it.

        Of several executions of an input it is the last that began before the op, or
        with it: each turn of a loop takes from its own turn.
        """
        this = self.op(op)
        tensors = self._run.trace.ops["inputs"][op]
        known = self._known_of(tensors)
        makers = self.ops.filter(
            pl.col("name").is_in({producer_of(each, known) for each in tensors})
            & (pl.col("row_kind") == RowKind.EXECUTOR)
            & (pl.col("start_us") <= this.start_us)
            & (pl.col("op") != op)
        )
        inputs = makers.group_by("name").agg(pl.col("op").last())["op"].sort()
        return {
            "inputs": inputs.head(_MOST_LINKS).to_list(),
            "consumers": self._consumers(this)[:_MOST_LINKS],
        }

    def _consumers(self, this: DrawnOp) -> list[int]:
        """Return the ops that have this execution of ``this`` as an input."""
        turns = self._executions(this.name)
        starts = self.ops["start_us"].gather(turns).to_numpy()
        numbers = turns.to_list()
        text = pl.element().str
        mentions_it = text.starts_with(this.name) | text.starts_with(f"^{this.name}")
        # Few do, and the inputs of all ops would be the most that a run ever takes.
        mentions = (
            self._run.trace.ops.select("start_us", "inputs")
            .with_row_index("op")
            .filter(pl.col("inputs").list.eval(mentions_it).list.any())
            .explode("inputs")
        )
        known = self._known_of(mentions["inputs"].unique())
        found: dict[int, None] = {}
        for other, start_us, tensor in mentions.iter_rows():
            if producer_of(tensor, known) == this.name:
                last = int(starts.searchsorted(start_us, side="right")) - 1
                last -= last >= 0 and numbers[last] == other
                if last >= 0 and numbers[last] == this.op:
                    found[other] = None
        return list(found)

    def sums(
        self,
        window_us: tuple[float, float],
        lines: Sequence[int],
        hidden: Iterable[str] = (),
        *,
        is_whole: bool = False,
    ) -> dict[str, object]:
        """Return what ran in a part of the picture, by verdict and by type.

        Args:
            window_us: First and last moment.
            lines: The lines that are looked at.
            hidden: Classes that are left out.
            is_whole: Only ops that began and ended in it, and not what reaches in.
        """
        start, end = pl.col("start_us"), pl.col("start_us") + pl.col("duration_us")
        first, last = (start, end) if is_whole else (end, start)
        seen = self.ops.filter(
            (first >= window_us[0])
            & (last <= window_us[1])
            & pl.col("line").is_in(lines)
            & ~pl.col("op_class").is_in(list(hidden))
        )

        def by(column: str) -> list[tuple[str, int, int]]:
            found = seen.group_by(column).agg(
                n=pl.len(), us=pl.col("duration_us").sum()
            )
            return found.sort("us", column, descending=True).head(_MOST_TYPES).rows()

        return {
            "title": format_count(seen.height, "op"),
            "total_us": int(seen["duration_us"].sum()),
            "by_class": by("op_class"),
            "by_type": by("op_type"),
            "n_types": seen["op_type"].n_unique(),
        }

    @functools.cached_property
    def busy(self) -> BusyDevices:
        """Return how many devices are busy at a time."""
        # A GPU is busy while a kernel or a copy runs, and not only while it is started.
        rows = {*self._run.trace.device_rows, RowKind.STREAM, RowKind.MEMCPY}
        groups = dict(self.rows.lines.select("line", "group").iter_rows())
        group = pl.col("line").replace_strict(groups, return_dtype=pl.Int32)
        ran = self.ops.select("row_kind", "start_us", "duration_us", device=group)
        return BusyDevices(ran.filter(pl.col("row_kind").is_in(list(rows))))

    def _known_of(self, tensors: Iterable[str]) -> frozenset[str]:
        """Return the names of ops that may have made one of ``tensors``."""
        names = {name for each in tensors for name in possible_producers(each)}
        is_there = self.ops["name"].is_in(list(names))
        return frozenset(self.ops["name"].filter(is_there))

    @functools.cached_property
    def _misplaced(self) -> pl.Series:
        """Return the misplaced ops, in order of start."""
        return self.ops.filter(pl.col("op_class") == OpClass.MISPLACED.value)["op"]
