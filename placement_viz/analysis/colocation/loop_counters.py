"""The counters that ``tf.gradients`` adds to a v1 loop.

They lie directly in the gradient scope, named like anything else there, and count
the iterations on the way forward so that the way back has as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairs import Pair, Rule

__all__ = ["pair_loop_counters"]

_COUNTER_TYPES = frozenset(
    {
        "Add",
        "AddV2",
        "Const",
        "Enter",
        "Exit",
        "GreaterEqual",
        "Identity",
        "LoopCond",
        "Merge",
        "NextIteration",
        "StackPopV2",
        "StackPushV2",
        "StackV2",
        "Sub",
        "Switch",
    }
)


def pair_loop_counters(facts: Facts, pairs: dict[str, Pair]) -> None:
    """Pair the counters of every loop with the exit that they are made for.

    TensorFlow makes them for the first exit of the loop that it comes upon. They
    hang together, and one of them takes the condition of the forward loop.

    Args:
        facts: What trace and graph say.
        pairs: Gradient op to its pair; those without a forward op are filled in.

    Source:
        ``control_flow_state._ControlFlowState.AddWhileContext``, 2.21 and 1.15.
    """
    if not facts.nodes and _has_nested_loops(facts, pairs):
        # The counters of a loop in a loop are stacked, and bind the two together.
        return
    switches = [
        (name, pair.scope)
        for name, pair in pairs.items()
        if pair.rule is Rule.NONE and facts.type_of(name) == "Switch"
    ]
    first = _first_gradients(pairs) if switches else {}
    for name, scope in switches:
        condition = (facts.producers.get(name) or ("",))[-1]
        # The counter of the backward loop has a condition of its own.
        if facts.type_of(condition) == "LoopCond" and condition not in pairs:
            exits = [
                (first[scope, each], each)
                for each in _exits(condition, facts, pairs)
                if (scope, each) in first
            ]
            if not exits:
                continue
            _, exit_op = min(exits)
            for member in _open_neighbours(name, facts, pairs):
                pairs[member] = Pair(exit_op, Rule.LOOP, scope)


def _has_nested_loops(facts: Facts, pairs: dict[str, Pair]) -> bool:
    loops = {
        name.rpartition("/")[0]
        for name, kind in facts.op_type.items()
        if kind == "LoopCond" and name not in pairs and not name.startswith("_cloop")
    }
    return any(scope in loops for loop in loops for scope in names.scopes_of(loop))


def _exits(condition: str, facts: Facts, pairs: dict[str, Pair]) -> set[str]:
    """Return the exits of the forward loop that ``condition`` steers."""
    return {
        exit_op
        for switch in facts.consumers.get(condition, ())
        for exit_op in facts.consumers.get(switch, ())
        if facts.type_of(exit_op) == "Exit" and exit_op not in pairs
    }


def _first_gradients(pairs: dict[str, Pair]) -> dict[tuple[str, str], int]:
    """Return scope and forward op to the position of its first gradient op there."""
    first: dict[tuple[str, str], int] = {}
    for position, pair in enumerate(pairs.values()):
        if pair.forward_op:
            first.setdefault((pair.scope, pair.forward_op), position)
    return first


def _open_neighbours(start: str, facts: Facts, pairs: dict[str, Pair]) -> Iterable[str]:
    """Yield what hangs together with ``start`` and has no forward op yet."""
    seen, rest = {start}, [start]
    while rest:
        name = rest.pop()
        yield name
        if facts.type_of(name) == "Const":  # may serve the counters of several loops
            continue
        for other in _neighbours(name, facts):
            pair = pairs.get(other)
            if (
                pair
                and pair.rule is Rule.NONE
                and other not in seen
                and facts.type_of(other) in _COUNTER_TYPES
            ):
                seen.add(other)
                rest.append(other)


def _neighbours(name: str, facts: Facts) -> Iterator[str]:
    yield from facts.producers.get(name, ())
    yield from facts.consumers.get(name, ())
