"""What a group of nodes asks for: task, type and number of a device, each or none."""

from __future__ import annotations

import functools
from typing import NamedTuple

from placement_viz import names

__all__ = ["ANYWHERE", "Request", "preference", "request_of"]

_TYPE_ORDER = {"TPU": 0, "GPU": 1}


class Request(NamedTuple):
    """What a group asks for; None where it leaves the choice."""

    task: str = ""
    kind: str | None = None
    number: str | None = None

    def clashes_with(self, other: Request) -> bool:
        """Return whether no device satisfies both."""
        return (
            self.is_in_another_task(other)
            or _differ(self.kind, other.kind)
            or _differ(self.number, other.number)
        )

    def is_in_another_task(self, other: Request) -> bool:
        """Return whether the two name different jobs, replicas or tasks."""
        # With a slash behind, or task 1 would be the start of task 10.
        one, two = f"{self.task}/", f"{other.task}/"
        return not (one.startswith(two) or two.startswith(one))

    def merged(self, other: Request) -> Request:
        """Return what both name, without what they disagree on."""
        if other is ANYWHERE or other == self:
            return self
        if self is ANYWHERE:
            return other
        task = max(self.task, other.task, key=len)
        if _differ(self.kind, other.kind):
            return Request(task)
        kind = self.kind or other.kind
        if _differ(self.number, other.number):
            return Request(task, kind)
        return Request(task, kind, self.number or other.number)

    def obeying(self, owner: Request) -> Request:
        """Return this with the device of a resource, where it names one."""
        if owner is ANYWHERE:
            return self
        return Request(
            owner.task or self.task,
            owner.kind or self.kind,
            owner.number or self.number,
        )


ANYWHERE = Request()


@functools.lru_cache(maxsize=1024)
def request_of(device: str) -> Request:
    """Return what the canonical ``device`` asks for."""
    task, _, last = device.partition("/device:")
    kind, _, number = last.partition(":")
    if not device:
        return ANYWHERE
    return Request(task, kind or None, None if number == "*" else number or None)


def preference(device: str) -> tuple[int, str, int, str, int]:
    """Return a sort key: the device that the placer prefers comes first."""
    job, task, kind, number = names.device_order(device)
    return _TYPE_ORDER.get(kind, 9), job, task, kind, number


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
