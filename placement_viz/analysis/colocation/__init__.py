"""Which device each gradient op belongs on, and how that is known.

``facts`` gathers what trace and graph say, ``pairing`` finds the forward op of each
gradient op, ``homes`` the device of that forward op, ``verdicts`` judges, and
:func:`judge_gradients` puts the four together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import operator
from collections.abc import Iterator, Mapping

import polars as pl

from placement_viz import names
from placement_viz.analysis.colocation.facts import Facts, gather_facts
from placement_viz.analysis.colocation.homes import Homes
from placement_viz.analysis.colocation.pairing import pair_gradients
from placement_viz.analysis.colocation.verdicts import Judgement, Verdict, judge
from placement_viz.analysis.usage import busy_us
from placement_viz.model import Notice, Run
from placement_viz.units import format_count

__all__ = ["GRADIENTS_SCHEMA", "Colocation", "Summary", "judge_gradients"]

#: Columns of :attr:`Colocation.gradients`, one row for each time a gradient op ran,
#: in the order of ``Trace.ops``.
#:
#: ``op``                position in ``Trace.ops``
#: ``name`` … ``step``   as there
#: ``forward_op``        the op whose gradient it computes; null when not known
#: ``forward_device``    where that op ran or would have run; null when not known
#: ``expected_device``   where TensorFlow puts it when gradients are colocated with
#:                       their forward ops; null when not known, never a guess
#: ``evidence``          ``graph``, ``trace``, ``dataflow``; null when nothing is known
#: ``rule``              how the pair was found, a sentence
#: ``confidence``        1 certain … 0 nothing known
#: ``verdict``           ``misplaced``, ``colocated``, ``exempt``, ``unknown``
#: ``reason``            why an exempt op is exempt; else null
#: ``cause``             why a misplaced op is where it is; else null
#: ``requested_device``  what the program asked for; null without a graph
#: ``source``            the program's line that created it; null when not known
GRADIENTS_SCHEMA = pl.Schema(
    {
        "op": pl.UInt32,
        "name": pl.String,
        "op_type": pl.String,
        "device": pl.String,
        "start_us": pl.Int64,
        "duration_us": pl.Int64,
        "step": pl.Int32,
        "forward_op": pl.String,
        "forward_device": pl.String,
        "expected_device": pl.String,
        "evidence": pl.String,
        "rule": pl.String,
        "confidence": pl.Float64,
        "verdict": pl.String,
        "reason": pl.String,
        "cause": pl.String,
        "requested_device": pl.String,
        "source": pl.String,
    }
)


@dataclasses.dataclass(frozen=True)
class Summary:
    """The verdicts in numbers; the four kinds add up to ``gradient_ops``.

    Attributes:
        gradient_ops: Gradient ops that ran, each time it ran.
        misplaced_ops: Of those, away from the device of their forward op.
        colocated_ops: On the device of their forward op.
        unknown_ops: Of which the expected device is not known.
        exempt_ops: Away from it for a reason, see ``reason``.
        gradient_us: Busy time of gradient ops, over devices.
        misplaced_us: Busy time of misplaced ops, over devices.
    """

    gradient_ops: int
    misplaced_ops: int
    colocated_ops: int
    unknown_ops: int
    exempt_ops: int
    gradient_us: int
    misplaced_us: int


@dataclasses.dataclass(frozen=True, eq=False)
class Colocation:
    """The judged gradient ops of a run.

    Attributes:
        gradients: A table with the columns of :data:`GRADIENTS_SCHEMA`; empty when
            no gradient op ran.
        notices: What limits the verdicts.
        collateral: Forward op that colocation would move, to its device before and
            after; only known with a graph, and only looked for when a gradient op is
            misplaced.
        replay: How many forward ops that ran the replay of the placer places, and how
            many of them right; (0, 0) when nothing was replayed.
    """

    gradients: pl.DataFrame
    notices: tuple[Notice, ...] = ()
    collateral: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    replay: tuple[int, int] = (0, 0)

    @functools.cached_property
    def misplaced(self) -> pl.DataFrame:
        """Return the misplaced ones of ``gradients``."""
        return self.gradients.filter(pl.col("verdict") == Verdict.MISPLACED)

    @functools.cached_property
    def summary(self) -> Summary:
        """Return the verdicts in numbers."""
        counts = dict(self.gradients["verdict"].value_counts().iter_rows())
        return Summary(
            gradient_ops=self.gradients.height,
            misplaced_ops=counts.get(Verdict.MISPLACED, 0),
            colocated_ops=counts.get(Verdict.COLOCATED, 0),
            unknown_ops=counts.get(Verdict.UNKNOWN, 0),
            exempt_ops=counts.get(Verdict.EXEMPT, 0),
            gradient_us=_busy_over_devices(self.gradients),
            misplaced_us=_busy_over_devices(self.misplaced),
        )


def judge_gradients(run: Run) -> Colocation:
    """Return every gradient op that ran, with its pair and its verdict.

    Work is linear in ops plus graph nodes: each node is paired and judged once,
    however often it ran.
    """
    with _collector_paused():
        return _judge(run)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python from looking for circles among a million small values.

    There are none, and looking takes a tenth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _judge(run: Run) -> Colocation:
    facts = gather_facts(run)
    pairs = pair_gradients(facts)
    homes = Homes(facts, pairs)
    judged = {
        (name, device): judge(name, device, pair, homes)
        for name, pair in pairs.items()
        for device in facts.ran_on.get(name, ())
    }
    is_misplaced = any(j.verdict is Verdict.MISPLACED for j in judged.values())
    predicts = bool(is_misplaced and facts.nodes)
    return Colocation(
        gradients=_gradient_table(run, judged),
        notices=(*_find_limits(run, facts), *_find_soft_placements(homes)),
        collateral=homes.collateral_moves() if predicts else {},
        replay=homes.replay() if predicts else (0, 0),
    )


def _gradient_table(run: Run, judged: dict[tuple[str, str], Judgement]) -> pl.DataFrame:
    fields = Judgement.__struct_fields__
    verdicts = pl.DataFrame(
        {
            "name": [name for name, _ in judged],
            "device": [device for _, device in judged],
            **{f: list(map(operator.attrgetter(f), judged.values())) for f in fields},
        },
        schema={
            "name": pl.String,
            "device": pl.String,
            **{f: GRADIENTS_SCHEMA[f] for f in fields},
        },
    )
    return (
        run.trace.executed.join(
            verdicts, on=["name", "device"], how="inner", maintain_order="left"
        )
        .select(GRADIENTS_SCHEMA.names())
        .cast(GRADIENTS_SCHEMA)
    )


def _busy_over_devices(table: pl.DataFrame) -> int:
    return sum(
        busy_us(ops["start_us"], ops["duration_us"])
        for ops in table.partition_by("device")
    )


def _find_soft_placements(homes: Homes) -> list[Notice]:
    """Return a notice when ops ran elsewhere than the program asked."""
    facts = homes.facts
    moved = [
        (name, ran_on[0])
        for name, ran_on in facts.ran_on.items()
        if (node := facts.nodes.get(name)) and node.device
        if not names.device_matches(names.canonical_device(node.device), ran_on[0])
        # What takes a resource must be where that is, whatever it asks for.
        and homes.resource_device(name) is None
    ]
    if not moved:
        return []
    name, device = moved[0]
    asked = names.canonical_device(facts.nodes[name].device)
    return [
        Notice(
            "soft-placement",
            f"{format_count(len(moved), 'op')} did not run where the program asks, "
            f"such as {name}, which asks for {asked} and ran on "
            f"{names.short_device(device)}: there is no kernel for it, or it is bound "
            "to what is elsewhere",
        )
    ]


def _find_limits(run: Run, facts: Facts) -> list[Notice]:
    notices: list[Notice] = []
    if any(notice.code == "no-placement" for notice in run.trace.notices):
        # The reader of the format has said so.
        return notices
    if not facts.devices:
        notices.append(
            Notice(
                "no-executor-rows",
                "no row of this trace names a device of TensorFlow ('/job:…'), only "
                "rows of the GPU tracer: it gives times and proves no placement",
            )
        )
    elif run.graph is None:
        notices.append(
            Notice(
                "no-graph",
                "this trace carries no graph: a forward op that did not run is "
                "judged by the ops around it, and an explicit tf.device cannot be "
                "told from none; `placement-viz capture` records the graph",
            )
        )
    return notices
