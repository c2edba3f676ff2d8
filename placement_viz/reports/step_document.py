"""Where a step went, as part of the JSON contract."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl

from placement_viz.analysis import Analysis
from placement_viz.analysis.step.controller import Controller
from placement_viz.analysis.step.critical_path import CriticalPath
from placement_viz.analysis.step.devices import StepDevices
from placement_viz.analysis.step.memory import Memory
from placement_viz.analysis.step.towers import Towers
from placement_viz.analysis.step.transfers import Transfers
from placement_viz.model import Trace
from placement_viz.reports.step import step_answers, step_topics

__all__ = ["step_document"]

#: Lists in which each op may have a row are this long at most; the largest come first.
_MOST_ROWS = 200


def step_document(analysis: Analysis) -> dict[str, Any]:
    """Return where the step of a judged run went, ready for JSON.

    Ops are told by their name; ``n_`` fields count what lists cut off.
    """
    step, trace = analysis.step, analysis.run.trace
    return {
        "answers": step_answers(analysis),
        "topics": {
            topic.title: list(topic.sentences) for topic in step_topics(analysis)
        },
        "devices": _devices(step.devices, trace),
        "transfers": _transfers(step.transfers, trace),
        "towers": _towers(step.towers, trace),
        "updates": _updates(step.controller, trace),
        "critical_path": _critical_path(step.critical_path, trace),
        "memory": _memory(step.memory),
    }


def _devices(found: StepDevices, trace: Trace) -> dict[str, Any]:
    gaps = _named(found.gaps, trace, "before", "after", "awaited")
    time = None if found.input is None else dataclasses.asdict(found.input)
    return {
        "span_us": found.span_us,
        "devices": found.devices.to_dicts(),
        "roles": found.roles.to_dicts(),
        "idle": found.idle.to_dicts(),
        "gaps": _largest(gaps, "duration_us"),
        "overlap": found.overlap.to_dicts(),
        "unused": None if found.unused is None else list(found.unused),
        "input": time,
    }


def _transfers(found: Transfers, trace: Trace) -> dict[str, Any]:
    tensors = _named(found.tensors.drop("consumers"), trace, "producer")
    avoidable = found.avoidable
    return {
        "n_tensors": found.tensors.height,
        "tensors": _largest(tensors, "n_bytes"),
        "n_control": found.control.height,
        "matrix": found.matrix.to_dicts(),
        "avoidable": {
            "misplaced_ops": avoidable.n_ops,
            "n_gone": avoidable.gone.height,
            "n_added": avoidable.added.height,
            "control_gone": avoidable.control_gone,
            "control_added": avoidable.control_added,
            "net_bytes": avoidable.net_bytes,
        },
        "hiding": found.hiding.to_dicts(),
        "weights": found.weights.to_dicts(),
        "link": None if found.link is None else _link(found.link),
    }


def _link(link: Any) -> dict[str, Any]:
    """Return a link with its cards, which are no dataclasses."""
    fields = {each.name: getattr(link, each.name) for each in dataclasses.fields(link)}
    return fields | {"recorded": [each.name for each in link.recorded]}


def _towers(found: Towers, trace: Trace) -> dict[str, Any]:
    differing = _named(found.comparison, trace, "first_op", "op").drop_nulls(
        "difference"
    )
    return {
        "scopes": list(found.scopes),
        "is_serial": found.is_serial,
        "towers": found.table.to_dicts(),
        "together": found.together.to_dicts(),
        "exchanges": found.exchanges.to_dicts(),
        "n_differing": differing.height,
        "differing": differing.head(_MOST_ROWS).to_dicts(),
    }


def _updates(found: Controller, trace: Trace) -> dict[str, Any]:
    return {
        "n_ops": len(found.ops),
        "windows": _named(found.windows, trace, "first_op", "last_op").to_dicts(),
        "meanwhile": found.meanwhile.to_dicts(),
    }


def _critical_path(found: CriticalPath, trace: Trace) -> dict[str, Any]:
    path = _named(found.path, trace, "op", "awaited")
    length = (pl.col("end_us") - pl.col("start_us")).alias("duration_us")
    return {
        "steps": found.steps.to_dicts(),
        "misplaced_us": found.misplaced_us,
        "by_device": found.by_device(trace.devices).to_dicts(),
        "by_role": found.by_role().to_dicts(),
        "n_ops": path.height,
        "ops": _largest(path.with_columns(length), "duration_us"),
        "clocks": found.clocks.tasks.to_dicts(),
    }


def _memory(found: Memory | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "known_from": found.known_from.value,
        "peaks": [
            {
                "device": peak.device,
                "at_us": peak.at_us,
                "n_bytes": peak.n_bytes,
                "misplaced_bytes": peak.misplaced_bytes,
                "without_misplaced_bytes": peak.without_misplaced_bytes,
                "n_alive": peak.alive.height,
                "alive": _largest(peak.alive.drop("op", "device"), "n_bytes"),
            }
            for peak in found.peaks
        ],
    }


def _named(table: pl.DataFrame, trace: Trace, *ops: str) -> pl.DataFrame:
    """Return ``table`` with names where it has positions of ops."""
    names = trace.ops["name"]
    return table.with_columns(names.gather(table[op]).alias(op) for op in ops)


def _largest(table: pl.DataFrame, by: str) -> list[dict[str, Any]]:
    order = table.sort(by, descending=True, nulls_last=True, maintain_order=True)
    return order.head(_MOST_ROWS).to_dicts()
