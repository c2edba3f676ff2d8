"""The runs a person can open: samples, files opened at start, and own uploads.

Uploads belong to the browser session that sent them. All lookups are by label in
tables made here; a label never becomes part of a path. Analyses are frozen, so all
threads and sessions may share them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import threading
import weakref
from collections.abc import Iterable, Sequence

from placement_viz import Analysis, compare_runs
from placement_viz.analysis import Comparison
from placement_viz.dashboard.memory import trim_memory
from placement_viz.dashboard.pictures import Picture
from placement_viz.dashboard.server_files import Reading, ServerFiles
from placement_viz.errors import PlacementVizError, UnknownNameError

__all__ = ["Catalog", "Limits", "Listing"]


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much a server keeps; what was used longest ago goes first.

    Attributes:
        runs: Uploads of one session.
        sessions: Sessions that have uploads.
        table_bytes: Size of the tables of all uploads together.
        file_bytes: One upload, as it is sent.
        unpacked_bytes: Content of one upload, unpacked.
        pending: Uploads of one session that are not open yet.
        uploads: Uploads of all sessions that are remembered.
        disk_bytes: Files of all uploads together, as declared.
        stale_s: How long an upload may wait for its next slice.
    """

    runs: int = 8
    sessions: int = 64
    table_bytes: int = 2 * 2**30
    file_bytes: int = 2 * 2**30
    unpacked_bytes: int = 8 * 2**30
    pending: int = 8
    uploads: int = 256
    disk_bytes: int = 8 * 2**30
    stale_s: float = 600.0


@dataclasses.dataclass(frozen=True)
class Listing:
    """The labels of what one session can open, in order."""

    uploads: tuple[str, ...]
    opened: tuple[str, ...]
    samples: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return all labels."""
        return (*self.uploads, *self.opened, *self.samples)


#: Comparisons that are kept; each holds on to two runs.
_MOST_COMPARISONS = 3

_Uploads = collections.OrderedDict[str, Analysis]


class Catalog:
    """Label to analysis, with uploads apart for each session."""

    def __init__(
        self,
        samples: Sequence[pathlib.Path] = (),
        runs: Sequence[pathlib.Path] = (),
        limits: Limits | None = None,
        *,
        cache: bool = True,
    ) -> None:
        """List the files; they are read when somebody first opens them.

        Args:
            samples: Files that the start page offers.
            runs: Files that the person who started the server named.
            limits: How much to keep.
            cache: Whether large files may be stored in the user's cache; an upload
                never is.
        """
        self.limits = limits or Limits()
        taken: set[str] = set()
        self._opened = _labelled(runs, taken)
        self._samples = _labelled(samples, taken)
        self._reserved = frozenset(taken)
        self._files = ServerFiles(self.prepare, cache=cache)
        self._uploads: collections.OrderedDict[str, _Uploads] = (
            collections.OrderedDict()
        )
        # Of an analysis that is gone nobody can ask for the picture.
        self._pictures: weakref.WeakKeyDictionary[Analysis, Picture] = (
            weakref.WeakKeyDictionary()
        )
        self._comparisons: collections.OrderedDict[
            tuple[Analysis, Analysis], Comparison
        ] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._drawing = threading.Lock()

    def listing(self, session: str) -> Listing:
        """Return the labels of what ``session`` can open."""
        with self._lock:
            uploads = tuple(self._uploads.get(session, ()))
        return Listing(uploads, tuple(self._opened), tuple(self._samples))

    def load(self, label: str, session: str) -> Analysis:
        """Return the run called ``label``, analysed.

        Of a large one it is a first look, until it has been judged.

        Raises:
            UnknownNameError: The session has no such run.
            TraceError: The file behind the label cannot be used.
        """
        with self._lock:
            uploads = self._uploads.get(session)
            if uploads and label in uploads:
                self._uploads.move_to_end(session)
                uploads.move_to_end(label)
                return uploads[label]
        path = self._opened.get(label) or self._samples.get(label)
        if path is None:
            message = (
                f"no run named {label!r} in this session; uploads are only kept for "
                "the browser that sent them, so upload the file again"
            )
            raise UnknownNameError(message)
        return self._files.load(path, label, session)

    def load_judged(self, label: str, session: str) -> Analysis:
        """Return the run called ``label``, as :meth:`load` does once it is judged.

        Raises:
            UnknownNameError: The session has no such run.
            TraceError: The file behind the label cannot be used.
        """
        analysis = self.load(label, session)
        if not analysis.is_judged:
            self._files.wait(label)
        return self.load(label, session)

    def picture(self, label: str, session: str) -> Picture:
        """Return how the run called ``label`` is drawn.

        Raises:
            UnknownNameError: The session has no such run.
            TraceError: The file behind the label cannot be used.
        """
        return self._picture(self.load(label, session))

    def draw(self, label: str, session: str) -> None:
        """Prepare the picture of a run, if it is still there."""
        with contextlib.suppress(UnknownNameError):
            self.prepare(self.load(label, session))

    def preload(self) -> None:
        """Read what the page shows first, before somebody opens it."""
        for label in list(self._opened)[:1]:
            # Who opens it is told why it cannot be read.
            with contextlib.suppress(PlacementVizError):
                self.prepare(self.load(label, ""))

    def prepare(self, analysis: Analysis) -> None:
        """Draw a run before somebody asks, and give back what that took."""
        self._picture(analysis).levels()
        trim_memory()

    def _picture(self, analysis: Analysis) -> Picture:
        with self._drawing:
            found = self._pictures.get(analysis)
            if found is None:
                found = self._pictures[analysis] = Picture(analysis)
            return found

    def comparison(self, baseline: str, candidate: str, session: str) -> Comparison:
        """Return what moved between two runs; the last few are kept.

        Raises:
            UnknownNameError: The session has no such run.
            TraceError: The file behind a label cannot be used.
        """
        pair = (
            self.load_judged(baseline, session),
            self.load_judged(candidate, session),
        )
        with self._lock:
            found = self._comparisons.pop(pair, None)
        if found is None:
            found = compare_runs(*pair)
        with self._lock:
            self._comparisons[pair] = found
            while len(self._comparisons) > _MOST_COMPARISONS:
                self._comparisons.popitem(last=False)
        return found

    def readings(self, session: str) -> tuple[Reading, ...]:
        """Return what is being read because ``session`` opened it."""
        return self._files.readings(session)

    def add(self, filename: str, analysis: Analysis, session: str) -> str:
        """Keep an upload and return its label, which no other run has.

        Args:
            filename: What the browser calls the file; only ever shown.
            analysis: Its run, analysed.
            session: Whose it is.
        """
        with self._lock:
            uploads = self._uploads.setdefault(session, collections.OrderedDict())
            label = _free_label(filename or "upload", {*uploads, *self._reserved})
            uploads[label] = analysis
            self._uploads.move_to_end(session)
            self._evict(uploads)
        return label

    def judge(self, label: str, analysis: Analysis, session: str) -> None:
        """Put the whole analysis of an upload in the place of the first look at it.

        Nothing happens if the upload is gone meanwhile.
        """
        with self._lock:
            uploads = self._uploads.get(session)
            if uploads and label in uploads:
                uploads[label] = analysis
        # Of the first look nothing is needed any more.
        trim_memory()

    def remove(self, label: str, session: str) -> None:
        """Forget an upload, if it is there."""
        with self._lock:
            uploads = self._uploads.get(session)
            if uploads and label in uploads:
                del uploads[label]

    def _evict(self, newest: _Uploads) -> None:
        """Drop what was used longest ago until all limits hold."""
        while len(newest) > self.limits.runs:
            newest.popitem(last=False)
        while len(self._uploads) > self.limits.sessions or (
            self._kept_bytes() > self.limits.table_bytes
            and (len(self._uploads) > 1 or len(newest) > 1)
        ):
            session, uploads = next(iter(self._uploads.items()))
            uploads.popitem(last=False)
            if not uploads:
                del self._uploads[session]

    def _kept_bytes(self) -> int:
        return sum(
            int(table.estimated_size())
            for uploads in self._uploads.values()
            for analysis in uploads.values()
            for table in (analysis.run.trace.ops, analysis.colocation.gradients)
        )


def _labelled(
    paths: Iterable[pathlib.Path], taken: set[str]
) -> dict[str, pathlib.Path]:
    found = {}
    paths = list(paths)
    stems = [path.name.removesuffix(".gz").removesuffix(".json") for path in paths]
    for path, stem in zip(paths, stems, strict=True):
        # capture gives all its files the same name, and the folder tells them apart.
        folder = path.absolute().parent.name
        wanted = f"{folder}/{stem}" if stems.count(stem) > 1 and folder else stem
        label = _free_label(wanted, taken)
        taken.add(label)
        found[label] = path
    return found


def _free_label(wanted: str, taken: Iterable[str]) -> str:
    known = set(taken)
    label, n = wanted, 1
    while label in known:
        n += 1
        label = f"{wanted} ({n})"
    return label
