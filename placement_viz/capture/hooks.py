"""All places in TensorFlow that are hooked to catch a training step."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

from placement_viz.capture.colocation import check_version
from placement_viz.capture.functions import (
    CONCRETE_MODULE,
    FUNCTION_MODULE,
    FunctionWatch,
)
from placement_viz.capture.gradients import GradientNotes
from placement_viz.capture.graph_gradients import GRADIENT_MODULE, GraphGradients
from placement_viz.capture.imports import Action, after_import
from placement_viz.capture.patches import Patches
from placement_viz.capture.sessions import SESSION_MODULE, SessionWatch
from placement_viz.capture.steps import StepSelection
from placement_viz.capture.tape_gradients import TAPE_MODULE, TapeGradients
from placement_viz.errors import CaptureError

__all__ = ["Hooks"]

#: What was noted of a graph in one capture serves the next one in the same process.
_NOTES = GradientNotes()


class Hooks:
    """The hooks of one capture.

    Attributes:
        notes: Which ops compute gradients, and of what.
        attached: Modules that are hooked.
        failures: Module that could not be hooked, to what it lacks.
    """

    def __init__(
        self,
        selection: StepSelection,
        pattern: re.Pattern[str] | None = None,
        *,
        colocate: bool = False,
        is_dry: bool = False,
    ) -> None:
        """Prepare the hooks.

        Args:
            selection: Tells which runs to trace, and keeps them.
            pattern: What the training step is called; None for what computes
                gradients.
            colocate: Whether to build gradients on the devices of their forward ops.
            is_dry: Whether calls of functions are copied and not made.
        """
        self.notes = _NOTES
        self.failures: dict[str, Exception] = {}
        self.attached: set[str] = set()
        self._is_colocating = colocate
        self._patches = Patches()
        self._call_off: Callable[[], None] = lambda: None
        self._selection = selection
        sessions = SessionWatch(self.notes, selection, pattern)
        functions = FunctionWatch(self.notes, selection, pattern, is_dry=is_dry)
        graphs = GraphGradients(self.notes, colocate=colocate)
        tapes = TapeGradients(self.notes, colocate=colocate)

        def attach_tapes(module: ModuleType, patches: Patches) -> None:
            if colocate:
                check_version()
            tapes.attach(module, patches)

        self._actions = {
            GRADIENT_MODULE: graphs.attach,
            TAPE_MODULE: attach_tapes,
            SESSION_MODULE: sessions.attach,
            FUNCTION_MODULE: functions.attach_functions,
            CONCRETE_MODULE: functions.attach_concrete,
        }

    def attach_when_imported(self) -> None:
        """Hook each module once the program has imported it, or now when it has."""
        actions = {name: self._attaching(name) for name in self._actions}
        self._call_off = after_import(actions)

    def _attaching(self, name: str) -> Action:
        """Return what hooks a module; a TensorFlow it does not know is left alone."""

        def attach(module: ModuleType) -> None:
            is_half_done = self._is_colocating and TAPE_MODULE in self.failures
            if is_half_done and name in {FUNCTION_MODULE, CONCRETE_MODULE}:
                # Gradients of a function would be where the program put them.
                return
            try:
                self._actions[name](module, self._patches)
                self.attached.add(name)
            except (AttributeError, ImportError, CaptureError) as error:
                self.failures[name] = error

        return attach

    def stop(self) -> None:
        """Leave all further steps alone, and take the hooks out."""
        self._call_off()
        self._selection.stop()
        self._patches.undo()
