"""Where each gradient op belongs, and where its forward op is."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from placement_viz import names
from placement_viz.analysis.colocation.around import devices_around
from placement_viz.analysis.colocation.entanglement import find_entangled
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.inference import Inference
from placement_viz.analysis.colocation.loop_homes import find_loop_homes
from placement_viz.analysis.colocation.pairs import Pair, Rule
from placement_viz.analysis.colocation.rebuild import Rebuilt, rebuild_colocated
from placement_viz.analysis.colocation.sums import place_sums
from placement_viz.analysis.placer import FUNCTION_CALLS, place

__all__ = ["Homes"]

_LOOPS = FUNCTION_CALLS - {"PartitionedCall", "StatefulPartitionedCall"}


class Homes:
    """Devices of nodes: with a graph by replaying the placer, else by what ran."""

    def __init__(self, facts: Facts, pairs: Mapping[str, Pair]) -> None:
        """Prepare the look-up for one run.

        Args:
            facts: What trace and graph say.
            pairs: Gradient op to its pair.
        """
        self.facts = facts
        self._pairs = pairs
        self._found: dict[str, str | None] = {}

    def expected_device(self, name: str) -> str | None:
        """Return where gradient op ``name`` is when gradients are colocated."""
        for origin in self._origins(name) if self.facts.nodes else ():
            if self._pairs[origin].forward_op and origin in self._colocated:
                return self._colocated[origin]
        if name in self._sums:
            return self._sums[name]
        return self._beside_forward_op(name)

    def device_of(self, name: str) -> str | None:
        """Return where ``name`` ran or was placed, or would have been; else None."""
        ran_on = self.facts.ran_on.get(name, ())
        if len(ran_on) == 1:
            return ran_on[0]
        return (
            self.facts.placed.get(name)
            or self._as_built.get(name)
            or self._inference.device_of(name)
        )

    def rule_of(self, forward: str) -> Rule | None:
        """Return how the device of a forward op was found, if not by its pair."""
        if forward in self._loop_homes:
            return Rule.LOOP_READS
        return self._inference.rule_of(forward)

    def resource_device(self, name: str) -> str | None:
        """Return the device of the resource that ``name`` takes; None without one."""
        for source in self.facts.handles_taken(name):
            return self.device_of(source)
        return None

    def is_asked_for_around(self, name: str) -> bool:
        """Return whether ``name`` asks for the ``tf.device`` its call was made in."""
        request = names.canonical_device(self.facts.nodes[name].device)
        return self._around.get(self._pairs[name].scope) == request

    def is_gradient(self, name: str | None) -> bool:
        """Return whether ``name`` is a gradient op itself, as in a second order."""
        return name in self._pairs

    def is_shared(self, name: str) -> bool:
        """Return whether an optimiser made ``name`` serve a gradient elsewhere too."""
        takers = self.facts.merged.get(name)
        if not takers:
            return False
        home = self.expected_device(name)
        return any(
            self.expected_device(taker) not in {None, home}
            for taker in takers
            if taker in self._pairs
        )

    def is_in_loop_body(self, name: str) -> bool:
        """Return whether ``name`` is in the gradient of a loop or condition."""
        return self._has_calls and any(
            kind in _LOOPS for kind in map(self.facts.type_of, self._holders(name))
        )

    def collateral_moves(self) -> dict[str, tuple[str, str]]:
        """Return the forward ops that colocation moves, with device before and after.

        Only ops that ran, and only those whose device the replay of the graph as it
        was built gets right; empty without a graph.
        """
        return {
            name: (ran_on, then)
            for name, ran_on, then in self._replayed_elsewhere
            if ran_on == self._as_built.get(name)
        }

    def replay(self) -> tuple[int, int]:
        """Return how many forward ops the replay places, and how many right.

        This is what a prediction by the same rules is to be measured by. A forward
        op that colocation moves counts by where the graph as built has it.
        """
        forward_ops = self.facts.ran_on.keys() - self._pairs.keys()
        n_placed = len(forward_ops & self._colocated.keys())
        n_wrong = len(self._replayed_elsewhere) - len(self.collateral_moves())
        return n_placed, n_placed - n_wrong

    @functools.cached_property
    def _replayed_elsewhere(self) -> list[tuple[str, str, str]]:
        """Return the forward ops that ran elsewhere than the colocated graph has them.

        Each with the device it ran on and the other one.
        """
        return [
            (name, ran_on[0], then)
            for name, ran_on in self.facts.ran_on.items()
            # A copied constant is on several devices, and was moved from none.
            if len(ran_on) == 1
            and name not in self._pairs
            and (then := self._colocated.get(name))
            and then not in ran_on
        ]

    def _beside_forward_op(self, name: str) -> str | None:
        """Return the device of the forward op, which may be a gradient op itself."""
        if name in self._found:
            return self._found[name]
        self._found[name] = None  # a damaged trace may go in circles
        pair = self._pairs[name]
        forward = pair.forward_op
        if pair.rule is Rule.TAPE_SCOPE:
            found = self._inference.device_of_scope(
                pair.forward_scope
            ) or self._inference.device_of(pair.forward_scope)
        elif forward is None:
            found = None
        elif forward in self._pairs:
            found = self.expected_device(forward)
        elif forward in self._loop_homes:
            found = self._loop_homes[forward]
        elif forward in self._entangled:
            found = None
        else:
            found = self.device_of(forward)
        self._found[name] = found
        return found

    def _origins(self, name: str) -> Sequence[str]:
        """Return the nodes of the graph that ``name`` is or was made from."""
        if name in self.facts.nodes:
            return (name,)
        found = (*names.rewritten_from(name), *self._holders(name))
        return [origin for origin in found if origin in self._pairs]

    def _holders(self, name: str) -> Iterator[str]:
        """Yield the loops, conditions and calls that ``name`` was taken out of."""
        for scope in names.scopes_of(name) if self._has_calls else ():
            if self.facts.type_of(scope) in FUNCTION_CALLS:
                yield scope

    @functools.cached_property
    def _has_calls(self) -> bool:
        return any(node.op in FUNCTION_CALLS for node in self.facts.nodes.values())

    @functools.cached_property
    def _around(self) -> Mapping[str, str]:
        return devices_around(self.facts.nodes, self._pairs)

    @functools.cached_property
    def _inference(self) -> Inference:
        return Inference(self.facts, self._pairs)

    @functools.cached_property
    def _entangled(self) -> frozenset[str]:
        if self.facts.nodes:
            return frozenset()
        return find_entangled(self.facts, self._pairs)

    @functools.cached_property
    def _loop_homes(self) -> Mapping[str, str]:
        return {} if self.facts.nodes else find_loop_homes(self.facts, self._pairs)

    @functools.cached_property
    def _sums(self) -> Mapping[str, str | None]:
        return place_sums(self.facts, self._pairs, self._beside_forward_op)

    @functools.cached_property
    def _colocated(self) -> Mapping[str, str]:
        rebuilt = rebuild_colocated(self.facts.nodes, self._pairs, self.facts.kernels)
        placed = place(rebuilt.nodes, self.facts.devices)
        for old, new in rebuilt.renamed.items():
            if new in placed:  # a damaged graph adds up what is not there
                placed.setdefault(old, placed[new])
        return placed

    @functools.cached_property
    def _as_built(self) -> Mapping[str, str]:
        if not self.facts.nodes:
            return {}
        rebuilt: Rebuilt = rebuild_colocated(self.facts.nodes, {}, self.facts.kernels)
        return place(rebuilt.nodes, self.facts.devices)
