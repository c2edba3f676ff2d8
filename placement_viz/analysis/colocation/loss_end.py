"""The end of the forward pass, of which optimisers leave least.

A step that fetches no loss does not compute it, so the last ops before it are gone,
and nothing takes what is left. Where the program asks for a device up to its end, and
where it computes the loss on the default device, the traces are the same. They differ
once an op ran on the default device on values that came from elsewhere: from there on
the program asked for no device, and it does not start again just before it ends.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from placement_viz.analysis.colocation.lookup import Lookup
from placement_viz.analysis.colocation.scopes import NO_EVIDENCE

__all__ = ["LossEnd"]

#: From so many ops on the top level says something of another op there.
_ENOUGH = 2


class LossEnd(Lookup):
    """What the default device computed from what ran elsewhere."""

    def device_of(self, forward: str, takers: Iterable[str | None]) -> str | None:
        """Return the default device if ``forward`` is at the end of the loss there.

        Args:
            forward: An op that did not run.
            takers: Devices of the ops that took it, as far as they are known.
        """
        default = self._facts.default_device
        if default is None or not set(takers) <= {default, None}:
            return None
        around = self._around(forward)
        is_there = bool(around) and around <= self._came_back
        is_there = is_there or ("/" not in forward and self._is_top_level_there)
        return default if is_there else None

    def _around(self, forward: str) -> set[str]:
        """Return the forward ops and the readers of shapes next to ``forward``.

        TensorFlow places an op that reads a shape with what it reads it from, though
        that may not have run.

        Source:
            "Heuristic B" of ``core/common_runtime/placer.cc``, 2.x.
        """
        members = self._by_forward.get(forward, ())
        shapes = {each for each in members if self._facts.op_type[each] == "Shape"}
        taken = {
            producer
            for member in members
            # An optimiser lets it read the shape of another op, which ran.
            if member not in shapes
            for producer in self._facts.producers.get(member, ())
            if producer not in self._pairs
            and producer in self._facts.ran_on
            and self._facts.type_of(producer) not in NO_EVIDENCE - {"Identity"}
        }
        # A sum passes its gradient on, so its inputs are not the next to take it.
        if not taken:
            taken = {
                each for each in self._givers(forward) if self._facts.is_known(each)
            }
        return taken | shapes

    def _givers(self, forward: str) -> Iterator[str]:
        """Yield the forward ops whose gradients take the gradient of ``forward``."""
        for member in self._by_forward.get(forward, ()):
            for consumer in self._facts.consumers.get(member, ()):
                pair = self._pairs.get(consumer)
                if pair and pair.forward_op and pair.forward_op != forward:
                    yield pair.forward_op

    @functools.cached_property
    def _came_back(self) -> set[str]:
        """The ops on the default device that computed with what ran elsewhere."""
        here = (self._facts.default_device,)
        found: set[str] = set()
        for name, ran_on in self._facts.ran_on.items():  # in the order of first start
            if ran_on == here and self._facts.type_of(name) != "Const":
                for producer in self._facts.producers.get(name, ()):
                    elsewhere = self._facts.ran_on.get(producer, here)
                    if elsewhere != here or producer in found:
                        found.add(name)
                        break
        return found

    @functools.cached_property
    def _is_top_level_there(self) -> bool:
        """Whether all that lies in no scope computes there with what ran elsewhere.

        Such ops have nothing in common unless nobody asked for any of them.
        """
        top_level = [
            name
            for name in self._facts.ran_on
            if "/" not in name
            and name not in self._pairs
            and self._facts.type_of(name) not in NO_EVIDENCE
        ]
        return len(top_level) >= _ENOUGH and self._came_back.issuperset(top_level)
