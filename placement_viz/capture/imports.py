"""Acting at the moment when a program imports a module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

__all__ = ["Action", "after_import"]

Action = Callable[[ModuleType], None]


def after_import(actions: Mapping[str, Action]) -> Callable[[], None]:
    """Call each action once its module has been executed, or now when it has been.

    Importing TensorFlow ahead of the program would be simpler and would change it:
    environment variables that it sets first would come too late.

    Args:
        actions: Full module name to what is called with the module.

    Returns:
        What calls off the actions that have not happened.
    """
    waiting: dict[str, Action] = {}
    for name, action in actions.items():
        if name in sys.modules:
            action(sys.modules[name])
        else:
            waiting[name] = action
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))
    return waiting.clear


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the awaited modules where Python would, and adds the action."""

    def __init__(self, waiting: dict[str, Action]) -> None:
        self._waiting = waiting

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        action = self._waiting.get(fullname)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        del self._waiting[fullname]
        execute = spec.loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            action(module)

        # The loader stays what it is for everything that inspects it.
        spec.loader.exec_module = execute_then_act  # type: ignore[method-assign]
        return spec
