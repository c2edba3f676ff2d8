"""Files that a person sends from the browser, in slices, until they are runs.

A file lies in a private folder of this process while it is sent and read, under a name
of our own. Threads read it (``readers``), so that no request waits for that. Who
cancels has the file removed at once.
"""

from __future__ import annotations

import atexit
import pathlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable

from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.progress import Clock
from placement_viz.dashboard.readers import Readers
from placement_viz.dashboard.upload import (
    Phase,
    RefusedError,
    Upload,
    check_room,
    check_slice,
    new_upload,
)

__all__ = ["Uploads"]

_SWEEP_S = 30.0


class Uploads:
    """The uploads of all sessions, from their first slice to their run."""

    def __init__(self, catalog: Catalog, clock: Clock = time.monotonic) -> None:
        """Hold nothing yet.

        Args:
            catalog: Where the runs go; its limits hold here too.
            clock: Gives the time in seconds.
        """
        self._catalog = catalog
        self._limits = catalog.limits
        self._clock = clock
        self._lock = threading.Lock()
        self._folder: pathlib.Path | None = None
        self._uploads: dict[str, Upload] = {}
        self._readers = Readers(catalog, self._lock, clock)
        self._is_watched = False

    def create(self, name: str, size: int, session: str) -> Upload:
        """Begin an upload.

        Args:
            name: What the browser calls the file; only ever shown.
            size: How many bytes will come.
            session: Whose it is.

        Raises:
            RefusedError: It is too large, or there is too much already.
        """
        self.sweep()
        with self._lock:
            self._make_room()
            upload = new_upload(name, size, session, self._clock)
            check_room(upload, self._uploads.values(), self._limits)
            try:
                upload.path = self._private_folder() / upload.key
                upload.path.touch(mode=0o600, exist_ok=False)
            except OSError as error:
                raise _no_disk(upload.name, error) from error
            self._uploads[upload.key] = upload
            if not size:
                self._readers.add(upload)
            self._watch()
        return upload

    def find(self, key: str, session: str) -> Upload:
        """Return the upload of ``session`` that has this key.

        Raises:
            RefusedError: The session has none.
        """
        with self._lock:
            upload = self._uploads.get(key)
        if upload is None or upload.session != session:
            message = "no such upload in this session; send the file again"
            raise RefusedError(message, 404)
        return upload

    def write(
        self, upload: Upload, offset: int, n_bytes: int, pieces: Iterable[bytes]
    ) -> None:
        """Add a slice; after the last one the file is read.

        Args:
            upload: What :meth:`find` returned.
            offset: Where the slice begins in the file.
            n_bytes: How large it is.
            pieces: Its bytes. If they are fewer, none of them counts.

        Raises:
            RefusedError: It is not the slice that comes next, or does not fit.
        """
        with self._lock:
            check_slice(upload, offset, n_bytes)
            upload.writing.add(offset)
        written = 0
        try:
            written = _write(upload, offset, pieces)
        except OSError as error:
            if not upload.is_cancelled:
                raise _no_disk(upload.name, error) from error
        finally:
            with self._lock:
                self._settle(upload, offset, n_bytes if written == n_bytes else 0)
        if upload.is_cancelled:
            raise RefusedError(f"{upload.name}: this upload was cancelled", 404)
        if written != n_bytes:
            message = (
                f"{upload.name}: expected {n_bytes:,} bytes in this slice, found "
                f"{written:,}; send it again"
            )
            raise RefusedError(message, 409)

    def cancel(self, upload: Upload) -> None:
        """End an upload, whatever it is at, and forget it."""
        with self._lock:
            self._drop(upload)

    def sweep(self) -> None:
        """Forget uploads of which no slice came for long, and ends nobody asked for."""
        with self._lock:
            latest = self._clock() - self._limits.stale_s
            for upload in list(self._uploads.values()):
                is_still = upload.phase.is_over or upload.phase is Phase.SENDING
                if is_still and not upload.writing and upload.touched_s <= latest:
                    self._drop(upload)

    def close(self) -> None:
        """End everything and remove the folder."""
        with self._lock:
            for upload in list(self._uploads.values()):
                self._drop(upload)
            folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _settle(self, upload: Upload, offset: int, n_bytes: int) -> None:
        """Note how much of ``upload`` is here after a slice, or after none."""
        upload.writing.discard(offset)
        upload.touched_s = self._clock()
        if upload.is_cancelled:
            upload.remove_file()
            return
        if not n_bytes or upload.phase is not Phase.SENDING:
            return
        upload.take(offset, offset + n_bytes)
        upload.meter.reach(upload.sent)
        self._readers.begin(upload)
        if upload.ahead is not None:
            upload.ahead.reach(upload.sent)
        if upload.sent == upload.size:
            self._readers.add(upload)

    def _drop(self, upload: Upload) -> None:
        upload.is_cancelled = True
        self._uploads.pop(upload.key, None)
        self._readers.forget(upload)
        upload.remove_file()

    def _make_room(self) -> None:
        """Forget the oldest that are over, when there are too many to remember."""
        n_more = len(self._uploads) - self._limits.uploads + 1
        over = [each for each in self._uploads.values() if each.phase.is_over]
        for upload in over[: max(0, n_more)]:
            self._drop(upload)

    def _private_folder(self) -> pathlib.Path:
        if self._folder is None:
            self._folder = pathlib.Path(tempfile.mkdtemp(prefix="placement_viz-"))
            atexit.register(self.close)
        return self._folder

    def _watch(self) -> None:
        """See to it that stale uploads go even if no further request comes."""
        if not self._is_watched:
            self._is_watched = True
            threading.Thread(target=self._keep_sweeping, daemon=True).start()

    def _keep_sweeping(self) -> None:
        while True:
            time.sleep(_SWEEP_S)
            self.sweep()
            with self._lock:
                if not self._uploads:
                    self._is_watched = False
                    return


def _write(upload: Upload, offset: int, pieces: Iterable[bytes]) -> int:
    written = 0
    with upload.path.open("r+b") as file:
        file.seek(offset)
        for piece in pieces:
            if upload.is_cancelled:
                break
            file.write(piece)
            written += len(piece)
    return written


def _no_disk(name: str, error: OSError) -> RefusedError:
    reason = (error.strerror or str(error)).lower()
    message = f"{name}: expected room on the server's disk, found: {reason}"
    return RefusedError(message, 507)
