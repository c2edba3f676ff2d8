"""Sums of gradients that no graph tells of.

With colocated gradients TensorFlow adds up what asks for one device there, first, and
then the parts, with the forward op. It numbers sums as it makes them, so from the
first split on ``AddN_3`` is another sum than before: what is said of a name is where
the op of that name is. One sum whose split is open leaves all later names open.

Source:
    ``gradients_util._MultiDeviceAddN``, 2.21 and 1.15.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Iterator, Mapping

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairs import SUM_RULES, Pair

__all__ = ["place_sums"]

_SUM = re.compile(r"AddN(?:_(\d{1,9}))?")
# More sums than any model has; a larger number in a name is none.
_MOST_MISSING = 100_000
_TWO = 2


def place_sums(
    facts: Facts,
    pairs: Mapping[str, Pair],
    beside_forward_op: Callable[[str], str | None],
) -> dict[str, str | None]:
    """Return each sum that ran to the device of the op that then bears its name.

    Args:
        facts: What the trace says.
        pairs: Gradient op to its pair.
        beside_forward_op: Gives the device of a gradient op's forward op.
    """
    totals = _Totals(facts, pairs, beside_forward_op)
    found: dict[str, str | None] = {}
    for ran_as in _sums_by_scope(facts, pairs).values():
        if len({facts.ran_on[name] for name in ran_as.values()}) > 1:
            # Somebody placed them already, so they are split as they will be.
            found |= {name: totals.total(name) for name in ran_as.values()}
            continue
        devices = dict(enumerate(_renumbered(ran_as, totals)))
        for number, name in ran_as.items():
            found[name] = devices.get(number)
    return found


def _sums_by_scope(
    facts: Facts, pairs: Mapping[str, Pair]
) -> dict[str, dict[int, str]]:
    """Return gradient scope to number to the op that computes that sum."""
    found: dict[str, dict[int, str]] = {}
    for name in facts.ran_on:
        pair = pairs.get(name)
        if pair is None or pair.rule not in SUM_RULES:
            continue
        for built in (name, *names.rewritten_from(name)):
            scope, _, last = built.rpartition("/")
            if scope == pair.scope and (match := _SUM.fullmatch(last)):
                found.setdefault(scope, {})[int(match[1] or 0)] = name
                break
    return found


def _renumbered(ran_as: dict[int, str], totals: _Totals) -> Iterator[str | None]:
    """Yield the devices of the sums of a scope as they are numbered then.

    A sum that did not run is taken for one that is not split. Ends before a sum
    whose split is open.
    """
    expected = 0
    for number in sorted(ran_as):
        yield from itertools.repeat(None, min(number - expected, _MOST_MISSING))
        expected = number + 1
        split = totals.split(ran_as[number])
        if split is None:
            return
        yield from split


class _Totals:
    """Where sums end up, each looked up once."""

    def __init__(
        self,
        facts: Facts,
        pairs: Mapping[str, Pair],
        beside_forward_op: Callable[[str], str | None],
    ) -> None:
        self._facts = facts
        self._pairs = pairs
        self._beside_forward_op = beside_forward_op
        self._found: dict[str, tuple[str | None, ...] | None] = {}

    def split(self, name: str) -> tuple[str | None, ...] | None:
        """Return the devices of the ops that compute this sum, the total last.

        None when a summand's device is open, and with it into how many parts the
        sum falls.
        """
        # Sums of sums go thousands deep in a deep model: no recursion.
        rest = [name] if name not in self._found else []
        while rest:
            last = rest[-1]
            inner = [each for each in self._summands(last) if self._is_open(each)]
            if inner and last not in self._found:
                self._found[last] = None  # a damaged trace may go in circles
                rest += inner
            else:
                rest.pop()
                self._found[last] = self._split(last)
        return self._found[name]

    def total(self, name: str) -> str | None:
        """Return the device on which the value of a sum is; None when it is open."""
        split = self.split(name)
        return split[-1] if split else None

    def _split(self, name: str) -> tuple[str | None, ...] | None:
        devices = [self._device_of(each) for each in self._summands(name)]
        if len(devices) <= _TWO and None in devices:
            # Two summands make one op, wherever they are: here or there.
            home = self._beside_forward_op(name)
            return (home if home in devices else None,)
        if None in devices:
            return None
        counts = collections.Counter(devices)
        if len(counts) == 1:
            return (devices[0],)
        parts = [device for device in sorted(counts, key=str) if counts[device] > 1]
        return (*parts, self._beside_forward_op(name))

    def _summands(self, name: str) -> Iterator[str]:
        for each in self._facts.producers.get(name, ()):
            if self._facts.type_of(each) != "Const" or self._is_folded(each):
                yield each

    def _is_folded(self, constant: str) -> bool:
        """Return whether a constant was a gradient; of x + x = 2 * x, the 2 was not."""
        pair = self._pairs.get(constant)
        return bool(pair and pair.forward_op and pair.rule not in SUM_RULES)

    def _is_sum(self, name: str) -> bool:
        pair = self._pairs.get(name)
        return bool(
            pair and pair.rule in SUM_RULES and self._facts.type_of(name) == "AddN"
        )

    def _is_open(self, name: str) -> bool:
        return name not in self._found and self._is_sum(name)

    def _device_of(self, summand: str) -> str | None:
        if summand not in self._pairs:
            return None
        if self._is_sum(summand):
            split = self._found.get(summand)
            return split[-1] if split else None
        return self._beside_forward_op(summand)
