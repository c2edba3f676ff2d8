"""Files of the server: read once, when somebody first opens them, for all who ask."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import threading
from collections.abc import Callable

from placement_viz import Analysis, load_run
from placement_viz.analysis import survey_run
from placement_viz.analysis.apart import LARGE_OPS, judge_run
from placement_viz.dashboard.memory import trim_memory
from placement_viz.dashboard.progress import Meter
from placement_viz.model import Run

__all__ = ["Reading", "ServerFiles"]

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False)
class Reading:
    """A file of the server that is being read, because somebody opened it.

    Attributes:
        label: What its run is called.
        meter: How far it has been read.
        is_judging: Whether it has been read, and is now judged.
        is_shown: Whether it can be looked at while it is judged.
        sessions: Who waits for it; a session twice when it asked twice.
        judged: Set when it has been judged, or cannot be.
        turn: Held while it is read, so that it is read once for all who wait.
    """

    label: str
    meter: Meter = dataclasses.field(default_factory=lambda: Meter(0))
    is_judging: bool = False
    is_shown: bool = False
    sessions: list[str] = dataclasses.field(default_factory=list)
    judged: threading.Event = dataclasses.field(default_factory=threading.Event)
    turn: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class ServerFiles:
    """Runs of the server's own files, and who waits for them."""

    def __init__(
        self, prepare: Callable[[Analysis], object], *, cache: bool = True
    ) -> None:
        """Wait for the first.

        Args:
            prepare: Called with what somebody will look at next.
            cache: Whether large files may be stored in the user's cache.
        """
        self._prepare = prepare
        self._cache = cache
        self._read: dict[str, Analysis] = {}
        self._readings: dict[str, Reading] = {}
        self._lock = threading.Lock()
        # One at a time: who looks at a run needs the other cores.
        self._judging = threading.Lock()

    def readings(self, session: str) -> tuple[Reading, ...]:
        """Return what is being read because ``session`` opened it."""
        with self._lock:
            readings = self._readings.values()
            return tuple(each for each in readings if session in each.sessions)

    def wait(self, label: str) -> None:
        """Wait until a run that can be looked at has been judged, or cannot be."""
        with self._lock:
            reading = self._readings.get(label)
        if reading:
            reading.judged.wait()

    def load(self, path: pathlib.Path, label: str, session: str) -> Analysis:
        """Return the run of a file; of a large one a first look, until it is judged.

        Args:
            path: The file; always the same for a label.
            label: What its run is called.
            session: Who asks.

        Raises:
            TraceError: The file cannot be used.
        """
        with self._lock:
            if label in self._read:
                reading = self._readings.get(label)
                if reading and session not in reading.sessions:
                    reading.sessions.append(session)
                return self._read[label]
            reading = self._readings.setdefault(label, Reading(label))
            reading.sessions.append(session)
        try:
            # Not under the lock: a large file must not hold up the other sessions.
            with reading.turn:
                if label not in self._read:
                    reading.is_judging = False
                    run = load_run(
                        path, cache=self._cache, on_progress=reading.meter.reach
                    )
                    reading.is_judging = True
                    self._read[label] = self._look_at(run, reading)
                return self._read[label]
        finally:
            # Who looks at a run that is being judged still waits for the verdicts.
            if not reading.is_shown:
                self._leave(reading, session)

    def _look_at(self, run: Run, reading: Reading) -> Analysis:
        """Return what is told of a run first: of a large one, what needs no time."""
        if run.trace.ops.height < LARGE_OPS:
            return judge_run(run)
        reading.is_shown = True
        # A daemon, as no one waits for the verdicts when the server ends.
        threading.Thread(target=self._judge, args=(run, reading), daemon=True).start()
        return survey_run(run)

    def _judge(self, run: Run, reading: Reading) -> None:
        """Judge a run that can be looked at already; raises nothing."""
        analysis = None
        try:
            with reading.turn:
                pass  # until it can be looked at
            # Drawn while the page prepares for it.
            self._prepare(self._read[reading.label])
            with self._judging:
                analysis = judge_run(run)
            self._prepare(analysis)
        except Exception:  # noqa: BLE001 - the thread must say that it is done
            _LOG.exception("a run could not be judged")
        with reading.turn, self._lock:
            if analysis is None:
                # Read anew when it is next opened.
                self._read.pop(reading.label, None)
            else:
                self._read[reading.label] = analysis
            self._readings.pop(reading.label, None)
        # Of the first look nothing is needed any more.
        trim_memory()
        reading.judged.set()

    def _leave(self, reading: Reading, session: str) -> None:
        """Note that a session does not wait for a reading any more."""
        with self._lock:
            reading.sessions.remove(session)
            if not reading.sessions and self._readings.get(reading.label) is reading:
                del self._readings[reading.label]
