"""The engine's answers against the truth."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator

from placement_viz import analyze_run
from placement_viz.model import Run
from tests.oracle.samples import Sample, Truth

__all__ = [
    "INPUTS",
    "LIMITS",
    "Answer",
    "Limit",
    "Mark",
    "Score",
    "add_scores",
    "score",
]

#: What the engine is given, and how it is obtained from a sample.
INPUTS: dict[str, Callable[[Sample], Run]] = {
    "timeline": Sample.timeline_run,
    "run file": Sample.captured_run,
    "graph": Sample.graph_run,
}

#: Op types that are not judged: they compute nothing, or only handle shapes.
_NOT_JUDGED = frozenset(
    """
    Const NoOp Identity IdentityN _Arg _Retval Placeholder PlaceholderWithDefault
    Switch RefSwitch _SwitchN Merge RefMerge Enter RefEnter Exit RefExit NextIteration
    RefNextIteration LoopCond ControlTrigger _Send _Recv _HostSend _HostRecv
    StackV2 StackPushV2 StackPopV2 StackCloseV2
    Shape ShapeN Size Rank VariableShape
    """.split()  # noqa: SIM905 - words read better than thirty quoted lines
)


class Mark(enum.StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Limit:
    """What a total must reach.

    Attributes:
        right: Least ratio of right answers.
        wrong: Largest ratio of wrong answers.
    """

    right: float
    wrong: float


LIMITS = {"timeline": Limit(0.98, 0.005), "run file": Limit(0.995, 0.002)}


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the engine says of one gradient node, and what is true.

    Attributes:
        model: Name of the sample.
        given: Which of :data:`INPUTS` the engine saw.
        node: The node that ran.
        op_type: The type it ran as.
        mark: What the answer is worth.
        ran_on: Where it ran, sorted.
        expected: Devices that the engine expects; empty when it does not know.
        truth: Devices that hold it when gradients are colocated.
        rule: How the engine came to it.
        claimed_forward: The forward op that the engine names.
        forward: The forward op that TensorFlow had; None when there is none.
        forward_before: Where that op is in the plain step, if there at all.
        forward_after: Where it is in the colocated step, if there at all.
        inputs: What the node takes, as the trace says.
        duration_us: Sum over its executions.
        is_gradient: Whether it computes gradients; else the engine is mistaken.
    """

    model: str
    given: str
    node: str
    op_type: str
    mark: Mark
    ran_on: tuple[str, ...]
    expected: tuple[str, ...]
    truth: tuple[str, ...]
    rule: str
    claimed_forward: str | None
    forward: str | None
    forward_before: tuple[str, ...]
    forward_after: tuple[str, ...]
    inputs: tuple[str, ...]
    duration_us: int
    is_gradient: bool


@dataclasses.dataclass(frozen=True)
class Score:
    """The answers on one model, or on all, for one input.

    Attributes:
        answers: One for each judged node.
        without_truth: Gradient nodes that the colocated step does not have.
    """

    answers: tuple[Answer, ...]
    without_truth: tuple[str, ...]

    def count(self, mark: Mark) -> int:
        """Return how many answers have this mark."""
        return sum(answer.mark is mark for answer in self.answers)

    @property
    def n_mistaken(self) -> int:
        """Return how many nodes the engine wrongly takes for gradients."""
        return sum(not answer.is_gradient for answer in self.answers)

    def share(self, mark: Mark) -> float:
        """Return the ratio of answers with this mark; 0 without answers."""
        return self.count(mark) / max(1, len(self.answers))

    def time_share(self, mark: Mark) -> float:
        """Return the same, each answer weighted by the time its node took."""
        total = sum(answer.duration_us for answer in self.answers)
        of_mark = (a.duration_us for a in self.answers if a.mark is mark)
        return sum(of_mark) / max(1, total)

    def keeps(self, limit: Limit) -> bool:
        """Return whether the ratios are within ``limit``."""
        return (
            self.share(Mark.RIGHT) >= limit.right
            and self.share(Mark.WRONG) <= limit.wrong
        )


@dataclasses.dataclass(frozen=True)
class _Node:
    """Everything that ran under one name.

    Attributes:
        name: The name.
        op_type: The type it ran as.
        ran_on: Where it ran, sorted.
        inputs: What it takes.
        duration_us: Sum over its executions.
    """

    name: str
    op_type: str
    ran_on: tuple[str, ...]
    inputs: tuple[str, ...]
    duration_us: int


def score(sample: Sample, given: str) -> Score:
    """Return the engine's answers on ``sample`` when it sees one of :data:`INPUTS`."""
    run = INPUTS[given](sample)
    claims = _claims(run)
    truth = sample.truth
    answers, without_truth = [], []
    for node in _executed_nodes(run):
        if node.op_type in _NOT_JUDGED:
            continue
        if node.name not in truth.gradients and node.name not in claims:
            continue
        if node.name not in truth.by_name:
            without_truth.append(node.name)
            continue
        claim = claims.get(node.name, _Claim())
        answers.append(_answer(sample.name, given, node, claim, truth))
    return Score(tuple(answers), tuple(without_truth))


def add_scores(scores: Iterable[Score]) -> Score:
    """Return the score over several models."""
    scores = list(scores)
    return Score(
        answers=tuple(answer for one in scores for answer in one.answers),
        without_truth=tuple(node for one in scores for node in one.without_truth),
    )


@dataclasses.dataclass
class _Claim:
    """What the engine says of one node, over all its executions."""

    expected: set[str | None] = dataclasses.field(default_factory=set)
    rule: str = "not recognised as a gradient op"
    forward: str | None = None


def _claims(run: Run) -> dict[str, _Claim]:
    table = analyze_run(run).colocation.gradients
    claims: dict[str, _Claim] = {}
    columns = table.select("name", "expected_device", "rule", "forward_op")
    for name, expected, rule, forward in columns.iter_rows():
        claim = claims.setdefault(name, _Claim(rule=rule, forward=forward))
        claim.expected.add(expected)
    return claims


def _executed_nodes(run: Run) -> Iterator[_Node]:
    for (name, *_), rows in run.trace.executed.group_by("name", maintain_order=True):
        yield _Node(
            name=str(name),
            op_type=rows["op_type"][0],
            ran_on=tuple(sorted(rows["device"].unique())),
            inputs=tuple(rows["inputs"][0]),
            duration_us=int(rows["duration_us"].sum()),
        )


def _answer(model: str, given: str, node: _Node, claim: _Claim, truth: Truth) -> Answer:
    expected = {device for device in claim.expected if device is not None}
    forward = truth.forward.get(node.name)
    if None in claim.expected or not expected:
        mark = Mark.UNKNOWN
    else:
        mark = Mark.RIGHT if expected <= set(truth.by_name[node.name]) else Mark.WRONG
    return Answer(
        model=model,
        given=given,
        node=node.name,
        op_type=node.op_type,
        mark=mark,
        ran_on=node.ran_on,
        expected=tuple(sorted(expected)),
        truth=truth.by_name[node.name],
        rule=claim.rule,
        claimed_forward=claim.forward,
        forward=forward,
        forward_before=truth.plain_devices.get(forward or "", ()),
        forward_after=truth.devices.get(forward or "", ()),
        inputs=node.inputs,
        duration_us=node.duration_us,
        is_gradient=node.name in truth.gradients,
    )
