"""Which forward op each gradient op belongs to.

A gradient op is one that ``tf.gradients`` or a ``GradientTape`` made. It is found by
what TensorFlow noted while building the graph, else by its name: it lies in a
gradient scope, or its name holds ``<F>_grad/`` for a forward op F that exists.

Source:
    ``gradients_util._GradientsHelper`` and ``_AggregatedGrads`` (2.21 and 1.x alike)
    for the names and for how gradients are summed.
"""

from __future__ import annotations

import dataclasses
import enum

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts

__all__ = ["Pair", "Rule", "pair_gradients"]


class Rule(enum.Enum):
    """How a pair was found: sentence, evidence and confidence, strongest first."""

    RECORDED = ("TensorFlow noted it while building the graph", "graph", 1.0)
    GRAPH_NAME = ("its name holds the forward op, which is in the graph", "graph", 1.0)
    TRACE_NAME = ("its name holds the forward op, which ran", "trace", 0.95)
    SUM = ("it sums the gradients of what that op's gradient takes", "trace", 0.9)
    SUM_OF_GRADIENTS = ("it sums gradients of what that op made", "dataflow", 0.8)
    DATAFLOW = ("its name holds an op that did not run", "dataflow", 0.7)
    NONE = ("nothing tells which forward op it belongs to", None, 0.0)

    @property
    def sentence(self) -> str:
        """Return the rule in words."""
        return str(self.value[0])

    @property
    def evidence(self) -> str | None:
        """Return what the rule rests on: ``graph``, ``trace``, ``dataflow``."""
        evidence: str | None = self.value[1]
        return evidence

    @property
    def confidence(self) -> float:
        """Return how sure the rule is, from 0 to 1."""
        return float(self.value[2])


@dataclasses.dataclass(frozen=True)
class Pair:
    """A gradient op's forward op.

    Attributes:
        forward_op: Its name; None when it is not known.
        rule: How it was found.
        group: The gradient ops of one forward op in one gradient scope share it;
            empty for those that stand alone.
    """

    forward_op: str | None
    rule: Rule
    group: str = ""


def pair_gradients(facts: Facts) -> dict[str, Pair]:
    """Return gradient op to its pair, for every gradient op that ran."""
    scopes = _find_gradient_scopes(facts)
    pairs: dict[str, Pair] = {}
    for name in facts.ran_on:
        if not _is_transfer_endpoint(name, facts) and (
            pair := _pair_by_name(name, facts, scopes)
        ):
            pairs[name] = pair
    sums = [name for name, pair in pairs.items() if pair.rule is Rule.NONE]
    for name in sums:
        if facts.type_of(name) in {"AddN", "Add", "AddV2"}:
            pairs[name] = _pair_sum(name, facts, pairs)
    return pairs


def _find_gradient_scopes(facts: Facts) -> set[str]:
    """Return the scopes in which the gradient of an op that exists was built.

    They may have any name: ``tf.gradients(name=…)``.
    """
    scopes = set()
    for name in facts.nodes or facts.ran_on:
        if "_grad" in name:
            for scope, forward in names.gradient_boundaries(name):
                if facts.is_known(forward):
                    scopes.add(scope)
                    break
    return scopes


def _is_transfer_endpoint(name: str, facts: Facts) -> bool:
    """Return whether graph partitioning made the node: it computes nothing.

    ``_cloop…`` and the copies of control edges repeat the text of a gradient op.
    """
    if name.startswith(("_cloop", "_arg_", "_retval_", "_SOURCE", "_SINK")):
        return True
    if name in facts.nodes:
        return False
    origin = names.copied_from(name)
    return origin is not None and facts.is_known(origin)


def _pair_by_name(name: str, facts: Facts, scopes: set[str]) -> Pair | None:
    """Return the pair that graph and name give; None for what is no gradient op."""
    node = facts.nodes.get(name)
    if node and node.forward:
        return Pair(node.forward, Rule.RECORDED, group=f"{node.forward}_grad")
    if "_grad" in name:
        for scope, forward in names.gradient_boundaries(name):
            group = f"{scope}/{forward}_grad"
            if forward in facts.nodes:
                return Pair(forward, Rule.GRAPH_NAME, group)
            if forward in facts.ran_on:
                return Pair(forward, Rule.TRACE_NAME, group)
        if reading := _reading_in_scope(name, scopes):
            scope, forward = reading
            return Pair(forward, Rule.DATAFLOW, f"{scope}/{forward}_grad")
    if _innermost_scope(name, scopes):
        return Pair(None, Rule.NONE)
    return None


def _reading_in_scope(name: str, scopes: set[str]) -> tuple[str, str] | None:
    """Return the longest reading whose scope is known to be a gradient scope."""
    for scope, forward in names.gradient_boundaries(name):
        if _is_gradient_scope(scope, scopes):
            return scope, forward
    return None


def _is_gradient_scope(scope: str, scopes: set[str]) -> bool:
    last = scope.rpartition("/")[2]
    return scope in scopes or bool(names.GRADIENT_SCOPE.fullmatch(last))


def _innermost_scope(name: str, scopes: set[str]) -> str | None:
    """Return the gradient scope that ``name`` lies in; None when in none."""
    scope = name.rpartition("/")[0]
    while scope:
        if _is_gradient_scope(scope, scopes):
            return scope
        scope = scope.rpartition("/")[0]
    return None


def _pair_sum(name: str, facts: Facts, pairs: dict[str, Pair]) -> Pair:
    """Return the pair of an op that adds up gradients arriving by several ways.

    Such a sum is the gradient of one op's output. It is taken by the gradient of
    that very op, if that has one.
    """
    for consumer in facts.consumers.get(name, ()):
        pair = pairs.get(consumer)
        if pair and pair.forward_op and pair.rule is not Rule.SUM:
            return Pair(pair.forward_op, Rule.SUM, pair.group)
    if origin := _common_producer(name, facts, pairs):
        return Pair(origin, Rule.SUM_OF_GRADIENTS)
    return Pair(None, Rule.NONE)


def _common_producer(name: str, facts: Facts, pairs: dict[str, Pair]) -> str | None:
    """Return the one op whose output all the summands' forward ops took."""
    common: set[str] | None = None
    for summand in facts.producers.get(name, ()):
        pair = pairs.get(summand)
        if pair is None or pair.forward_op is None:
            return None
        taken = {
            producer
            for producer in _producers_of(pair.forward_op, facts)
            if facts.type_of(producer) != "Const"
        }
        common = taken if common is None else common & taken
    if common is not None and len(common) == 1:
        return common.pop()
    return None


def _producers_of(name: str, facts: Facts) -> tuple[str, ...]:
    node = facts.nodes.get(name)
    if node is None:
        return facts.producers.get(name, ())
    return tuple(
        names.producer_of(tensor, facts.nodes)
        for tensor in node.inputs
        if not tensor.startswith("^")
    )
