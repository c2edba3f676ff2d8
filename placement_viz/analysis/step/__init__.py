"""Where the time of a step went: devices, transfers, waiting, memory.

``edges`` finds what each execution took from which, ``roles`` what it is for, and
``flow`` holds both for the modules that answer the questions, a module each.
"""

from __future__ import annotations

import dataclasses
import functools

from placement_viz.analysis.step.controller import Controller, find_controller
from placement_viz.analysis.step.critical_path import CriticalPath, find_critical_path
from placement_viz.analysis.step.devices import StepDevices, find_device_time
from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.memory import Memory, find_memory
from placement_viz.analysis.step.scopes import ScopeTree, scope_tree
from placement_viz.analysis.step.towers import Towers, find_towers
from placement_viz.analysis.step.transfers import Transfers, find_transfers

__all__ = ["Flow", "StepAnalysis"]


@dataclasses.dataclass(frozen=True, eq=False)
class StepAnalysis:
    """The answers about a step, each found when it is first asked for.

    Attributes:
        flow: The judged run, as all of them read it.
    """

    flow: Flow

    @functools.cached_property
    def devices(self) -> StepDevices:
        """Return what each device did and what it waited for."""
        return find_device_time(self.flow)

    @functools.cached_property
    def transfers(self) -> Transfers:
        """Return what crossed between devices."""
        return find_transfers(self.flow)

    @functools.cached_property
    def towers(self) -> Towers:
        """Return the copies of the model that the step has, if any."""
        return find_towers(self.flow)

    @functools.cached_property
    def controller(self) -> Controller:
        """Return when gradients were summed and applied."""
        return find_controller(self.flow)

    @functools.cached_property
    def critical_path(self) -> CriticalPath:
        """Return what each step waited for, from its begin to its end."""
        return find_critical_path(self.flow)

    @functools.cached_property
    def memory(self) -> Memory | None:
        """Return what the devices held; None when nothing tells."""
        return find_memory(self.flow)

    @functools.cached_property
    def scopes(self) -> ScopeTree:
        """Return the step by name scope."""
        return scope_tree(self.flow)
