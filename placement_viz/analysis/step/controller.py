"""The part of a step in which gradients become new values of the variables."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.intervals import Cover, cover
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.parallel import IS_PARAMETER
from placement_viz.analysis.step.reach import link_ops, reached
from placement_viz.analysis.step.roles import UPDATES, Role
from placement_viz.model import RowKind

__all__ = ["CONTROLLER_SCHEMA", "MEANWHILE_SCHEMA", "Controller", "find_controller"]

#: Columns of :attr:`Controller.windows`, one row a step that changes variables.
#:
#: ``step``         as in ``Trace.ops``
#: ``first_op``     position of the op that takes a gradient first, to sum or to apply
#: ``last_op``      position of the op that changes a variable last
#: ``start_us``     start of the first; null in a run without times, as below
#: ``end_us``       end of the last
#: ``devices``      where the gradients were summed and applied, in the run's order
#: ``ops``          how many ops did so
#: ``busy_us``      time in which one of them ran
#: ``gradient_us``  time of the window in which gradients were still computed
#: ``step_us``      time from the first op's start to the last op's end of the step
CONTROLLER_SCHEMA = pl.Schema(
    {
        "step": pl.Int32(),
        "first_op": pl.UInt32(),
        "last_op": pl.UInt32(),
        "start_us": pl.Int64(),
        "end_us": pl.Int64(),
        "devices": pl.List(pl.String()),
        "ops": pl.Int64(),
        "busy_us": pl.Int64(),
        "gradient_us": pl.Int64(),
        "step_us": pl.Int64(),
    }
)

#: Columns of :attr:`Controller.meanwhile`, by step and in the order of the devices.
#:
#: ``step``           as in ``Trace.ops``
#: ``device``         a device on which an op ran in the step
#: ``is_controller``  whether gradients were summed or applied there
#: ``busy_us``        time of the window in which an op ran on it; null in a run
#:                    without times
MEANWHILE_SCHEMA = pl.Schema(
    {
        "step": pl.Int32,
        "device": pl.String,
        "is_controller": pl.Boolean,
        "busy_us": pl.Int64,
    }
)

_NO_TIMES = dict.fromkeys(("start_us", "end_us", "busy_us", "gradient_us", "step_us"))


@dataclasses.dataclass(frozen=True, eq=False)
class Controller:
    """When gradients were summed and applied, and what the devices did meanwhile.

    Attributes:
        ops: Positions of the ops that did so, in order.
        windows: A table with the columns of :data:`CONTROLLER_SCHEMA`; empty when no
            gradient was seen to be applied.
        meanwhile: A table with the columns of :data:`MEANWHILE_SCHEMA`.
    """

    ops: pl.Series
    windows: pl.DataFrame
    meanwhile: pl.DataFrame


def find_controller(flow: Flow) -> Controller:
    """Return the window from the first gradient taken to the last variable changed.

    A gradient is taken by the optimizer, or by an op that sums it with others for a
    variable; counters and metrics that change meanwhile do not count.
    """
    ops = _controller_ops(flow)
    has_times = bool(flow.trace.ops["duration_us"].max())
    own = flow.executed.filter(pl.col("op").is_in(ops.implode()))
    kinds = [RowKind.EXECUTOR, RowKind.STREAM]
    by_step = dict(_by_step(flow.ops.filter(pl.col("row_kind").is_in(kinds))))
    windows, meanwhile = [], []
    for step, acting in _by_step(own):
        changes = acting.filter(pl.col("op_type").str.contains(UPDATES))
        if changes.is_empty():
            continue
        window = _window(acting, changes, by_step[step], flow.trace.devices)
        busy = _busy_meanwhile(window, by_step[step])
        windows.append(window if has_times else window | _NO_TIMES)
        meanwhile += [
            {
                "step": step,
                "device": device,
                "is_controller": device in window["devices"],
                "busy_us": busy[device] if has_times else None,
            }
            for device in flow.trace.devices
            if device in busy
        ]
    return Controller(
        ops=ops,
        windows=pl.DataFrame(windows, schema=CONTROLLER_SCHEMA),
        meanwhile=pl.DataFrame(meanwhile, schema=MEANWHILE_SCHEMA),
    )


def _by_step(ops: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """Return the ops of each step, in order."""
    return [
        (step, part) for (step,), part in ops.partition_by("step", as_dict=True).items()
    ]


def _controller_ops(flow: Flow) -> pl.Series:
    """Return the positions of the ops that sum gradients or apply them."""
    ops = flow.ops
    is_optimizer = (ops["role"] == Role.OPTIMIZER).to_numpy()
    is_sum = _sums_for_variables(flow)
    is_value = ((ops["role"] == Role.GRADIENT) & (ops["op_type"] != "Const")).to_numpy()
    edges = flow.edges.filter(~pl.col("is_control"))
    producer, consumer = edges["producer"].to_numpy(), edges["consumer"].to_numpy()
    takes = is_value[producer] & is_optimizer[consumer]
    first = np.union1d(consumer[takes], np.flatnonzero(is_sum))
    acts = is_optimizer | is_sum
    passed_on = acts[producer] & acts[consumer]
    links = zip(producer[passed_on], consumer[passed_on], strict=True)
    found = reached(link_ops(ops.height, links), first)
    found[first] = True
    return pl.Series("op", np.flatnonzero(found), dtype=pl.UInt32)


def _sums_for_variables(flow: Flow) -> npt.NDArray[np.bool_]:
    """Return which ops sum the gradients of one variable from several places."""
    gradients = flow.colocation.gradients
    variables = flow.ops.filter(IS_PARAMETER)["name"].unique()
    sums = gradients.filter(
        pl.col("op_type") == "AddN", pl.col("forward_op").is_in(variables.implode())
    )["op"]
    is_sum = np.zeros(flow.ops.height, dtype=bool)
    is_sum[sums.to_numpy()] = True
    return is_sum


def _window(
    acting: pl.DataFrame,
    changes: pl.DataFrame,
    ran: pl.DataFrame,
    devices: tuple[str, ...],
) -> dict[str, Any]:
    """Return the window of one step, as a row of :data:`CONTROLLER_SCHEMA`."""
    first = acting.row(acting["start_us"].arg_min(), named=True)
    last = changes.row(changes["end_us"].arg_max(), named=True)
    span = _moments(first["start_us"], last["end_us"])
    gradients = ran.filter(
        pl.col("role") == Role.GRADIENT, ~pl.col("op").is_in(acting["op"].implode())
    )
    used = set(acting["device"])
    return {
        "step": first["step"],
        "first_op": first["op"],
        "last_op": last["op"],
        "start_us": first["start_us"],
        "end_us": last["end_us"],
        "devices": [device for device in devices if device in used],
        "ops": acting.height,
        "busy_us": (_cover(acting) & span).total_us,
        "gradient_us": (_cover(gradients) & span).total_us,
        "step_us": int(np.ptp(ran.select("start_us", "end_us").to_numpy())),
    }


def _busy_meanwhile(window: dict[str, Any], ran: pl.DataFrame) -> dict[str, int]:
    """Return how long each device was busy in a window of its step."""
    span = _moments(window["start_us"], window["end_us"])
    # A tracer may call the devices otherwise than the executors do.
    placed = ran.filter(pl.col("row_kind") == RowKind.EXECUTOR)
    return {
        device: (_cover(ops) & span).total_us
        for (device,), ops in placed.partition_by("device", as_dict=True).items()
    }


def _cover(ops: pl.DataFrame) -> Cover:
    return cover(ops["start_us"], ops["duration_us"])


def _moments(start_us: int, end_us: int) -> Cover:
    return cover([start_us], [max(end_us - start_us, 0)])
