"""What a pair of gradient op and forward op is, and how pairs are found."""

from __future__ import annotations

import enum

import msgspec

__all__ = ["SUM_RULES", "Pair", "Rule"]


class Rule(enum.Enum):
    """How a pair was found, strongest first.

    Attributes:
        sentence: The rule in words.
        evidence: What it rests on: ``graph``, ``trace``, ``dataflow``.
        confidence: How sure it is, from 0 to 1.
    """

    RECORDED = ("TensorFlow noted it while building the graph", "graph", 1.0)
    GRAPH_NAME = ("its name holds the forward op, which is in the graph", "graph", 1.0)
    TRACE_NAME = ("its name holds the forward op, which ran", "trace", 0.95)
    CONSUMER = ("it is made for the gradient of that op", "trace", 0.9)
    UPDATE = ("an optimiser updates that variable with it", "trace", 0.9)
    SUMMANDS = ("it sums gradients of what that op made", "dataflow", 0.8)
    LOOP = ("it counts the iterations of the loop that ends there", "dataflow", 0.8)
    TAPE_TYPE = ("its scope holds one op whose gradient it can be", "trace", 0.8)
    TAPE_SCOPE = ("its name holds the scope of the forward op", "trace", 0.7)
    PARTS = ("all that it adds up belongs on one device", "dataflow", 0.8)
    NAME_ONLY = ("its name holds an op that did not run", "dataflow", 0.7)
    LOOP_READS = (
        "its loop goes with the first variable that it reads",
        "dataflow",
        0.7,
    )
    HABIT = ("the program has the like of that op there throughout", "dataflow", 0.6)
    AT_END = (
        "that op takes only what ran on the default device, at the end of the loss",
        "dataflow",
        0.6,
    )
    NONE = ("nothing tells which forward op it belongs to", None, 0.0)

    def __init__(self, sentence: str, evidence: str | None, confidence: float) -> None:
        """Keep what each rule is made of where it is found at once."""
        self.sentence = sentence
        self.evidence = evidence
        self.confidence = confidence


#: How ops are paired that are made for the gradient of an op, sums above all.
SUM_RULES = frozenset({Rule.CONSUMER, Rule.SUMMANDS, Rule.UPDATE, Rule.NONE})


class Pair(msgspec.Struct, frozen=True, gc=False):
    """A gradient op's forward op.

    Attributes:
        forward_op: Its name; None when it is not known.
        rule: How it was found.
        scope: The gradient scope the op lies in; empty when only recorded.
        forward_scope: The scope of the forward op, where that is all that is known.
    """

    forward_op: str | None
    rule: Rule
    scope: str = ""
    forward_scope: str = ""
