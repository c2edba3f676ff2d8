"""Devices of forward ops that the trace does not show and no graph tells.

Optimisers prune, fuse and fold forward ops, so a third of the gradient ops has none
in a plain timeline. What is left tells in most cases where it was. The rules, in the
order in which they are asked:

- an op that was fused lives on in the op that took what was read for it;
- an op whose scope ran on one device only ran there too;
- an op between two others on one device is on that device;
- an op at the end of the loss is on the default device if what it takes is;
- an op is where the program has all others of its kind.

A rule answers only when all that it looks at agrees; otherwise nothing is said. What
no rule can tell is the end of the loss where it takes what ran on another device: the
program may compute it there or on the default device, and the two leave one trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.fusions import Fusions, only
from placement_viz.analysis.colocation.habits import Habits
from placement_viz.analysis.colocation.loss_end import LossEnd
from placement_viz.analysis.colocation.pairs import Pair, Rule
from placement_viz.analysis.colocation.scopes import NO_EVIDENCE, Scopes

__all__ = ["Inference"]

# What is left of a loop, a condition or a call and is where the whole was.
_LOOP = re.compile(r"(?!_cloop)(?P<whole>.+)/LoopCond/_\d+")
_CONDITION_OR_CALL = re.compile(
    r"(?!_cloop)(?P<condition>.+)/(?:switch_pred|pivot_[tf])/_\d+"
    r"|Func/(?P<call>.+)/input_control_node/_\d+"
)


class Inference:
    """Forward ops and their devices, looked up once each."""

    def __init__(self, facts: Facts, pairs: Mapping[str, Pair]) -> None:
        """Prepare the look-up for one run.

        Args:
            facts: What the trace says.
            pairs: Gradient op to its pair.
        """
        self._facts = facts
        self._pairs = pairs
        self._scopes = Scopes(facts, pairs)
        self._whole = self._find_whole_devices()
        self._found: dict[str, str | None] = {}
        self._weak: dict[str, Rule] = {}
        self._by_forward = self._group_by_forward()
        self._fusions = Fusions(facts, pairs, self._by_forward)
        self._loss_end = LossEnd(facts, pairs, self._by_forward)
        self._habits = Habits(facts, pairs, self._by_forward)

    def device_of(self, forward: str) -> str | None:
        """Return the device of a forward op that did not run; None if it is open."""
        # An unrolled net has thousands of ops in a row: no recursion.
        rest = [forward] if forward not in self._found else []
        while rest:
            last = rest[-1]
            open_ops: list[str] = []
            if last not in self._found:
                self._found[last] = self._ask(last)
                open_ops = [] if self._found[last] else self._open_takers(last)
            if open_ops:
                rest += open_ops
            else:
                rest.pop()
                self._found[last] = self._found[last] or self._ask_around(last)
        return self._found[forward]

    def rule_of(self, forward: str) -> Rule | None:
        """Return the rule that gave the device, where it is weaker than the others."""
        return self._weak.get(forward)

    def _ask(self, forward: str) -> str | None:
        # What a loop reads from other devices may draw its gradient there, so then
        # its device is open, whatever is around it.
        if forward in self._whole:
            return only(self._whole[forward])
        return self._fusions.device_of(forward) or self._scopes.device_around(forward)

    def _ask_around(self, forward: str) -> str | None:
        """Ask the ops around ``forward``, whose devices are looked up by now."""
        if forward in self._whole:
            return None
        if device := self._between(forward):
            return device
        takers = {self._forward_device(taker) for taker in self._takers(forward)}
        if device := self._loss_end.device_of(forward, takers):
            self._weak[forward] = Rule.AT_END
            return device
        if device := self._habits.device_of(forward, self._forward_device):
            self._weak[forward] = Rule.HABIT
        return device

    def _open_takers(self, forward: str) -> list[str]:
        """Return the ops that took ``forward`` and whose device is not looked up."""
        return [
            taker
            for taker in self._takers(forward)
            if taker not in self._facts.ran_on and taker not in self._found
        ]

    def device_of_scope(self, scope: str) -> str | None:
        """Return the device of all forward ops right in ``scope``; None if several."""
        return self._scopes.device_of(scope)

    def _between(self, forward: str) -> str | None:
        """Return the device of what ``forward`` took and of what took it.

        The gradient of an op takes the op's inputs, and the gradients of the ops
        that took its output.
        """
        takers = {self._forward_device(taker) for taker in self._takers(forward)}
        # At the end of the forward pass nothing takes the op, and it may well be
        # elsewhere than what it takes.
        if not takers:
            return None
        taken = {
            device
            for producer in self._sources(forward)
            if producer not in self._pairs
            for device in self._facts.ran_on.get(producer, ())
        }
        return only(taken | takers)

    def _takers(self, forward: str) -> list[str]:
        """Return the forward ops whose gradients the gradient of ``forward`` takes."""
        found = (self._pairs.get(each) for each in self._sources(forward))
        takers = (pair.forward_op for pair in found if pair and pair.forward_op)
        return [taker for taker in dict.fromkeys(takers) if taker != forward]

    def _sources(self, forward: str) -> Iterator[str]:
        for member in self._by_forward.get(forward, ()):
            for producer in self._facts.producers.get(member, ()):
                if self._facts.type_of(producer) not in NO_EVIDENCE - {"Identity"}:
                    yield producer

    def _forward_device(self, forward: str) -> str | None:
        return only(self._facts.ran_on.get(forward, ())) or self._found.get(forward)

    def _find_whole_devices(self) -> dict[str, set[str]]:
        """Return what was taken apart to the devices of what steers it and it reads."""
        found: dict[str, set[str]] = {}
        for name, devices in self._facts.ran_on.items():
            if match := _LOOP.fullmatch(name):
                found.setdefault(match["whole"], set()).update(devices)
        for name, devices in self._facts.ran_on.items() if found else ():
            if self._facts.op_type[name] == "ReadVariableOp":
                for scope in names.scopes_of(name):
                    if scope in found:
                        found[scope].update(devices)
        for name, devices in self._facts.ran_on.items():
            if match := _CONDITION_OR_CALL.fullmatch(name):
                whole = match["condition"] or match["call"]
                found.setdefault(whole, set()).update(devices)
        return found

    def _group_by_forward(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for name, pair in self._pairs.items():
            if pair.forward_op and name in self._facts.ran_on:
                groups.setdefault(pair.forward_op, []).append(name)
        return groups
