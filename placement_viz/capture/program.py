"""Running a script as ``python SCRIPT ARGS…`` would, inside this process."""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import runpy
import signal
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

from placement_viz.errors import CaptureError

__all__ = ["PACKAGE_FOLDER", "Program", "run_program"]

#: Frames of code below it are this program's, not the captured one's.
PACKAGE_FOLDER = str(Path(__file__).absolute().parents[1]) + os.sep

#: What stands for a program that an interrupt ended, as for any that a signal ended.
_INTERRUPTED = -signal.SIGINT


@dataclasses.dataclass(frozen=True)
class Program:
    """A Python program and its arguments, as a person typed them.

    Attributes:
        name: Path of a script, or name of a module.
        arguments: The program's own.
        is_module: Whether it is run as ``python -m`` runs a module.
    """

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    # Found out once, before the script changes the working directory.
    @functools.cached_property
    def folder(self) -> Path:
        """Return the folder that the program's own imports are looked up in."""
        return Path.cwd() if self.is_module else Path(self.name).resolve().parent

    @property
    def command(self) -> tuple[str, ...]:
        """Return the program and its arguments, as Python takes them."""
        return (*(("-m",) if self.is_module else ()), self.name, *self.arguments)

    def check(self) -> None:
        """Raise :class:`CaptureError` when a script is no readable file."""
        if self.is_module:
            # Only importing it can tell.
            return
        path = Path(self.name)
        if not path.exists():
            raise CaptureError(
                f"{self.name}: expected a Python script, found nothing there; "
                f"the path is relative to {Path.cwd()}"
            )
        if not path.is_file():
            raise CaptureError(
                f"{self.name}: expected a Python script, found a folder; "
                "name the file in it that trains"
            )


def run_program(program: Program) -> int:
    """Run ``program`` as the main module and return its exit code.

    The code is negative, the number of a signal, when an interrupt ended it.

    Whatever ends the program ends here: an uncaught exception is printed as Python
    prints it, without frames of this package, and threads are waited for.
    """
    argv, path = sys.argv, sys.path
    sys.argv = ["-m" if program.is_module else program.name, *program.arguments]
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
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    if program.is_module:
        # What Python itself calls for -m; runpy.run_module would leave sys.modules
        # without the module while its threads still run.
        runpy._run_module_as_main(program.name)  # type: ignore[attr-defined] # noqa: SLF001
        return
    # Not runpy.run_path: Python gives a main module an absolute __file__ and leaves
    # sys.argv[0] as it was typed; run_path makes both the same.
    file = str(Path(program.name).absolute())
    with io.open_code(file) as stream:
        source = stream.read()
    main.__file__ = file
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
