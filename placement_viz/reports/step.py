"""What is to be said about where a step went, topic by topic."""

from __future__ import annotations

import dataclasses

from placement_viz.analysis import Analysis
from placement_viz.reports.step_critical_path import critical_path_sentences
from placement_viz.reports.step_devices import device_sentences, second_device_answer
from placement_viz.reports.step_input import input_answer
from placement_viz.reports.step_links import link_sentences
from placement_viz.reports.step_memory import memory_sentences
from placement_viz.reports.step_towers import controller_sentences, towers_sentences
from placement_viz.reports.step_transfers import hiding_answer, transfer_sentences

__all__ = ["Topic", "step_answers", "step_topics"]


#: A run of many steps has two sentences a step.
_MOST_IN_ANSWER = 2


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
    step, trace = analysis.step, analysis.run.trace
    answers = {
        "Is the second device used?": second_device_answer(step.devices),
        "Is the step input-bound?": input_answer(step.devices),
        "Are transfers hidden behind computing?": hiding_answer(step.transfers, trace),
        "What do devices do while variables are updated?": " ".join(
            controller_sentences(step.controller, trace)[:_MOST_IN_ANSWER]
        ),
    }
    if link := link_sentences(step.transfers.link):
        answers["Is the link to the cards as wide as it should be?"] = " ".join(link)
    return answers


def step_topics(analysis: Analysis) -> list[Topic]:
    """Return everything that is to be said about a judged run, by topic."""
    step, trace = analysis.step, analysis.run.trace
    topics = (
        ("Devices", device_sentences(step.devices)),
        ("Transfers", transfer_sentences(step.transfers, trace)),
        ("Towers", towers_sentences(step.towers, trace)),
        ("Updates", controller_sentences(step.controller, trace)),
        ("Critical path", critical_path_sentences(step.critical_path, step.flow)),
        ("Memory", memory_sentences(step.memory, trace.devices)),
    )
    return [Topic(title, tuple(found)) for title, found in topics if found]
