"""Which scopes are on one device, so that all that lies in them is."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.fusions import only
from placement_viz.analysis.colocation.pairs import Pair

__all__ = ["NO_EVIDENCE", "Scopes"]

#: They stay with their variable or with their input, wherever the layer is.
NO_EVIDENCE = frozenset(
    {
        "Const",
        "Identity",
        "IdentityN",
        "NoOp",
        "ReadVariableOp",
        "Shape",
        "Size",
        "Rank",
        "VarHandleOp",
        "VariableV2",
        "Variable",
        "_Arg",
        "_Retval",
        "_SOURCE",
    }
)
#: They go where what they pass on is, or where a loop is steered.
_CONTROL_FLOW = frozenset(
    {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"}
)
#: From so many ops on a scope says something of the scopes in it and around it.
_ENOUGH = 2


class Scopes:
    """Devices of the forward ops in each scope."""

    def __init__(self, facts: Facts, pairs: Mapping[str, Pair]) -> None:
        """Prepare the look-up for one run.

        Args:
            facts: What the trace says.
            pairs: Gradient op to its pair.
        """
        self._facts = facts
        self._pairs = pairs

    def device_of(self, scope: str) -> str | None:
        """Return the device of all forward ops right in ``scope``; None if several."""
        return only(self._right_in.get(scope, ()))

    def device_around(self, forward: str) -> str | None:
        """Return the device of the scope that ``forward`` lies in; None if it is open.

        A scope without ops of its own is judged by the scopes in it, and one without
        any by the one around it: a tower is on one device, down to its last layer.
        The top level is no scope.
        """
        scope = forward.rpartition("/")[0]
        if scope in self._right_in:
            return self.device_of(scope) if scope else None
        for scope in names.scopes_of(forward):
            if scope in self._below:
                n_ops, devices = self._below[scope]
                return only(devices) if n_ops >= _ENOUGH else None
        return None

    @functools.cached_property
    def _right_in(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, devices in self._evidence():
            found.setdefault(name.rpartition("/")[0], set()).update(devices)
        return found

    @functools.cached_property
    def _below(self) -> dict[str, tuple[int, set[str]]]:
        """Scope to the number and the devices of the forward ops anywhere in it."""
        found: dict[str, tuple[int, set[str]]] = {}
        for name, devices in self._evidence():
            if self._facts.type_of(name) not in _CONTROL_FLOW:
                for scope in names.scopes_of(name):
                    n_ops, known = found.setdefault(scope, (0, set()))
                    known.update(devices)
                    found[scope] = n_ops + 1, known
        return found

    def _evidence(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the forward ops that are where they were asked for, with devices."""
        for name, devices in self._facts.ran_on.items():
            if not (
                name in self._pairs
                or names.copied_from(name)
                or self._facts.type_of(name) in NO_EVIDENCE
            ):
                yield name, devices
