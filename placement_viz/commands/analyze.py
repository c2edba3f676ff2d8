"""``placement-viz analyze``: one run, in the terminal or as a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from rich.console import Console

from placement_viz.analysis import Analysis, analyze_run
from placement_viz.commands.output import write_text
from placement_viz.commands.reading import add_no_cache, read_run
from placement_viz.reports.csv import format_csv
from placement_viz.reports.document import analysis_document, format_json
from placement_viz.reports.text import print_analysis

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``analyze``."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help="a trace of any kind, packed or not; a folder, a zip or a pattern is a "
        "run of several steps",
    )
    parser.add_argument(
        "--graph",
        metavar="GRAPH",
        help="the program's graph, for a run that carries none: a GraphDef, "
        "MetaGraphDef or SavedModel, binary or text, or an event file with one",
    )
    for name, (what, _) in _FORMATS.items():
        parser.add_argument(
            f"--{name}", metavar="FILE", help=f"write {what}; - for standard output"
        )
    add_no_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or write the analysis; return the exit code."""
    analysis = analyze_run(
        read_run(arguments.run, arguments.graph, cache=arguments.cache)
    )
    wanted = {name: getattr(arguments, name) for name in _FORMATS}
    for name, destination in wanted.items():
        if destination:
            _, make = _FORMATS[name]
            write_text(destination, make(analysis))
    if "-" not in wanted.values():
        print_analysis(analysis, Console())
    return 0


def _json(analysis: Analysis) -> str:
    return format_json(analysis_document(analysis))


def _html(analysis: Analysis) -> str:
    # Only this report draws, and plotly takes longer to load than all the rest.
    from placement_viz.figures import GRAPH_CONFIG, timeline_figure  # noqa: PLC0415
    from placement_viz.reports.html import format_html  # noqa: PLC0415

    figure = timeline_figure(analysis)
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
    figure.update_layout(showlegend=True, legend=legend, margin={"t": 56})
    markup: str = figure.to_html(
        full_html=False, include_plotlyjs=True, config=GRAPH_CONFIG
    )
    return format_html(analysis, markup)


_FORMATS: dict[str, tuple[str, Callable[[Analysis], str]]] = {
    "json": ("the result as JSON", _json),
    "html": ("a page that needs nothing else", _html),
    "csv": ("the gradient ops as CSV", format_csv),
}
