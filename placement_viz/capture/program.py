"""Running a script as ``python SCRIPT ARGS…`` would, inside this process."""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

from placement_viz.errors import CaptureError

__all__ = ["PACKAGE_FOLDER", "Program", "run_program"]

#: Frames of code below it are this program's, not the captured one's.
PACKAGE_FOLDER = str(Path(__file__).absolute().parents[1]) + os.sep

#: What a shell reports for a program that an interrupt ended: 128 + SIGINT.
_INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class Program:
    """A Python script and its arguments, as a person typed them."""

    script: str
    arguments: tuple[str, ...] = ()

    # Found out once, before the script changes the working directory.
    @functools.cached_property
    def folder(self) -> Path:
        """Return the folder that the script's own imports are looked up in."""
        return Path(self.script).resolve().parent

    def check(self) -> None:
        """Raise :class:`CaptureError` unless the script is a readable file."""
        path = Path(self.script)
        if not path.exists():
            raise CaptureError(
                f"{self.script}: expected a Python script, found nothing there; "
                f"the path is relative to {Path.cwd()}"
            )
        if not path.is_file():
            raise CaptureError(
                f"{self.script}: expected a Python script, found a folder; "
                "name the file in it that trains"
            )


def run_program(program: Program) -> int:
    """Run ``program`` as the main module and return its exit code.

    Whatever ends the program ends here: an uncaught exception is printed as Python
    prints it, without frames of this package, and threads are waited for.
    """
    argv, path = sys.argv, sys.path
    sys.argv = [program.script, *program.arguments]
    sys.path = [str(program.folder), *path[1:]]
    try:
        _execute(program)
    except SystemExit as stop:
        return _exit_code(stop)
    except BaseException as error:  # noqa: BLE001 - all that can end a program
        for link in _chain(error):
            link.__traceback__ = _without_own_frames(link.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    finally:
        _join_threads()
        sys.argv, sys.path = argv, path
    return 0


def _execute(program: Program) -> None:
    # Not runpy.run_path: Python gives a main module an absolute __file__ and leaves
    # sys.argv[0] as it was typed; run_path makes both the same.
    file = str(Path(program.script).absolute())
    with io.open_code(file) as stream:
        source = stream.read()
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    code = compile(source, file, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102 - running the program is the purpose


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    sys.stderr.write(f"{stop.code}\n")
    return 1


def _join_threads() -> None:
    """Wait for the threads that Python would wait for when a script has ended."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and the exceptions it was raised from or during."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += [link.__cause__, link.__context__]


def _without_own_frames(
    traceback: types.TracebackType | None,
) -> types.TracebackType | None:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    kept: types.TracebackType | None = None
    for frame in reversed(frames):
        if not frame.tb_frame.f_code.co_filename.startswith(PACKAGE_FOLDER):
            kept = types.TracebackType(
                kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno
            )
    return kept
