"""Results as JSON: the contract with programs.

Schema 1. Fields may be added freely and none may be renamed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import polars as pl

from placement_viz.analysis import Analysis, Comparison
from placement_viz.analysis.compare import Side
from placement_viz.reports.sentences import comparison_headline, headline
from placement_viz.reports.step_comparison import step_changes
from placement_viz.reports.step_document import step_document

__all__ = ["SCHEMA", "analysis_document", "comparison_document", "format_json"]

SCHEMA = 1

_GRADIENT_FIELDS = (
    "name",
    "op_type",
    "device",
    "start_us",
    "duration_us",
    "step",
    "forward_op",
    "forward_device",
    "expected_device",
    "requested_device",
    "evidence",
    "rule",
    "confidence",
    "verdict",
    "reason",
    "cause",
    "source",
)


def analysis_document(analysis: Analysis) -> dict[str, Any]:
    """Return everything about one run, ready for JSON."""
    run = analysis.run
    return {
        "schema": SCHEMA,
        "headline": headline(analysis),
        "run": {
            "source": run.source,
            "format": run.format,
            "ops": run.trace.ops.height,
            "steps": run.trace.n_steps,
            "span_us": run.trace.span_us,
            "evidence": list(run.evidence),
        },
        "devices": _devices(analysis.usage),
        "gradients": analysis.colocation.gradients.select(_GRADIENT_FIELDS).to_dicts(),
        "summary": dataclasses.asdict(analysis.colocation.summary),
        "collateral": [
            {"name": name, "from_device": before, "to_device": after}
            for name, (before, after) in analysis.colocation.collateral.items()
        ],
        "replay": dict(zip(("ops", "right"), analysis.colocation.replay, strict=True)),
        "fixes": [dataclasses.asdict(fix) for fix in analysis.fixes],
        "step": step_document(analysis),
        "notices": [dataclasses.asdict(notice) for notice in analysis.notices],
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Return everything about a comparison, ready for JSON."""
    kinds = comparison.moves.group_by("kind").agg(
        ops=pl.len(), baseline_us=pl.col("baseline_us").sum()
    )
    return {
        "schema": SCHEMA,
        "headline": comparison_headline(comparison),
        "baseline": _side(comparison.baseline),
        "candidate": _side(comparison.candidate),
        "matched_ops": comparison.matched_ops,
        "step": step_changes(comparison),
        "moves": comparison.moves.to_dicts(),
        "moves_by_kind": {row["kind"]: row for row in kinds.sort("kind").to_dicts()},
        "changes": [dataclasses.asdict(change) for change in comparison.changes],
        "only_baseline": comparison.only_baseline.to_dicts(),
        "only_candidate": comparison.only_candidate.to_dicts(),
    }


def format_json(document: dict[str, Any]) -> str:
    """Return ``document`` as JSON text, indented, ending in a line break."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _side(side: Side) -> dict[str, Any]:
    return {
        "source": side.run.source,
        "span_us": side.span_us,
        "devices": _devices(side.usage),
        "summary": dataclasses.asdict(side.colocation.summary),
    }


def _devices(usage: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(device) for device in usage]
