"""The command line: one module a subcommand, each with ``configure`` and ``run``.

Exit codes: 0 done, 1 unusable input or failed capture, 2 usage, 3 a requested check
failed. This module alone turns errors into standard error and exit codes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from placement_viz.errors import PlacementVizError
from placement_viz.version import __version__

__all__ = ["SUBCOMMANDS", "main"]

#: Name of the subcommand, which is also its module, to what it is for.
SUBCOMMANDS = {
    "capture": "run a training script and trace one step of it",
    "analyze": "say which gradient ops of a run are misplaced, and why",
    "compare": "say what moved between two runs",
    "serve": "open runs in the browser",
}

_DONE, _UNUSABLE, _INTERRUPTED = 0, 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: Arguments without the program's name; ``sys.argv`` by default.
    """
    arguments = _parser().parse_args(sys.argv[1:] if argv is None else argv)
    command = importlib.import_module(f"placement_viz.commands.{arguments.command}")
    try:
        return int(command.run(arguments))
    except PlacementVizError as error:
        print(f"placement-viz: {error}", file=sys.stderr)
        return _UNUSABLE
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough. What is still buffered
        # must not raise again while Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _DONE
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-viz",
        description="Find the gradient ops of a TensorFlow training step that run on "
        "the wrong device.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in SUBCOMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=purpose, description=f"{purpose[:1].upper()}{purpose[1:]}."
        )
        importlib.import_module(f"placement_viz.commands.{name}").configure(subparser)
    return parser
