"""Scores as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from placement_viz.names import short_device
from tests.oracle.scoring import LIMITS, Answer, Mark, Score, add_scores

__all__ = ["print_answers", "print_scores", "scores_as_json"]

#: Model to input to score.
Scores = Mapping[str, Mapping[str, Score]]


def print_scores(scores: Scores, console: Console) -> None:
    """Print a line for each model and one for all of them.

    The ratios are of ops; "time" is the ratio of right answers by duration.
    """
    inputs = list(next(iter(scores.values()), {}))
    table = Table(title="gradient ops whose device the engine names", box=None)
    table.add_column("model")
    table.add_column("ops", justify="right")
    table.add_column("no truth", justify="right")
    for given in inputs:
        for heading in (f"{given}: right", "wrong", "unknown", "time"):
            table.add_column(heading, justify="right")
    for model, of_model in scores.items():
        table.add_row(model, *_cells(of_model))
    table.add_section()
    table.add_row("all", *_cells(_totals(scores)), style="bold")
    console.print(table)
    for given, limit in LIMITS.items():
        if given not in inputs:
            continue
        total = _totals(scores)[given]
        verdict = "kept" if total.keeps(limit) else "MISSED"
        console.print(
            f"{given}: right {total.share(Mark.RIGHT):.2%} (at least "
            f"{limit.right:.1%}), wrong {total.share(Mark.WRONG):.2%} (at most "
            f"{limit.wrong:.1%}): {verdict}"
        )


def print_answers(scores: Scores, console: Console) -> None:
    """Print every answer that is not right, and what was not judged."""
    for answer in _answers(scores):
        if answer.mark is not Mark.RIGHT or not answer.is_gradient:
            console.print(escape(_format_answer(answer)), highlight=False)
    for model, of_model in scores.items():
        for node in next(iter(of_model.values())).without_truth:
            console.print(escape(f"{model} NO TRUTH {node}"), highlight=False)


def scores_as_json(scores: Scores) -> dict[str, Any]:
    """Return totals, the score of each model, and all answers that are not right."""
    return {
        "all": {given: _numbers(s) for given, s in _totals(scores).items()},
        "models": {
            model: {given: _numbers(score) for given, score in of_model.items()}
            for model, of_model in scores.items()
        },
        "answers": [
            dataclasses.asdict(answer)
            for answer in _answers(scores)
            if answer.mark is not Mark.RIGHT or not answer.is_gradient
        ],
    }


def _totals(scores: Scores) -> dict[str, Score]:
    inputs = next(iter(scores.values()), {})
    return {given: add_scores(m[given] for m in scores.values()) for given in inputs}


def _answers(scores: Scores) -> Iterator[Answer]:
    for of_model in scores.values():
        for score in of_model.values():
            yield from score.answers


def _numbers(score: Score) -> dict[str, float]:
    numbers: dict[str, float] = {"ops": len(score.answers)}
    for mark in Mark:
        numbers[str(mark)] = score.count(mark)
        numbers[f"{mark}_time_ratio"] = round(score.time_share(mark), 5)
    return numbers | {
        "mistaken": score.n_mistaken,
        "without_truth": len(score.without_truth),
    }


def _cells(of_model: Mapping[str, Score]) -> Iterator[str]:
    first = next(iter(of_model.values()))
    yield str(len(first.answers))
    yield str(len(first.without_truth) or "")
    for score in of_model.values():
        yield f"{score.share(Mark.RIGHT):.1%}"
        yield str(score.count(Mark.WRONG) or "")
        yield str(score.count(Mark.UNKNOWN) or "")
        yield f"{score.time_share(Mark.RIGHT):.1%}"


def _format_answer(answer: Answer) -> str:
    mistaken = "" if answer.is_gradient else "   NOT A GRADIENT OP"
    forward = answer.forward or "none"
    moves = f"{_short(answer.forward_before)} → {_short(answer.forward_after)}"
    return (
        f"{answer.model} [{answer.given}] {answer.mark.upper()}{mistaken} "
        f"{answer.duration_us} µs\n"
        f"    {answer.node}  {answer.op_type}  ran on {_short(answer.ran_on)}, "
        f"expected {_short(answer.expected)}, truth {_short(answer.truth)}\n"
        f"    rule: {answer.rule}; names {answer.claimed_forward}; "
        f"forward op: {forward} ({moves})\n"
        f"    inputs: {', '.join(answer.inputs)}"
    )


def _short(devices: tuple[str, ...]) -> str:
    return "+".join(short_device(device) for device in devices) or "–"
