"""Forward ops that did not run as such, found in or beside what ran in their place.

An optimiser that fuses ops leaves one of them, under its name, that takes what all of
them took. And TensorFlow's functions make more than one op: a number in ``x * 2.0``
becomes the constant ``mul/y``, the axes of a mean become a range. What is made in one
call asks for one device, so one that ran tells where the others were.
What reads the shape of an op is where the op is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from placement_viz.analysis.colocation.lookup import Lookup

__all__ = ["Fusions", "only"]

_READS = frozenset({"ReadVariableOp", "Identity", "ResourceGather"})
_FUSED = re.compile(r"_\w*?Fused(?P<kind>\w+)")
#: In the gradient of an op with more than one input.
_OF_SEVERAL = re.compile(r"_1$|/BroadcastGradientArgs$")
_CUSTOM = re.compile(r"(?:.*/)?IdentityN(?:_\d+)?")


class Fusions(Lookup):
    """Devices of forward ops by what ran in their place."""

    def device_of(self, forward: str) -> str | None:
        """Return the device of a forward op that did not run; None if it is open."""
        return (
            self._read_for(forward)
            or self._composed(forward)
            or self._fused(forward)
            or self._made_with(forward)
            or self._custom(forward)
            or self._measured(forward)
        )

    def _read_for(self, forward: str) -> str | None:
        """Return the device of the op that took what was read for ``forward``."""
        return only(
            device
            for child in (f"{forward}/ReadVariableOp", f"{forward}/Enter")
            for taker in self._facts.consumers.get(child, ())
            if taker not in self._pairs and self._facts.type_of(taker) not in _READS
            for device in self._facts.ran_on.get(taker, ())
        )

    def _composed(self, forward: str) -> str | None:
        """Return the device of the chain of unary ops that ``forward`` went into.

        It takes what the gradient of ``forward`` takes of the forward pass.
        """
        return only(
            device
            for producer in self._taken(forward)
            for taker in self._facts.consumers.get(producer, ())
            if taker not in self._pairs
            and self._facts.type_of(taker) == "_UnaryOpsComposition"
            for device in self._facts.ran_on.get(taker, ())
        )

    def _fused(self, forward: str) -> str | None:
        """Return the device of the fused op that ``forward`` went into.

        It is of the kind of ``forward``, as the ops of the gradient are, and took all
        that these take of the forward pass; so may another op, where that is one
        tensor only, and then the gradient must come from the fused op itself.
        """
        taken = set(self._taken(forward))
        if not taken:
            return None
        takers = [set(self._facts.consumers.get(each, ())) for each in taken]
        return only(
            device
            for taker in set.intersection(*takers)
            if taker not in self._pairs
            and (match := _FUSED.fullmatch(self._facts.type_of(taker)))
            and self._is_of_kind(forward, match["kind"])
            and (len(taken) > 1 or self._comes_from(forward, taker))
            for device in self._facts.ran_on.get(taker, ())
        )

    def _is_of_kind(self, forward: str, kind: str) -> bool:
        members = self._by_forward.get(forward, ())
        return any(kind in self._facts.type_of(member) for member in members)

    def _comes_from(self, forward: str, taker: str) -> bool:
        """Return whether the gradient of ``forward`` takes that of ``taker``."""
        return any(
            (pair := self._pairs.get(producer)) and pair.forward_op == taker
            for member in self._by_forward.get(forward, ())
            for producer in self._facts.producers.get(member, ())
        )

    def _made_with(self, forward: str) -> str | None:
        """Return the device of the constants and ranges made along with ``forward``.

        A constant asks for what its op asks for; where both ask for nothing, it goes
        with the op, or is on the default device, where the op is then too.
        """
        scope = f"{forward}/"
        return only(
            device
            for producer in self._taken(forward)
            if (self._facts.type_of(producer) == "Range")
            or (
                self._facts.type_of(producer) == "Const"
                and producer.startswith(scope)
                and "/" not in producer[len(scope) :]
            )
            for device in self._facts.ran_on.get(producer, ())
        )

    def _custom(self, forward: str) -> str | None:
        """Return the device of what an op with a custom gradient was made of.

        ``tf.custom_gradient`` makes an IdentityN just after the ops whose gradient it
        replaces, and the gradient takes values of these.
        """
        if not _CUSTOM.fullmatch(forward):
            return None
        return only(
            device
            for producer in self._taken(forward)
            if self._facts.type_of(producer) != "Const"
            for device in self._facts.ran_on.get(producer, ())
        )

    def _measured(self, forward: str) -> str | None:
        """Return the device of what reads the shape of ``forward``.

        The gradient of a sum over axes, say, reads the shape of what was summed, and
        TensorFlow places an op that reads a shape with what it reads it from.

        Source:
            "Heuristic B" of ``core/common_runtime/placer.cc``, 2.x.
        """
        takers = {
            pair.forward_op
            for member in self._by_forward.get(forward, ())
            for producer in self._facts.producers.get(member, ())
            if (pair := self._pairs.get(producer)) and pair.forward_op
        }
        return only(
            device
            for taker in takers - {forward}
            if (shape := self._only_shape(taker, of=forward))
            for device in self._facts.ran_on[shape]
        )

    def _only_shape(self, taker: str, of: str) -> str | None:
        """Return what reads the shape of the one input, ``of``, that ``taker`` has."""
        members = self._by_forward.get(taker, ())
        shapes = [each for each in members if self._facts.op_type[each] == "Shape"]
        if len(shapes) != 1 or any(map(_OF_SEVERAL.search, members)):
            return None
        givers = {
            pair.forward_op
            for member in members
            for consumer in self._facts.consumers.get(member, ())
            if (pair := self._pairs.get(consumer))
        }
        return shapes[0] if givers - {taker} == {of} else None

    def _taken(self, forward: str) -> Iterator[str]:
        """Yield what the gradient of ``forward`` takes of the forward pass."""
        for member in self._by_forward.get(forward, ()):
            for producer in self._facts.producers.get(member, ()):
                if producer not in self._pairs:
                    yield producer


def only(devices: Iterable[str | None]) -> str | None:
    """Return the one device of ``devices``; None when there are none or several."""
    found = set(devices)
    return found.pop() if len(found) == 1 else None
