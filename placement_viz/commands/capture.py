"""``placement-viz capture``: trace a training step of a script, without editing it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from placement_viz.capture import CaptureSettings, Program, capture_script

__all__ = ["configure", "run"]

_DESCRIPTION = """\
Run SCRIPT as python would and write one run of its training step, the Session.run
call that computes gradients, with the graph behind it: timeline.json. It opens in
placement-viz, Perfetto and chrome://tracing. SCRIPT is not edited, its output and
its results stay the same; what this command says goes to standard error."""

_EPILOG = """\
examples:
  placement-viz capture train.py --epochs 1
  placement-viz capture --placement both --out runs train.py --epochs 1"""

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
        type=_step_number,
        default=3,
        metavar="N",
        help="which run of the training step to trace (default: %(default)s; the "
        "last one of a script with fewer)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder for timeline.json, or for auto/ and colocated/ with 'both' "
        "(default: the current one)",
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
    script, *rest = arguments.program[int(is_marked) :]
    program = Program(script, tuple(rest))
    if arguments.placement == "both":
        return _capture_both(program, arguments.out, arguments.step)
    settings = CaptureSettings(arguments.placement, arguments.step, arguments.out)
    return capture_script(program, settings, _notify)


def _capture_both(program: Program, folder: Path, step: int) -> int:
    """Capture in two processes, as one cannot build the same graph twice."""
    from placement_viz.commands import compare  # noqa: PLC0415

    program.check()
    paths = []
    for name, placement in _BOTH.items():
        settings = CaptureSettings(placement, step, folder / name)
        exit_code = _capture_apart(program, settings)
        if exit_code:
            _notify(
                f"{program.script}: the run with placement {placement} ended with exit "
                f"code {exit_code}, so there is nothing to compare"
            )
            return exit_code
        paths.append(str(settings.path))
    compare.print_comparison(*paths)
    return 0


def _capture_apart(program: Program, settings: CaptureSettings) -> int:
    sys.stdout.flush()
    command = [sys.executable, "-m", "placement_viz.capture"]
    command += ["--placement", settings.placement, "--step", str(settings.step)]
    command += ["--out", str(settings.folder), "--", program.script]
    command += program.arguments
    exit_code = subprocess.run(command, check=False).returncode  # noqa: S603 - the person's own script
    # A signal ended it; a shell reports that as 128 + its number.
    return exit_code if exit_code >= 0 else 128 - exit_code


def _notify(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _step_number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            f"expected a run counted from 1, found {text!r}"
        )
    return number
