"""Which forward op each gradient op belongs to.

A gradient op is one that ``tf.gradients`` or a ``GradientTape`` made. It is found by
what TensorFlow noted while building the graph, else by its name: it lies in a
gradient scope, or its name holds ``<F>_grad/`` for a forward op F that exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.loop_counters import pair_loop_counters
from placement_viz.analysis.colocation.pairs import Pair, Rule
from placement_viz.analysis.colocation.readings import Reader

__all__ = ["pair_gradients"]

_TAPE = "gradient_tape"
_SUM = re.compile(r"AddN(?:_\d+)?")
# Of a loop's counters, which are made for no op's gradient.
_COUNTS = frozenset({"Add", "AddV2", "GreaterEqual", "LoopCond", "Sub"})
_UPDATE = re.compile(r"(?:Resource)?(?:Sparse)?(?:Apply|Scatter)|Assign")
_UPDATE_SCOPE = re.compile(r"(?:.*/)?update_(?P<variable>.+)/[^/]+")


def pair_gradients(facts: Facts) -> dict[str, Pair]:
    """Return gradient op to its pair.

    Returns:
        An entry for every gradient op of the graph, in the order of creation, then
        for those that ran and are in no graph, in the order of first start.
    """
    reader = Reader(facts)
    pairs: dict[str, Pair] = {}
    for name in facts.names:
        if not _is_transfer_endpoint(name, facts) and (
            pair := _pair_by_name(name, facts, reader)
        ):
            pairs[name] = pair
    _add_tape_sums(facts, pairs)
    pair_loop_counters(facts, pairs)
    _pair_by_consumers(facts, pairs)
    return pairs


def _is_transfer_endpoint(name: str, facts: Facts) -> bool:
    """Return whether graph partitioning made the node: it computes nothing.

    ``_cloop…`` and the copies of control edges repeat the text of a gradient op.
    """
    if name in facts.nodes:
        return False
    if name.startswith(("_cloop", "_arg_", "_retval_", "_SOURCE", "_SINK", "edge_")):
        return True
    origin = names.copied_from(name)
    return origin is not None and facts.is_known(origin)


def _pair_by_name(name: str, facts: Facts, reader: Reader) -> Pair | None:
    """Return the pair that graph and name give; None for what is no gradient op."""
    reading = reader.read(name)
    node = facts.nodes.get(name)
    if node is None:
        noted = facts.inner_forward.get(name)
        if noted is None:
            return reading
        return Pair(noted, Rule.RECORDED, reading.scope if reading else "")
    if node.forward is not None:
        return Pair(node.forward, Rule.RECORDED, reading.scope if reading else "")
    # A scope of the program's own may be called "gradients". What TensorFlow made
    # there is noted, if anything is.
    if facts.is_recorded and reading and reading.rule is Rule.NONE:
        return None
    return reading


def _add_tape_sums(facts: Facts, pairs: dict[str, Pair]) -> None:
    """Add the sums of a tape, which bear no mark: they lie beside its scope."""
    scopes = {pair.scope for pair in pairs.values() if pair.scope.endswith(_TAPE)}
    for name in facts.names if scopes else ():
        outer, _, last = name.rpartition("/")
        scope = f"{outer}/{_TAPE}" if outer else _TAPE
        if (
            name not in pairs
            and scope in scopes
            and _SUM.fullmatch(last)
            and any(each in pairs for each in facts.producers.get(name, ()))
        ):
            pairs[name] = Pair(None, Rule.NONE, scope)


def _pair_by_consumers(facts: Facts, pairs: dict[str, Pair]) -> None:
    """Pair what lies directly in a gradient scope: sums, zeros, seeds.

    TensorFlow makes these just before the gradient function of an op, for it, so
    they belong to the op whose gradient takes them. The sum that is a result of
    ``tf.gradients`` has no such consumer: it is the gradient of the one op whose
    output all the summands' forward ops took.

    Source:
        ``gradients_util._AggregatedGrads``, 2.21 and 1.15.
    """
    open_ops = [
        name
        for name, pair in pairs.items()
        if pair.rule is Rule.NONE and facts.type_of(name) not in _COUNTS
    ]
    # What takes an op was mostly made after it. Where it was not, the op is asked
    # again once its taker is paired.
    rest = list(open_ops)
    while rest:
        name = rest.pop()
        if pairs[name].rule is Rule.NONE and (pair := _pair_open(name, facts, pairs)):
            pairs[name] = pair
            rest += (
                each
                for each in facts.producers.get(name, ())
                if each in pairs and pairs[each].rule is Rule.NONE
                if facts.type_of(each) not in _COUNTS
            )


def _pair_open(name: str, facts: Facts, pairs: dict[str, Pair]) -> Pair | None:
    scope = pairs[name].scope
    takers = [
        pair.forward_op
        for consumer in facts.consumers.get(name, ())
        if (pair := pairs.get(consumer))
        and pair.forward_op
        and pair.scope == scope
        and pair.rule is not Rule.SUMMANDS
    ]
    if takers:
        # An addition passes its gradient on, so several may take it. The first to
        # run is next to it.
        return Pair(takers[0], Rule.CONSUMER, scope)
    if variable := _updated_variable(name, facts, pairs):
        return Pair(variable, Rule.UPDATE, scope)
    if origin := _common_producer(name, facts, pairs):
        return Pair(origin, Rule.SUMMANDS, scope)
    return None


def _updated_variable(name: str, facts: Facts, pairs: Mapping[str, Pair]) -> str | None:
    """Return the variable that an optimiser updates with ``name``, or the update."""
    for consumer in facts.consumers.get(name, ()):
        if _UPDATE.match(facts.type_of(consumer)):
            variable = facts.producers[consumer][0]
            return variable if facts.is_known(variable) else consumer
        # What is left of a lookup's gradient is prepared before it is applied.
        match = _UPDATE_SCOPE.fullmatch(consumer) if consumer not in pairs else None
        if match and facts.is_known(match["variable"]):
            return match["variable"]
    return None


def _common_producer(name: str, facts: Facts, pairs: dict[str, Pair]) -> str | None:
    """Return the one op whose output all the summands' forward ops took."""
    common: set[str] | None = None
    for summand in facts.producers.get(name, ()):
        pair = pairs.get(summand)
        if pair is None or pair.forward_op is None:
            return None
        taken = {
            producer
            for producer in facts.producers.get(pair.forward_op, ())
            if facts.type_of(producer) != "Const"
        }
        common = taken if common is None else common & taken
    if common is not None and len(common) == 1:
        return common.pop()
    return None
