"""Where a node is, or would have been had it run."""

from __future__ import annotations

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairing import Pair

__all__ = ["Homes"]

# A chain of colocation constraints is short; a longer one is a damaged graph.
_MAX_HOPS = 32
# Their kernels read the shape of what is where it is, so the placer leaves them there.
_FOLLOWS_INPUT = frozenset({"Shape", "ShapeN", "Size", "Rank"})


class Homes:
    """The devices of nodes, looked up once each."""

    def __init__(self, facts: Facts) -> None:
        """Prepare the look-up for one run."""
        self.facts = facts
        self._found: dict[str, str | None] = {}
        self._by_request: dict[str, str | None] = {}

    def device_of(self, name: str) -> str | None:
        """Return where ``name`` ran or was placed; without that, what places it.

        That is, in this order: its requested device, the device of what it is
        colocated with, and the default device. None when none of them is known.
        """
        if name not in self._found:
            self._found[name] = self._observed(name) or self._asked_for(name)
        return self._found[name]

    def expected_device(self, pair: Pair) -> str | None:
        """Return where colocation with the forward op puts the op of ``pair``."""
        if pair.forward_op is None:
            return None
        return self.device_of(pair.forward_op)

    def resolve(self, request: str) -> str | None:
        """Return the first device of the run that satisfies ``request``."""
        canonical = names.canonical_device(request)
        if canonical not in self._by_request:
            self._by_request[canonical] = next(
                (d for d in self.facts.devices if names.device_matches(canonical, d)),
                None,
            )
        return self._by_request[canonical]

    @property
    def default_device(self) -> str | None:
        """Return where TensorFlow puts what nothing constrains.

        Source:
            The placer sorts by type (GPU before CPU) and then by name
            (``core/common_runtime/placer.cc``).
        """
        devices = self.facts.devices
        return next(
            (d for d in devices if "/device:GPU:" in d), next(iter(devices), None)
        )

    def _observed(self, name: str) -> str | None:
        ran_on = self.facts.ran_on.get(name, ())
        if len(ran_on) == 1:
            return ran_on[0]
        return self.facts.placed.get(name)

    def _asked_for(self, name: str) -> str | None:
        for _ in range(_MAX_HOPS):
            node = self.facts.nodes.get(name)
            if node is None:
                return None
            if node.device:
                return self.resolve(node.device)
            if node.op in _FOLLOWS_INPUT and node.inputs:
                name = names.producer_of(node.inputs[0], self.facts.nodes)
            elif node.colocate:
                name = node.colocate[0]
            else:
                return self.default_device
            if found := self._observed(name):
                return found
        return None
