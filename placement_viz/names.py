"""The grammar of TensorFlow's names: devices, rows, tensors and gradient scopes.

Nothing here knows a run; every function maps text to text. What a name *means* in
a given step is decided in :mod:`placement_viz.analysis`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Iterator

__all__ = [
    "COPY_SUFFIX",
    "GRADIENT_SCOPE",
    "canonical_device",
    "copied_from",
    "device_matches",
    "device_order",
    "device_type",
    "gradient_boundaries",
    "is_full_device",
    "possible_producers",
    "producer_and_slot",
    "producer_of",
    "rewritten_from",
    "scopes_of",
    "short_device",
    "task_of",
]

#: What graph partitioning appends to the name of what it copies to another device; the
#: last of the three is between processes (``core/graph/graph_partition.cc``).
COPY_SUFFIX = r"(?:(?:/ctrl)?/_|_S)\d+$"

#: The scope that ``tf.gradients`` opens unless it is given another name.
GRADIENT_SCOPE = re.compile(r"gradients(?:_\d+)?")

_JOB = re.compile(r"/job:([^/]+)")
# Longer numbers than these are no numbers: Python reads at most 4,300 digits.
_REPLICA = re.compile(r"/replica:(\d{1,9})(?!\d)")
_TASK = re.compile(r"/task:(\d{1,9})(?!\d)")
# "/device:GPU:0" today, "/gpu:0" up to TensorFlow 1.2 and in many programs.
_DEVICE = re.compile(r"/(?:device:)?([A-Za-z][A-Za-z_]*):(\d{1,9}|\*)(?=$|/)")
_NOT_A_TYPE = frozenset({"job", "replica", "task", "stream", "context"})
# No gradient of a gradient of a gradient … goes further, nor does any scope; a name
# that seems to is not worth the time to read.
_MOST_ORDERS = 8
_MOST_SCOPES = 64
_MOST_DIGITS = 9
_BOUNDARY = re.compile(r"_grad(?:_\d+)?(?=/|$)")
_RECV_SUFFIX = re.compile(r"(?:/ctrl)?/_\d+$")
_ANY_RECV_SUFFIX = re.compile(COPY_SUFFIX)


@functools.lru_cache(maxsize=4096)
def canonical_device(device: str) -> str:
    """Return ``device`` in TensorFlow's present spelling.

    The parts that are there are kept and none is invented, so a partial request
    stays partial: ``/gpu:1`` becomes ``/device:GPU:1``. Text that names no device
    is returned as it is.

    Source:
        Spellings of TensorFlow up to 1.2 (``/job:…/task:0/gpu:0``) and in user
        programs (``/gpu:0``, ``/device:gpu:0``, ``/cpu:*``).
    """
    job, replica, task = (p.search(device) for p in (_JOB, _REPLICA, _TASK))
    kind = _device_type(device)
    if not (job or replica or task or kind):
        return device
    parts = [m.group(0) for m in (job, replica, task) if m]
    if kind:
        parts.append(f"/device:{kind[0]}:{kind[1]}")
    return "".join(parts)


def device_type(device: str) -> str:
    """Return ``GPU`` of a canonical device; empty when it names no type."""
    kind = _device_type(device)
    return kind[0] if kind else ""


def is_full_device(device: str) -> bool:
    """Return whether the canonical ``device`` names exactly one device."""
    kind = _device_type(device)
    return bool(_JOB.search(device) and _TASK.search(device) and kind) and (
        kind is not None and kind[1] != "*"
    )


@functools.lru_cache(maxsize=4096)
def device_order(device: str) -> tuple[str, int, str, int]:
    """Return a sort key: job, task, CPU before GPU, and 2 before 10."""
    job, task, kind = _JOB.search(device), _TASK.search(device), _device_type(device)
    return (
        job.group(1) if job else "",
        int(task.group(1)) if task else 0,
        kind[0] if kind else device,
        int(kind[1]) if kind and kind[1] != "*" else -1,
    )


@functools.lru_cache(maxsize=4096)
def device_matches(request: str, device: str) -> bool:
    """Return whether ``device`` satisfies every part that ``request`` names.

    Args:
        request: A canonical device, possibly partial; empty asks for nothing.
        device: A full canonical device.
    """
    for part in (_JOB, _REPLICA, _TASK):
        wanted = part.search(request)
        if wanted and wanted.group(0) not in _with_default_replica(device):
            return False
    wanted_kind, kind = _device_type(request), _device_type(device)
    if wanted_kind is None:
        return True
    return kind is not None and (
        wanted_kind[0] == kind[0] and wanted_kind[1] in {"*", kind[1]}
    )


def short_device(device: str, among: Iterable[str] = ()) -> str:
    """Return the shortest name a person can tell ``device`` from ``among`` by.

    ``GPU:1`` when all of ``among`` are in one task, else ``worker:1/GPU:1``.
    """
    kind = _device_type(device)
    if kind is None:
        return device
    label = f"{kind[0]}:{kind[1]}"
    if not _JOB.search(device):
        return label
    if len({_task_label(other) for other in (*among, device)}) > 1:
        return f"{_task_label(device)}/{label}"
    return label


def task_of(device: str) -> str:
    """Return the task of a full device: its name up to the type and the number."""
    return device.partition("/device:")[0]


def producer_of(tensor: str, known: Container[str] = ()) -> str:
    """Return the name of the op that produces ``tensor``.

    Removes the mark of a control input (``^``) and the output number (``:1``). A
    trailing ``/_7`` or ``_S7`` is removed until the rest is ``known``; with nothing
    known, only ``/_7``, once. Names that really end so (``while/body/_19``) are kept
    when they are known.

    Source:
        Graph partitioning appends ``/_N`` to what it copies, and between processes
        ``_SN`` (``core/graph/graph_partition.cc``); TensorFlow's own
        timeline strips from the last ``/_`` whatever follows, which damages the
        names of lowered control flow (``tensorflow/python/client/timeline.py``, 2.21).
    """
    name = _unmarked(tensor)
    if name in known:
        return name
    for candidate in _originals(name, _ANY_RECV_SUFFIX if known else _RECV_SUFFIX):
        if not known or candidate in known:
            return candidate
    return name


def possible_producers(tensor: str) -> Iterator[str]:
    """Yield all names that :func:`producer_of` may return for ``tensor``."""
    name = _unmarked(tensor)
    yield name
    yield from _originals(name, _ANY_RECV_SUFFIX)


def producer_and_slot(tensor: str) -> tuple[str, int]:
    """Return the op and the output number that GraphDef's ``op:1`` names."""
    if ":" not in tensor:  # nearly always
        return tensor, 0
    producer, colon, slot = tensor.rpartition(":")
    if colon and slot.isdecimal() and len(slot) <= _MOST_DIGITS:
        return producer, int(slot)
    return tensor, 0


def copied_from(name: str) -> str | None:
    """Return the op that graph partitioning made ``name`` for; None for other names.

    Source:
        ``X/_7`` receives X's output or a control edge from X on another device,
        ``X/ctrl/_7`` sends one (``core/graph/graph_partition.cc``).
    """
    if "/_" not in name:  # nearly always
        return None
    match = _RECV_SUFFIX.search(name)
    return name[: match.start()] if match else None


def rewritten_from(name: str) -> Iterator[str]:
    """Yield the names that ``name`` may have had before an optimiser rewrote it.

    Source:
        ``<scope>/ArithmeticOptimizer/<stage>_<last part>`` and
        ``ConstantFolding/<name>_recip`` or ``-folded-2``
        (``core/grappler/optimizers``, 2.21).
    """
    scope, made, tail = name.partition("/ArithmeticOptimizer/")
    if made:
        for i, character in enumerate(tail):
            if character == "_":
                yield f"{scope}/{tail[i + 1 :]}"
    _, made, tail = name.partition("ConstantFolding/")
    while made and tail:
        yield tail
        tail = tail.rpartition("-" if "-" in tail else "_")[0]


def scopes_of(name: str) -> Iterator[str]:
    """Yield the scopes that ``name`` lies in, the innermost first."""
    scope = name.rpartition("/")[0]
    while scope:
        yield scope
        scope = scope.rpartition("/")[0]


def gradient_boundaries(name: str) -> Iterator[tuple[str, str]]:
    """Yield every reading of ``name`` as *scope* / *forward op* ``_grad`` / rest.

    Args:
        name: A node name, such as ``gradients/train/mm_grad/MatMul``.

    Yields:
        Pairs (scope, forward op), longest forward op first, with a scope that is
        never empty: ``("gradients", "train/mm")``, ``("gradients/train", "mm")``.

    Source:
        ``tf.gradients`` opens its scope inside the current one and in it, for each
        op, a scope named after the whole op: ``[outer/]gradients/<F>_grad[_n]/…``
        (``gradients_util._GradientsHelper``, 2.21 and 1.x alike).
    """
    ends = [match.start() for match in _BOUNDARY.finditer(name)][-_MOST_ORDERS:]
    if len(ends) == 1:  # nearly always, and then no order has to be found
        end, start = ends[0], name.find("/") + 1
        for _ in range(_MOST_SCOPES):
            if not 0 < start < end:
                return
            yield name[: start - 1], name[start:end]
            start = name.find("/", start) + 1
        return
    slashes = [i for i, c in enumerate(name) if c == "/"][:_MOST_SCOPES] if ends else []
    readings = [
        (end - start, name[: start - 1], name[start:end])
        for end in ends
        for start in (slash + 1 for slash in slashes)
        if start < end
    ]
    # Stable: of two equally long forward ops the one named first wins.
    for _, scope, forward in sorted(readings, key=lambda r: -r[0]):
        yield scope, forward


def _device_type(device: str) -> tuple[str, str] | None:
    """Return type in capitals and number, or None when there is no such part."""
    for match in _DEVICE.finditer(device):
        if match.group(1).lower() not in _NOT_A_TYPE:
            return match.group(1).upper(), match.group(2)
    return None


def _unmarked(tensor: str) -> str:
    """Return ``tensor`` without the mark of a control input and the output number."""
    name = tensor.removeprefix("^")
    head, colon, tail = name.rpartition(":")
    return head if colon and tail.isdigit() else name


def _originals(name: str, suffix: re.Pattern[str]) -> Iterator[str]:
    """Yield what ``name`` may be a copy of, a copy of a copy last."""
    while match := suffix.search(name):
        name = name[: match.start()]
        yield name


def _task_label(device: str) -> str:
    job, task = _JOB.search(device), _TASK.search(device)
    return f"{job.group(1) if job else ''}:{task.group(1) if task else 0}"


def _with_default_replica(device: str) -> str:
    return device if "/replica:" in device else f"{device}/replica:0"
