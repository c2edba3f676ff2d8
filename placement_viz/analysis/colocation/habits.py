"""What a program does throughout, and so where it did not show.

A habit counts only when there are enough cases of it, on more than one device, and no
case against it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from placement_viz.analysis.colocation.fusions import only
from placement_viz.analysis.colocation.lookup import Lookup

__all__ = ["Habits"]

_PASSES_ON = frozenset({"Enter", "Identity", "ReadVariableOp", "Switch"})
_UPDATE = re.compile(r"(?:.*/)?update_.+/[^/]+")
_NUMBERED = re.compile(r"(?P<series>.*?)(?:_(?P<number>\d{1,9}))?")
#: Cases of a habit, and devices, from which on it is one.
_LEAST_CASES = 4
_LEAST_DEVICES = 2


class Habits(Lookup):
    """Devices of forward ops by what the program does elsewhere."""

    def device_of(
        self, forward: str, device_of: Callable[[str], str | None]
    ) -> str | None:
        """Return the device of a forward op that did not run; None if it is open.

        Args:
            forward: The op.
            device_of: Gives the device of others, as far as it is known.
        """
        return self._beside_variable(forward) or self._like_others(forward, device_of)

    def _beside_variable(self, forward: str) -> str | None:
        """Return the device of the variable that ``forward`` takes.

        None unless in this program every op is where its variable is; where variables
        are kept apart, on a server or on the first tower, that is not so.
        """
        reads = [each for each in self._taken(forward) if self._is_read(each)]
        if not reads or not self._stays_with_variables:
            return None
        return only(device for each in reads for device in self._facts.ran_on[each])

    @functools.cached_property
    def _stays_with_variables(self) -> bool:
        cases = [
            (self._facts.ran_on[name], self._facts.ran_on[taker])
            for name in self._facts.op_type
            if self._is_read(name)
            for taker in self._facts.consumers.get(name, ())
            if self._computes(taker)
        ]
        n_devices = len({here for here, _ in cases})
        is_habit = len(cases) >= _LEAST_CASES and n_devices >= _LEAST_DEVICES
        return is_habit and all(here == there for here, there in cases)

    def _is_read(self, name: str) -> bool:
        return self._facts.type_of(name) == "ReadVariableOp" and (
            name not in self._pairs
        )

    def _computes(self, name: str) -> bool:
        """Return whether ``name`` ran and is of the forward pass."""
        return (
            name in self._facts.ran_on
            and name not in self._pairs
            and self._facts.type_of(name) not in _PASSES_ON
            and not _UPDATE.fullmatch(name)
        )

    def _like_others(
        self, forward: str, device_of: Callable[[str], str | None]
    ) -> str | None:
        """Return the device of what ``forward`` takes, if its kind is found there.

        Layers that a program makes in a loop are numbered: ``mul``, ``mul_1``, … are
        all with what they take, ``add``, ``add_1``, …, and so is the last.
        """
        taken = self._taken_by_series(forward)
        if not taken:
            return None
        homes: list[str] = []
        for other in self._series.get(_series_of(forward), ()):
            home = device_of(other) if other != forward else None
            if home is None or self._taken_by_series(other).keys() != taken.keys():
                continue
            if only(self._taken_by_series(other).values()) != home:
                return None
            homes.append(home)
        return only(taken.values()) if len(set(homes)) >= _LEAST_DEVICES else None

    @functools.cached_property
    def _series(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for forward in self._by_forward:
            found.setdefault(_series_of(forward), []).append(forward)
        return found

    def _taken_by_series(self, forward: str) -> dict[str, str | None]:
        """Return the series of what ``forward`` takes to where that ran."""
        return {
            _series_of(each): only(self._facts.ran_on.get(each, ()))
            for each in self._taken(forward)
            if self._facts.type_of(each) not in {"Const", "ReadVariableOp"}
        }

    def _taken(self, forward: str) -> Iterator[str]:
        """Yield what the gradient of ``forward`` takes of the forward pass."""
        for member in self._by_forward.get(forward, ()):
            for producer in self._facts.producers.get(member, ()):
                if producer not in self._pairs and producer in self._facts.ran_on:
                    yield producer


def _series_of(name: str) -> str:
    """Return ``name`` without the number that made it unique."""
    match = _NUMBERED.fullmatch(name)
    return match["series"] if match else name
