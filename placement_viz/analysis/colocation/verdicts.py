"""A gradient op on a device: is it at home, and if not, why not."""

from __future__ import annotations

import enum

import msgspec

from placement_viz import names
from placement_viz.analysis.colocation.homes import Homes
from placement_viz.analysis.colocation.pairs import SUM_RULES, Pair, Rule

__all__ = ["Cause", "Judgement", "Reason", "Verdict", "judge"]


class Verdict(enum.StrEnum):
    """What is to be said of a gradient op."""

    MISPLACED = "misplaced"
    COLOCATED = "colocated"
    EXEMPT = "exempt"
    UNKNOWN = "unknown"


class Reason(enum.StrEnum):
    """Why an op away from its forward op is no finding."""

    EXPLICIT = "explicit"
    PINNED = "pinned"
    NO_KERNEL = "no-kernel"
    NO_COMPUTE = "no-compute"
    FOLDED = "folded"
    SHAPE = "shape"


class Cause(enum.StrEnum):
    """Why a misplaced op is where it is."""

    UNCONSTRAINED = "unconstrained"
    INHERITED = "inherited"
    TAPE_SCOPE = "tape-scope"
    RESOURCE_EDGE = "resource-edge"
    GROUP_MERGE = "group-merge"
    WHILE_BODY = "while-body"
    SHARED = "shared"


#: Op types that pass data or control on and compute nothing.
_NO_COMPUTE = frozenset(
    {
        "Const",
        "ControlTrigger",
        "Enter",
        "Exit",
        "Identity",
        "IdentityN",
        "LoopCond",
        "Merge",
        "NextIteration",
        "NoOp",
        "PlaceholderWithDefault",
        "RefEnter",
        "RefExit",
        "RefMerge",
        "RefNextIteration",
        "RefSwitch",
        "StackCloseV2",
        "StackPopV2",
        "StackPushV2",
        "StackV2",
        "Switch",
        "_Arg",
        "_Retval",
        "_SwitchN",
    }
)
#: Op types that handle shapes: a few integers, kept in host memory.
_SHAPE = frozenset({"Shape", "ShapeN", "Size", "Rank", "VariableShape"})


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """The proof for one gradient op on one device.

    Attributes are the columns of the same name in
    :data:`~placement_viz.analysis.colocation.GRADIENTS_SCHEMA`.
    """

    forward_op: str | None
    forward_device: str | None
    expected_device: str | None
    evidence: str | None
    rule: str
    confidence: float
    verdict: Verdict
    reason: Reason | None
    cause: Cause | None
    requested_device: str | None
    source: str | None


def judge(name: str, device: str, pair: Pair, homes: Homes) -> Judgement:
    """Return the verdict on gradient op ``name``, which ran on ``device``."""
    facts = homes.facts
    expected = homes.expected_device(name)
    forward = pair.forward_op
    at_home = homes.device_of(forward) if forward else None
    verdict, reason = _verdict(name, device, expected, homes)
    cause = None
    if verdict is Verdict.MISPLACED:
        has_moved_home = (
            expected != at_home
            and pair.rule not in SUM_RULES
            and not homes.is_gradient(forward)
        )
        cause = _cause(name, device, has_moved_home, homes)
    # A pair whose device is open proves nothing, and a sum needs none.
    rule = pair.rule if expected else Rule.NONE
    if expected and rule is Rule.NONE:
        rule = Rule.PARTS
    if expected and forward and rule is Rule.NAME_ONLY:
        rule = homes.rule_of(forward) or rule
    node = facts.nodes.get(name)
    return Judgement(
        forward_op=forward,
        forward_device=at_home,
        expected_device=expected,
        evidence=rule.evidence,
        rule=(rule if expected else pair.rule).sentence,
        confidence=rule.confidence,
        verdict=verdict,
        reason=reason,
        cause=cause,
        requested_device=node.device if node else None,
        source=facts.source_of.get(name),
    )


def _verdict(
    name: str, device: str, expected: str | None, homes: Homes
) -> tuple[Verdict, Reason | None]:
    if device == expected:
        return Verdict.COLOCATED, None
    if reason := _exemption(name, device, homes):
        return Verdict.EXEMPT, reason
    if expected is None:
        return Verdict.UNKNOWN, None
    return Verdict.MISPLACED, None


def _exemption(name: str, device: str, homes: Homes) -> Reason | None:
    facts = homes.facts
    node = facts.nodes.get(name)
    # The type it ran as: an optimiser may have folded a product into a constant.
    ran_as = facts.op_type[name]
    if ran_as == "Const" and node is not None and node.op != "Const":
        return Reason.FOLDED
    if ran_as in _NO_COMPUTE:
        return Reason.NO_COMPUTE
    if ran_as in _SHAPE:
        return Reason.SHAPE
    if node is None or not node.device:
        return None
    request = names.canonical_device(node.device)
    if not names.device_matches(request, device):
        # Soft placement, unless the op must be where its resource is.
        return None if homes.resource_device(name) == device else Reason.NO_KERNEL
    return Reason.EXPLICIT if homes.is_asked_for_around(name) else Reason.PINNED


def _cause(name: str, device: str, has_moved_home: bool, homes: Homes) -> Cause:
    """Return why a misplaced op is where it is.

    Args:
        name: The op.
        device: Where it ran.
        has_moved_home: Whether colocation would draw its forward op elsewhere too.
        homes: Where nodes belong.
    """
    facts = homes.facts
    node = facts.nodes.get(name)
    if homes.resource_device(name) == device:
        return Cause.RESOURCE_EDGE
    if "gradient_tape/" in name:
        return Cause.TAPE_SCOPE
    if homes.is_in_loop_body(name):
        return Cause.WHILE_BODY
    if homes.is_shared(name):
        return Cause.SHARED
    if node is not None and node.colocate:
        return Cause.INHERITED
    return Cause.GROUP_MERGE if has_moved_home else Cause.UNCONSTRAINED
