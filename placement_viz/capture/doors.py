"""Capturing from a program's own code, for those who would rather edit it."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from placement_viz.capture.functions import CallCopied
from placement_viz.capture.program import Program
from placement_viz.capture.recorder import CaptureSettings, Recorder
from placement_viz.capture.run_file import Destination
from placement_viz.capture.steps import Schedule

__all__ = [
    "capture_function",
    "capture_step",
    "capturing",
    "keras_callback",
    "session_run_hook",
]

_OUT = "timeline.json"
_ANYTHING = re.compile("")


@contextlib.contextmanager
def capturing(  # noqa: PLR0913 - the options of the command
    out: str | Path = _OUT,
    *,
    step: int = 3,
    steps: int = 1,
    every: int = 1,
    match: str | None = None,
    placement: str = "as-is",
) -> Iterator[None]:
    """Capture the training step that runs inside the block.

    What the block builds is known best: a graph or function that was built before it
    is captured too, with names alone to tell what its gradients are of.

    Example:
        >>> with placement_viz.capturing("runs/timeline.json", step=100):
        ...     train()

    Args:
        out: A file that ends in ``.json`` or ``.json.gz``, or a folder.
        step: Which run of the training step to trace, counted from 1; the last one
            of a block with fewer.
        steps: How many runs to trace, each to a file of its own.
        every: How many runs further the next one is.
        match: A regular expression to find in a fetch or in the name of a
            ``tf.function``; by default the step is what computes gradients.
        placement: ``as-is``, or ``colocated`` to build gradients on the devices of
            their forward ops.

    Raises:
        CaptureError: Nothing was captured, although the block ended well.
    """
    settings = CaptureSettings(
        placement=placement,
        schedule=Schedule(step, steps, every),
        pattern=re.compile(match) if match is not None else None,
        destination=Destination.named(Path(out)),
    )
    recorder = _started(settings)
    try:
        yield
    except BaseException:
        recorder.finish()
        raise
    _finish(recorder)


def capture_step(
    session: Any, fetches: Any, feed_dict: Any = None, *, out: str | Path = _OUT
) -> Any:
    """Run one step of a session traced, write it, and return what it returned.

    Example:
        >>> placement_viz.capture_step(session, train_op, {images: batch})

    Args:
        session: A ``tf.compat.v1.Session`` of any kind.
        fetches: As for ``session.run``.
        feed_dict: As for ``session.run``.
        out: A file that ends in ``.json`` or ``.json.gz``, or a folder.

    Raises:
        CaptureError: The step could not be traced or written.
    """
    recorder = _started(_one_run(out))
    try:
        result = session.run(fetches, feed_dict)
    except BaseException:
        recorder.finish()
        raise
    _finish(recorder)
    return result


def capture_function(
    function: Any, *batch: Any, out: str | Path = _OUT, **named: Any
) -> None:
    """Trace a call of a ``tf.function`` without making it, and write the file.

    The call is made on copies alone: no variable changes, nothing is trained. A
    function that was never called before is known best.

    Example:
        >>> placement_viz.capture_function(train_step, images, labels)

    Args:
        function: What ``tf.function`` returned.
        *batch: Its arguments: tensors, not iterators.
        out: A file that ends in ``.json`` or ``.json.gz``, or a folder.
        **named: Its named arguments.

    Raises:
        CaptureError: The function could not be called with copies.
    """
    recorder = _started(_one_run(out), is_dry=True)
    # What ends the call is that its arguments are copied.
    with contextlib.suppress(CallCopied):
        function(*batch, **named)
    _finish(recorder)


def session_run_hook(out: str | Path = _OUT, *, step: int = 3) -> Any:
    """Return a ``SessionRunHook`` that captures a step of a monitored session.

    Make it before the graph is built, for that is noted as well.

    Example:
        >>> hook = placement_viz.session_run_hook("timeline.json")
        >>> with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        ...     train(session)

    Args:
        out: A file that ends in ``.json`` or ``.json.gz``, or a folder.
        step: Which run of the training step to trace, counted from 1.
    """
    import tensorflow as tf  # noqa: PLC0415

    recorder = _started(_from_step(out, step))

    class CaptureHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
        def end(self, session: Any) -> None:  # noqa: ARG002 - TensorFlow's own
            _finish(recorder)

    return CaptureHook()


def keras_callback(out: str | Path = _OUT, *, step: int = 3) -> Any:
    """Return a Keras callback that captures a step of ``model.fit``.

    Example:
        >>> model.fit(data, callbacks=[placement_viz.keras_callback("timeline.json")])

    Args:
        out: A file that ends in ``.json`` or ``.json.gz``, or a folder.
        step: Which run of the training step to trace, counted from 1.
    """
    recorder = _started(_from_step(out, step))

    class CaptureCallback(_keras().callbacks.Callback):  # type: ignore[misc]
        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras' own
            _finish(recorder)

    return CaptureCallback()


def _keras() -> Any:
    """Return the Keras that the program uses."""
    import tensorflow as tf  # noqa: PLC0415

    if "tf_keras" in sys.modules and "keras" not in sys.modules:
        return sys.modules["tf_keras"]
    return tf.keras


def _one_run(out: str | Path) -> CaptureSettings:
    return CaptureSettings(
        schedule=Schedule(first=1),
        pattern=_ANYTHING,
        destination=Destination.named(Path(out)),
    )


def _from_step(out: str | Path, step: int) -> CaptureSettings:
    return CaptureSettings(
        schedule=Schedule(step), destination=Destination.named(Path(out))
    )


def _started(settings: CaptureSettings, *, is_dry: bool = False) -> Recorder:
    settings.destination.check()
    program = Program(sys.argv[0] or "-", tuple(sys.argv[1:]))
    recorder = Recorder(program, settings, _quietly, is_dry=is_dry)
    recorder.start()
    return recorder


def _finish(recorder: Recorder) -> None:
    error = recorder.finish()
    if error is not None:
        raise error


def _quietly(line: str) -> None:
    """Say nothing: a program's output is its own."""
