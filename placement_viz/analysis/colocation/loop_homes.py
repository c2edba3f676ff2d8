"""Where the gradient of a loop over several devices goes, from a trace alone.

A loop of ``while_v2`` is taken apart before anything is placed; its gradient is bound
to it, and so are the zeros that TensorFlow makes for each variable that the loop reads
before it makes anything else of the gradient. These take the shape of the variable,
so they must be where it is: the group of the loop goes where the first variable is
that it reads, and the other variables stay where they are.

This holds where the variables were placed by the program, and not by the loop itself,
as far as a trace can tell: no other loop reads them.

Source:
    ``control_flow_state.ZerosLike`` and ``gradients_util._GradientsHelper``
    (``_maybe_colocate_with``), ``core/common_runtime/colocation_graph.cc``, 2.21.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from placement_viz.analysis.colocation.facts import Facts
from placement_viz.analysis.colocation.pairs import Pair

__all__ = ["find_loop_homes"]

_INPUT = re.compile(r"(?!_cloop)(?P<loop>.+)/enter/_\d+")
_NUMBER = re.compile(r"VariableShape(?:_(\d{1,9}))?")


def find_loop_homes(facts: Facts, pairs: Mapping[str, Pair]) -> dict[str, str]:
    """Return loop to the device of the first variable that it reads.

    Only loops of ``while_v2`` whose gradient was taken; a loop that reads no variable,
    or one that another loop reads too, is missing.

    Args:
        facts: What the trace says.
        pairs: Gradient op to its pair.
    """
    shapes: dict[str, list[tuple[int, str]]] = {}
    for name, kind in facts.op_type.items():
        pair = pairs.get(name) if kind == "VariableShape" else None
        match = _NUMBER.fullmatch(name.rpartition("/")[2]) if pair else None
        if pair and pair.forward_op and match:
            variable = facts.producers[name][0]
            shapes.setdefault(pair.forward_op, []).append(
                (int(match[1] or 0), variable)
            )
    found = {}
    for loop, numbered in shapes.items():
        variables = [variable for _, variable in sorted(numbered)]
        device = facts.ran_on.get(variables[0], ())
        if len(device) == 1 and all(_readers(v, facts) == {loop} for v in variables):
            found[loop] = device[0]
    return found


def _readers(variable: str, facts: Facts) -> set[str]:
    """Return the loops that a variable goes into."""
    return {
        match["loop"]
        for consumer in facts.consumers.get(variable, ())
        if (match := _INPUT.fullmatch(consumer))
    }
