"""What the name of a gradient op says, given which other ops there are.

Source:
    ``gradients_util._GradientsHelper`` (2.21 and 1.x alike) for
    ``[outer/]gradients/<F>_grad[_n]/…``, ``_AggregatedGrads`` for
    ``<F>_gradient_sum/…``, ``while_v2`` and ``cond_v2`` for ``<W>_grad/<W>_grad``, and
    ``eager/backprop.py`` for ``gradient_tape/<scope of F>/…``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairs import Pair, Rule

__all__ = ["Reader"]

# The gradient of a loop, a condition or a call: one op that holds all the others.
_WHOLE = re.compile(
    r"(?P<scope>.+?)/(?P<forward>.+?)_grad/"
    r"(?:(?P=forward)_grad|(?:State(?:ful|less))?(?:PartitionedCall|If|While|Case))"
    r"(?=/|$)"
)
_MAY_BE_WHOLE = re.compile(r"_grad/(?:.*_grad|State|PartitionedCall|If|While|Case)")
_MADE_DIRECTLY = re.compile(
    r"[A-Z]\w*|(?:zeros|ones|grad_ys|concat|[fb]_count)\w*|inputs_\d+|_cloop.*"
)
_TREE_SUM = re.compile(r"(?P<scope>.+?)/(?P<forward>.+)_gradient_sum(?:_\d+)?/")
_TAPE = re.compile(r"(?:(?P<outer>.+)/)?gradient_tape/(?P<rest>.+)")
#: How what :data:`names.GRADIENT_SCOPE` matches begins.
_USUAL_NAME = "gradients"
# MatMul's gradient is MatMul again, ReluGrad is Relu's.
_GRADIENT_TYPE = re.compile(r"(.+?)(?:Grad(?:V\d)?|Backprop(?:Input|Filter)(?:V\d)?)")


class Reader:
    """Reads names against the ops of one run."""

    def __init__(self, facts: Facts) -> None:
        """Find the gradient scopes of a run."""
        self._facts = facts
        self._scopes = self._find_scopes()
        self._has_gradients: dict[str, bool] = {}

    def read(self, name: str) -> Pair | None:
        """Return what ``name`` says; None when it is no gradient op's."""
        if "gradient_tape/" in name and (tape := _TAPE.fullmatch(name)):
            return self._read_tape(tape)
        if "_grad" in name:
            if whole := self._read_whole(name):
                return whole
            if reading := self._read_boundaries(name):
                return reading
        scope = self._innermost_scope(name)
        if scope is None or self._is_programs_own(name, scope):
            return None
        return Pair(None, Rule.NONE, scope)

    def _is_programs_own(self, name: str, scope: str) -> bool:
        """Return whether ``scope`` only bears a usual name and TensorFlow made no op.

        In its own scopes TensorFlow puts what is deeper in scopes that end in
        ``_grad``, or in those of the few ops that it makes for no op's gradient.
        """
        head, deeper, _ = name[len(scope) + 1 :].partition("/")
        if not deeper or _MADE_DIRECTLY.fullmatch(head) or scope in self._scopes:
            return False
        if scope not in self._has_gradients:
            self._has_gradients[scope] = any(
                "_grad/" in other and other.startswith(f"{scope}/")
                for other in self._facts.names
            )
        return not self._has_gradients[scope]

    def _read_whole(self, name: str) -> Pair | None:
        """Return the pair of what is in the gradient of a loop, condition or call."""
        if not _MAY_BE_WHOLE.search(name):
            return None
        whole = _WHOLE.match(name)
        if whole is None or not self._is_scope(whole["scope"]):
            return None
        return self._pair(whole["scope"], whole["forward"])

    def _read_boundaries(self, name: str) -> Pair | None:
        """Return the pair with the longest forward op that exists, or may exist."""
        for scope, forward in names.gradient_boundaries(name):
            # "gradients/norm/mul_grad" is of norm/mul, though a mul may exist too.
            if self._is_scope(scope) and (found := self._known(scope, forward)):
                return self._pair(scope, found)
        tree = _TREE_SUM.match(name)
        sums = [(tree["scope"], tree["forward"])] if tree else []
        for scope, forward in (*sums, *names.gradient_boundaries(name)):
            if self._is_scope(scope):
                return self._pair(scope, forward)
        return None

    def _pair(self, scope: str, forward: str) -> Pair:
        if forward in self._facts.nodes:
            return Pair(forward, Rule.GRAPH_NAME, scope)
        if forward in self._facts.ran_on:
            return Pair(forward, Rule.TRACE_NAME, scope)
        return Pair(forward, Rule.NAME_ONLY, scope)

    def _read_tape(self, match: re.Match[str]) -> Pair:
        """Return the pair of an op that a tape made.

        Its name holds the scope in which the forward op was made, which is the
        forward op itself where TensorFlow's Python function opens one.
        """
        outer, parts = match["outer"] or "", match["rest"].split("/")
        scope = f"{outer}/gradient_tape" if outer else "gradient_tape"
        for n_parts in range(len(parts) - 1, 0, -1):
            forward = "/".join(filter(None, (outer, *parts[:n_parts])))
            if self._facts.is_known(forward):
                return self._pair(scope, forward)
        inside = "/".join(filter(None, (outer, *parts[:-1])))
        if twin := self._twin_by_type(match.group(0), inside):
            return Pair(twin, Rule.TAPE_TYPE, scope)
        return Pair(None, Rule.TAPE_SCOPE, scope, inside)

    def _twin_by_type(self, name: str, inside: str) -> str | None:
        """Return the one op in scope ``inside`` whose type fits that of ``name``."""
        match = _GRADIENT_TYPE.fullmatch(self._facts.type_of(name))
        if match is None:
            return None
        found = [
            other
            for other in self._facts.inside(inside)
            if self._facts.type_of(other) == match[1]
        ]
        return found[0] if len(found) == 1 else None

    def _known(self, scope: str, forward: str) -> str | None:
        """Return the op that ``forward`` means in ``scope``, if it exists.

        The ops of a function that was inlined bear the name of its call in front,
        and its outputs end in ``_0``.
        """
        if self._facts.is_known(forward):
            return forward
        for candidate in (forward, *_inlined(scope, forward)):
            for name in (candidate, f"{candidate}_0"):
                if self._facts.is_known(name):
                    return name
        return None

    def _find_scopes(self) -> set[str]:
        """Return the scopes in which the gradient of an op that exists was built.

        They may have any name: ``tf.gradients(name=…)``.
        """
        scopes = set()
        for name in self._facts.names:
            if "_grad/" in name:
                outermost = name[: name.find("/")]
                # Nearly all gradient ops share a scope, which is then known.
                if outermost in scopes or _has_usual_name(outermost):
                    continue
                for scope, forward in names.gradient_boundaries(name):
                    if _has_usual_name(scope):
                        break
                    if self._known(scope, forward):
                        scopes.add(scope)
                        break
        return scopes

    def _is_scope(self, scope: str) -> bool:
        return scope in self._scopes or _has_usual_name(scope)

    def _innermost_scope(self, name: str) -> str | None:
        """Return the gradient scope that ``name`` lies in; None when in none."""
        if not self._scopes and _USUAL_NAME not in name:
            return None
        return next(filter(self._is_scope, names.scopes_of(name)), None)


@functools.lru_cache(maxsize=1024)
def _has_usual_name(scope: str) -> bool:
    last = scope.rpartition("/")[2]
    return last.startswith(_USUAL_NAME) and bool(names.GRADIENT_SCOPE.fullmatch(last))


def _inlined(scope: str, forward: str) -> Iterator[str]:
    for outer in names.scopes_of(scope):
        yield f"{outer}/{forward}"
