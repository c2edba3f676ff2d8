"""Which ``tf.device`` a call that made gradients was in."""

from __future__ import annotations

import collections
from collections.abc import Mapping

from placement_viz import names
from placement_viz.analysis.colocation.pairs import Pair
from placement_viz.schema import GraphNode

__all__ = ["devices_around"]


def devices_around(
    nodes: Mapping[str, GraphNode], pairs: Mapping[str, Pair]
) -> dict[str, str]:
    """Return gradient scope to the ``tf.device`` around the call that made it.

    It is what most of the gradient ops that nothing else binds ask for.
    """
    asked = collections.Counter(
        (pair.scope, node.device)
        for name, pair in pairs.items()
        if (node := nodes.get(name)) is not None and not node.colocate
    )
    found: dict[str, collections.Counter[str]] = {}
    for (scope, device), n in asked.items():
        votes = found.setdefault(scope, collections.Counter())
        votes[names.canonical_device(device)] += n
    return {scope: votes.most_common(1)[0][0] for scope, votes in found.items()}
