"""What is to be said about where a step went, topic by topic."""

from __future__ import annotations

import dataclasses

from placement_viz.analysis import Analysis
from placement_viz.reports.step_critical_path import critical_path_sentences
from placement_viz.reports.step_devices import device_sentences, second_device_answer
from placement_viz.reports.step_input import input_answer
from placement_viz.reports.step_memory import memory_sentences
from placement_viz.reports.step_transfers import transfer_sentences

__all__ = ["Topic", "step_answers", "step_topics"]


@dataclasses.dataclass(frozen=True)
class Topic:
    """A part of the step, in sentences.

    Attributes:
        title: What it is about.
        sentences: What is to be said, the most important first; not empty.
    """

    title: str
    sentences: tuple[str, ...]


def step_answers(analysis: Analysis) -> dict[str, str]:
    """Return the questions that people bring, each with its answer."""
    step = analysis.step
    return {
        "Is the second device used?": second_device_answer(step.devices),
        "Is the step input-bound?": input_answer(step.devices),
    }


def step_topics(analysis: Analysis) -> list[Topic]:
    """Return everything that is to be said about a judged run, by topic."""
    step, trace = analysis.step, analysis.run.trace
    topics = (
        ("Devices", device_sentences(step.devices)),
        ("Transfers", transfer_sentences(step.transfers, trace)),
        ("Critical path", critical_path_sentences(step.critical_path, step.flow)),
        ("Memory", memory_sentences(step.memory, trace.devices)),
    )
    return [Topic(title, tuple(found)) for title, found in topics if found]
