"""``placement-viz capture``: trace a training step of a program, without editing it."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from placement_viz.capture import (
    CaptureSettings,
    Destination,
    Program,
    Schedule,
    capture_script,
)
from placement_viz.errors import CaptureError

__all__ = ["configure", "run"]

_DESCRIPTION = """\
Run SCRIPT as python would and write one run of its training step, with the graph
behind it: timeline.json. The step is the Session.run call or the call of a tf.function
that computes gradients; a function is run again in a session to be traced. The file
opens in placement-viz, Perfetto and chrome://tracing. SCRIPT is not edited, its output
and its results stay the same; what this command says goes to standard error."""

_EPILOG = """\
examples:
  placement-viz capture train.py --epochs 1
  placement-viz capture -m my_package.train --epochs 1
  placement-viz capture --step 100 --steps 5 --every 20 --out runs train.py
  placement-viz capture --placement both --out runs --open train.py --epochs 1"""

#: Folder name for each run of ``--placement both``.
_BOTH = {"auto": "as-is", "colocated": "colocated"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's description and arguments to ``parser``."""
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--placement",
        choices=("as-is", "colocated", "both"),
        default="as-is",
        help="leave gradients where the script puts them (default), build each on the "
        "device of its forward op, or run the script twice and compare",
    )
    parser.add_argument(
        "--step",
        type=_counted,
        default=3,
        metavar="N",
        help="which run of the training step to trace (default: %(default)s; the "
        "last one of a script with fewer)",
    )
    parser.add_argument(
        "--steps",
        type=_counted,
        default=1,
        metavar="K",
        help="how many runs to trace, from N on, to timeline-000.json and so on",
    )
    parser.add_argument(
        "--every",
        type=_counted,
        default=1,
        metavar="M",
        help="of the runs from N on, trace every M-th",
    )
    parser.add_argument(
        "--match",
        type=_pattern,
        metavar="REGEX",
        help="the training step is what has this in the name of a fetch or of the "
        "tf.function, instead of what computes gradients",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="PATH",
        help="folder for timeline.json, or for auto/ and colocated/ with 'both', or "
        "a file that ends in .json or .json.gz (default: the current folder)",
    )
    parser.add_argument(
        "--keep-raw",
        action="store_true",
        help="write TensorFlow's own run_metadata.pb and graph.pb too",
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="show the result in the browser afterwards",
    )
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="SCRIPT is the name of a module, as for python -m",
    )
    # Not REMAINDER: a script's own "--" would be lost.
    parser.add_argument(
        "program",
        nargs=argparse.PARSER,
        metavar="SCRIPT",
        help="the script, and after it the script's own arguments",
    )


def run(arguments: argparse.Namespace) -> int:
    """Capture as asked and return the script's exit code.

    Raises:
        CaptureError: The script ended well and nothing was captured, or it could
            not be started.
    """
    # A "--" before the script is for argparse, which keeps it up to Python 3.12.
    is_marked = arguments.program[0] == "--" and len(arguments.program) > 1
    name, *rest = arguments.program[int(is_marked) :]
    program = Program(name, tuple(rest), is_module=arguments.is_module)
    if arguments.placement == "both":
        if Destination.named(arguments.out).folder != arguments.out:
            raise CaptureError(
                f"{arguments.out}: expected a folder for the two runs of --placement "
                "both, found the name of a file"
            )
        return _capture_both(program, arguments)
    destination = Destination.named(arguments.out)
    settings = CaptureSettings(
        placement=arguments.placement,
        schedule=Schedule(arguments.step, arguments.steps, arguments.every),
        pattern=arguments.match,
        destination=destination,
        keep_raw=arguments.keep_raw,
    )
    exit_code = capture_script(program, settings, _notify)
    if exit_code < 0:
        _end_by_signal(-exit_code)
    if arguments.open and exit_code == 0:
        _show(destination.path(0, arguments.steps))
    return exit_code


def _capture_both(program: Program, arguments: argparse.Namespace) -> int:
    """Capture in two processes, as one cannot build the same graph twice."""
    from placement_viz.commands import compare  # noqa: PLC0415

    program.check()
    paths = []
    for name, placement in _BOTH.items():
        folder = arguments.out / name
        exit_code = _capture_apart(program, placement, folder, arguments)
        if exit_code:
            _notify(
                f"{program.name}: the run with placement {placement} ended with exit "
                f"code {exit_code}, so there is nothing to compare"
            )
            return exit_code
        paths.append(Destination(folder).path(0, arguments.steps))
    compare.print_comparison(*map(str, paths))
    if arguments.open:
        _show(*paths)
    return 0


def _capture_apart(
    program: Program, placement: str, folder: Path, arguments: argparse.Namespace
) -> int:
    sys.stdout.flush()
    command = [sys.executable, "-m", "placement_viz.capture"]
    command += ["--placement", placement, "--out", str(folder)]
    for option in ("step", "steps", "every"):
        command += [f"--{option}", str(getattr(arguments, option))]
    if arguments.match:
        command += ["--match", arguments.match.pattern]
    command += ["--keep-raw"] if arguments.keep_raw else []
    command += ["-m"] if program.is_module else []
    command += ["--", program.name, *program.arguments]
    exit_code = subprocess.run(command, check=False).returncode  # noqa: S603 - the person's own script
    # A signal ended it; a shell reports that as 128 + its number.
    return exit_code if exit_code >= 0 else 128 - exit_code


def _end_by_signal(number: int) -> None:
    """End this process as the signal would have ended the script."""
    sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _show(*paths: Path) -> None:
    from placement_viz.commands import serve  # noqa: PLC0415

    serve.show([str(path) for path in paths])


def _notify(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _counted(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            f"expected a number counted from 1, found {text!r}"
        )
    return number


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        message = f"expected a regular expression, found {text!r}: {error}"
        raise argparse.ArgumentTypeError(message) from error
