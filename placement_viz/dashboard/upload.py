"""One upload: what is known of it, and what it must not do."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import pathlib
import secrets
from collections.abc import Iterable
from typing import Any

from placement_viz.dashboard.catalog import Limits
from placement_viz.dashboard.progress import Clock, Meter
from placement_viz.errors import PlacementVizError
from placement_viz.parser import Ahead
from placement_viz.units import format_bytes

__all__ = [
    "SLICE_BYTES",
    "Phase",
    "RefusedError",
    "Upload",
    "check_room",
    "check_slice",
    "new_upload",
    "state_of",
]

#: The largest slice; the page sends half of it at a time.
SLICE_BYTES = 16 * 2**20

#: How many slices may be here before one that precedes them; the page has one such.
_MOST_LATER = 4
_KEY_BYTES = 32
_NAME_LENGTH = 200


class RefusedError(PlacementVizError):
    """Something the server does not do for the browser.

    Attributes:
        status: The HTTP status that says so.
    """

    def __init__(self, message: str, status: int) -> None:
        """Keep the status beside the message."""
        super().__init__(message)
        self.status = status


class Phase(enum.Enum):
    """What happens to an upload."""

    SENDING = "sending"
    WAITING = "waiting"
    READING = "reading"
    JUDGING = "judging"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Return whether nothing follows."""
        return self in {Phase.DONE, Phase.FAILED}

    @property
    def has_file(self) -> bool:
        """Return whether its file is needed."""
        return self in {Phase.SENDING, Phase.WAITING, Phase.READING}


@dataclasses.dataclass(eq=False)
class Upload:
    """A file on its way to be a run.

    Attributes:
        key: Random, so that nobody finds another's; also the name of its file.
        name: What a person calls it, fit for one line.
        size: How many bytes it has.
        session: Whose it is.
        path: Where it lies.
        meter: How far the present phase has come.
        touched_s: When something last happened, by the clock.
        phase: What happens to it.
        sent: How many bytes are here, from the first on.
        later: Where slices begin and end that are here before one that precedes them.
        writing: Where slices begin that are being written.
        is_cancelled: Whether nobody wants it any more.
        label: What its run is called, once it is one.
        error: Why it is none, if so.
        ahead: Who reads it while it is sent, if anybody.
        is_ahead_tried: Whether somebody was asked to.
    """

    key: str
    name: str
    size: int
    session: str
    path: pathlib.Path
    meter: Meter
    touched_s: float
    phase: Phase = Phase.SENDING
    sent: int = 0
    later: dict[int, int] = dataclasses.field(default_factory=dict)
    writing: set[int] = dataclasses.field(default_factory=set)
    is_cancelled: bool = False
    label: str | None = None
    error: str | None = None
    ahead: Ahead | None = None
    is_ahead_tried: bool = False

    def take(self, begin: int, end: int) -> None:
        """Note that a slice is here, and with it maybe those that follow it."""
        self.later[begin] = end
        for each in sorted(self.later):
            if each <= self.sent:
                self.sent = max(self.sent, self.later.pop(each))

    def remove_file(self) -> None:
        """Remove its file, if it is there, and let nobody read it ahead."""
        self.stop_ahead()
        # Some systems keep a file that is open; then who has it open removes it.
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def stop_ahead(self) -> None:
        """Let nobody read it before it is there."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None:
            ahead.close()


def new_upload(name: str, size: int, session: str, clock: Clock) -> Upload:
    """Return an upload of which nothing is here yet, with a key of its own."""
    return Upload(
        key=secrets.token_urlsafe(_KEY_BYTES),
        name=_in_one_line(name),
        size=size,
        session=session,
        path=pathlib.Path(),
        meter=Meter(size, clock),
        touched_s=clock(),
    )


def state_of(upload: Upload) -> dict[str, Any]:
    """Return what the page shows of an upload.

    ``sent`` of ``size`` bytes are here; of ``total`` bytes, unpacked in the case of a
    zip, ``read`` have been read. ``rate`` is in bytes per second.
    """
    meter, phase = upload.meter, upload.phase
    is_moving = phase in {Phase.SENDING, Phase.READING}
    return {
        "id": upload.key,
        "name": upload.name,
        "phase": phase.value,
        "size": upload.size,
        "sent": upload.sent,
        "read": meter.done if phase is Phase.READING else 0,
        "total": meter.total,
        "rate": meter.rate if is_moving else None,
        "seconds_left": meter.seconds_left if is_moving else None,
        "label": upload.label,
        "error": upload.error,
    }


def check_room(upload: Upload, others: Iterable[Upload], limits: Limits) -> None:
    """Check that one more upload may begin.

    Args:
        upload: The new one.
        others: All there are, of every session.
        limits: What there may be.

    Raises:
        RefusedError: It may not.
    """
    if upload.size > limits.file_bytes:
        message = (
            f"{upload.name}: expected at most {format_bytes(limits.file_bytes)}, found "
            f"{format_bytes(upload.size)}; pack it with gzip, or trace fewer steps"
        )
        raise RefusedError(message, 413)
    others = list(others)
    pending = [other for other in others if not other.phase.is_over]
    n_own = sum(other.session == upload.session for other in pending)
    if n_own >= limits.pending or len(others) >= limits.uploads:
        message = (
            f"{upload.name}: expected at most {limits.pending} uploads at a time, "
            "found more; wait until one of them is open"
        )
        raise RefusedError(message, 429)
    held = sum(other.size for other in pending if other.phase.has_file)
    if held + upload.size > limits.disk_bytes:
        message = (
            f"{upload.name}: expected room for {format_bytes(upload.size)}, found that "
            "the server is busy with the files of others; try again later"
        )
        raise RefusedError(message, 507)


def check_slice(upload: Upload, offset: int, n_bytes: int) -> None:
    """Check that a slice is the one that comes next, or the one after it.

    Raises:
        RefusedError: It is another, or there is none to come.
    """
    if not 0 < n_bytes <= SLICE_BYTES:
        message = (
            f"{upload.name}: expected a slice of at most {format_bytes(SLICE_BYTES)}, "
            f"found {n_bytes:,} bytes; send less at a time"
        )
        raise RefusedError(message, 413 if n_bytes > 0 else 400)
    is_near = offset == upload.sent or (
        upload.sent < offset <= upload.sent + SLICE_BYTES
        and len(upload.later) < _MOST_LATER
    )
    is_written = offset in upload.writing
    if upload.phase is not Phase.SENDING or is_written or not is_near:
        found = "that one is being written" if is_written else f"{offset:,}"
        message = (
            f"{upload.name}: expected a slice from byte {upload.sent:,}, found "
            f"{found}; ask for the state of the upload"
        )
        raise RefusedError(message, 409)
    if offset + n_bytes > upload.size:
        message = (
            f"{upload.name}: expected {upload.size:,} bytes, as was declared, found "
            "more; send the file again"
        )
        raise RefusedError(message, 400)


def _in_one_line(name: str) -> str:
    shown = "".join(each if each.isprintable() else " " for each in name)
    return " ".join(shown.split())[:_NAME_LENGTH] or "upload"
