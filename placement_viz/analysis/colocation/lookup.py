"""What all look at that find the device of a forward op that did not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairs import Pair

__all__ = ["Lookup"]


class Lookup:
    """One way to find such a device; each says in its own words when it holds."""

    def __init__(
        self,
        facts: Facts,
        pairs: Mapping[str, Pair],
        by_forward: Mapping[str, Sequence[str]],
    ) -> None:
        """Prepare for one run.

        Args:
            facts: What the trace says.
            pairs: Gradient op to its pair.
            by_forward: Forward op to the ops that compute its gradient and ran.
        """
        self._facts = facts
        self._pairs = pairs
        self._by_forward = by_forward
