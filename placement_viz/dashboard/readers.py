"""Threads that make runs of what was uploaded, so that no request waits for that."""

from __future__ import annotations

import collections
import contextlib
import logging
import threading

from placement_viz.analysis import survey_run
from placement_viz.analysis.apart import judge_run
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.progress import Clock, Meter
from placement_viz.dashboard.upload import Phase, Upload
from placement_viz.errors import PlacementVizError
from placement_viz.model import Run
from placement_viz.parser import load_named, read_ahead

__all__ = ["Readers"]

_LOG = logging.getLogger(__name__)
#: How many read at once: each keeps a core busy and needs some hundred MB.
_MOST = 2
#: What is here sooner is read faster when it is here: a process takes time to start.
_LEAST_LEFT_S = 1.0


class _CancelledError(Exception):
    """Nobody waits for this run any more."""


class Readers:
    """A queue of uploads, and the threads that read them.

    A reading that is cancelled ends with its next piece; one that is judged already
    is judged to its end, and the result forgotten.
    """

    def __init__(self, catalog: Catalog, lock: threading.Lock, clock: Clock) -> None:
        """Wait for the first.

        Args:
            catalog: Where the runs go.
            lock: Held by whoever changes an upload or the queue.
            clock: Gives the time in seconds.
        """
        self._catalog = catalog
        self._lock = lock
        self._clock = clock
        self._queue: collections.deque[Upload] = collections.deque()
        self._sent: list[Upload] = []
        self._n_threads = 0

    def begin(self, upload: Upload) -> None:
        """Read ``upload`` while it is sent, if that is of use and one more may be read.

        Call it with the lock held, when some of it is there.
        """
        is_long = (upload.meter.seconds_left or 0) >= _LEAST_LEFT_S
        has_room = self._n_threads + len(self._sent) < _MOST
        if is_long and has_room and not upload.is_ahead_tried:
            upload.is_ahead_tried = True
            upload.ahead = read_ahead(upload.path, upload.size)
            if upload.ahead is not None:
                self._sent.append(upload)

    def add(self, upload: Upload) -> None:
        """Read ``upload`` when it is its turn; call it with the lock held."""
        upload.phase = Phase.WAITING
        self._queue.append(upload)
        if upload in self._sent:
            self._sent.remove(upload)
        if self._n_threads < _MOST:
            self._n_threads += 1
            if self._n_threads + len(self._sent) > _MOST:
                # What is there goes before what is still on its way.
                other = max(self._sent, key=lambda each: each.size - each.sent)
                self._sent.remove(other)
                other.stop_ahead()
            # A daemon, as no one waits for a reading when the server ends.
            threading.Thread(target=self._read_all, daemon=True).start()

    def forget(self, upload: Upload) -> None:
        """Take ``upload`` out of the queue; call it with the lock held."""
        with contextlib.suppress(ValueError):
            self._queue.remove(upload)
        if upload in self._sent:
            self._sent.remove(upload)

    def _read_all(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._n_threads -= 1
                    return
                upload = self._queue.popleft()
                upload.phase = Phase.READING
                done = upload.ahead.done if upload.ahead is not None else 0
                upload.meter = Meter(upload.size, self._clock, done=done)
            self._read(upload)

    def _read(self, upload: Upload) -> None:
        """Make a run of ``upload``, or say why it is none; raises nothing."""
        error = ""
        try:
            self._open(upload)
        except _CancelledError:
            pass
        except PlacementVizError as known:
            error = str(known)
        except Exception:  # noqa: BLE001 - whatever happens, the thread goes on
            if not upload.is_cancelled:
                _LOG.exception("an upload could not be read")
            error = f"{upload.name}: could not be read: a fault in placement_viz itself"
        with self._lock:
            upload.remove_file()
            upload.touched_s = self._clock()
            if error:
                upload.error = error
                upload.phase = Phase.FAILED

    def _open(self, upload: Upload) -> None:
        def tell(done: int, total: int) -> None:
            if upload.is_cancelled:
                raise _CancelledError
            upload.meter.reach(done, total)

        run = load_named(
            upload.path,
            source=upload.name,
            on_progress=tell,
            limit_bytes=self._catalog.limits.unpacked_bytes,
            ahead=upload.ahead,
        )
        label = self._catalog.add(upload.name, survey_run(run), upload.session)
        try:
            self._judge(upload, run, label)
        except BaseException:
            self._catalog.remove(label, upload.session)
            raise

    def _judge(self, upload: Upload, run: Run, label: str) -> None:
        """Judge a run that can be looked at already."""
        with self._lock:
            if upload.is_cancelled:
                raise _CancelledError
            upload.remove_file()
            upload.label = label
            upload.phase = Phase.JUDGING
        # Drawn while the page prepares for it.
        self._catalog.draw(label, upload.session)
        analysis = judge_run(run)
        self._catalog.prepare(analysis)
        with self._lock:
            if upload.is_cancelled:
                raise _CancelledError
            self._catalog.judge(label, analysis, upload.session)
            upload.phase = Phase.DONE
