"""``placement-viz compare``: two runs, in the terminal or as JSON."""

from __future__ import annotations

import argparse

from rich.console import Console

from placement_viz.analysis import compare_runs
from placement_viz.commands.output import write_text
from placement_viz.commands.reading import add_no_cache, read_run
from placement_viz.reports import text
from placement_viz.reports.document import comparison_document, format_json

__all__ = ["configure", "print_comparison", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``compare``."""
    parser.add_argument("baseline", metavar="BASELINE", help="the run before")
    parser.add_argument("candidate", metavar="CANDIDATE", help="the run after")
    parser.add_argument(
        "--json", metavar="FILE", help="write the result as JSON; - for standard output"
    )
    add_no_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or write the comparison; return the exit code."""
    comparison = compare_runs(
        read_run(arguments.baseline, cache=arguments.cache),
        read_run(arguments.candidate, cache=arguments.cache),
    )
    if arguments.json:
        write_text(arguments.json, format_json(comparison_document(comparison)))
    if arguments.json != "-":
        text.print_comparison(comparison, Console())
    return 0


def print_comparison(baseline_path: str, candidate_path: str) -> None:
    """Print the comparison of two files to standard output.

    Raises:
        TraceError: One of them is no usable run.
    """
    comparison = compare_runs(read_run(baseline_path), read_run(candidate_path))
    text.print_comparison(comparison, Console())
