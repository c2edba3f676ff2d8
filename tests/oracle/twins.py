"""Which node of the colocated step is which node of the plain step."""

from __future__ import annotations

from collections.abc import Collection

from tests.oracle.knowledge import BuildNotes

__all__ = ["Twins"]


class Twins:
    """The names that nodes of the plain step have in the colocated step.

    Nearly all have the same name. Sums of gradients are numbered as they are built,
    and the colocated build has more of them: it first adds up what is on one device.
    Optimisers may rewrite a node in one step and leave it alone in the other.
    """

    def __init__(
        self, plain: BuildNotes, colocated: BuildNotes, there: Collection[str]
    ) -> None:
        """Pair the sums of both builds, in the order in which they were built.

        Args:
            plain: Notes of the plain build.
            colocated: Notes of the colocated build.
            there: Nodes of the colocated step.
        """
        self._plain = plain
        self._there = there
        self._rewritten = {
            built: node
            for node in there
            if node not in colocated.names and (built := colocated.built_name(node))
        }
        self._sums: dict[str, str | None] = {}
        for before, after in zip(plain.sums, colocated.sums, strict=True):
            if len(before) == len(after):
                self._sums.update(zip(before, after, strict=True))
            else:
                # Partial sums have no counterpart, their total has.
                self._sums.update(dict.fromkeys(before[:-1]))
                self._sums[before[-1]] = after[-1]

    def twin_of(self, node: str) -> str | None:
        """Return the node of the colocated step that is ``node``, None without one."""
        built = self._plain.built_name(node)
        if built is None:
            return node if node in self._there else None
        twin = self._sums.get(built, built)
        if twin is None or self.is_unsettled(node):
            return None
        candidates = (node.replace(built, twin), twin, self._rewritten.get(twin))
        return next((c for c in candidates if c in self._there), None)

    def is_unsettled(self, node: str) -> bool:
        """Return whether ``node`` is a tape's sum that no gradient function takes.

        It is the gradient of a variable. No rule of TensorFlow says where it goes.
        """
        built = self._plain.built_name(node)
        return built is not None and (
            built.rpartition("/")[2].startswith("AddN")
            and built not in self._plain.forward
        )
