"""``placement-viz analyze``: one run, in the terminal or as JSON."""

from __future__ import annotations

import argparse

from rich.console import Console

from placement_viz.analysis import analyze_run
from placement_viz.commands.output import write_text
from placement_viz.parser import load_run
from placement_viz.reports.document import analysis_document, format_json
from placement_viz.reports.text import print_analysis

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``analyze``."""
    parser.add_argument("run", metavar="RUN", help="timeline.json, plain or gzipped")
    parser.add_argument(
        "--graph",
        metavar="GRAPHDEF",
        help="the program's graph (.pb, .pbtxt), for a timeline that carries none",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the result as JSON; - for standard output"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print or write the analysis; return the exit code."""
    analysis = analyze_run(load_run(arguments.run, graph=arguments.graph))
    if arguments.json:
        write_text(arguments.json, format_json(analysis_document(analysis)))
    if arguments.json != "-":
        print_analysis(analysis, Console())
    return 0
