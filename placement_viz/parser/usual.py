"""Events exactly as TensorFlow writes them.

Nearly every event of nearly every timeline has these fields and these types, and is
read several times as fast when that is known. What differs in any way is refused here
and read as a general :class:`~placement_viz.parser.events.Event`; both ways give the
same columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

__all__ = [
    "INPUTS",
    "Args",
    "Counter",
    "Flow",
    "FlowEnd",
    "Op",
    "RowLabel",
    "Tensor",
    "TensorDeleted",
    "TensorMade",
    "decode",
]

#: Fields of the inputs; ops with more are left to the general way, for there are few.
INPUTS = tuple(f"input{i}" for i in range(16))

if TYPE_CHECKING:
    Args: TypeAlias = Any
else:
    Args = msgspec.defstruct(
        "Args",
        [(name, str | None, None) for name in ("name", "op", *INPUTS)],
        namespace={"__doc__": "Node, type and inputs of an op."},
        forbid_unknown_fields=True,
        gc=False,
    )


# Fields are in the order in which TensorFlow writes them: that decodes fastest.


class Op(msgspec.Struct, tag_field="ph", tag="X", gc=False):
    """A complete event."""

    cat: str | None = None
    name: str | None = None
    pid: int | None = None
    tid: int | None = None
    ts: int | None = None
    dur: int | None = None
    args: Args | None = None


class Flow(msgspec.Struct, tag_field="ph", tag="s", gc=False):
    """The beginning of a flow arrow; the inputs of ops say more."""


class FlowEnd(Flow, tag="t", gc=False):
    """The end of a flow arrow."""


class RowLabel(msgspec.Struct, tag_field="ph", tag="M", gc=False):
    """What a row is called."""

    name: str | None = None
    pid: int | None = None
    args: Any = None


class TensorMade(msgspec.Struct, tag_field="ph", tag="N", gc=False):
    """A tensor appears."""


class Snapshot(msgspec.Struct, gc=False):
    """What a tensor is."""

    tensor_description: str | None = None


class TensorArgs(msgspec.Struct, gc=False):
    """Where that stands."""

    snapshot: Snapshot | None = None


class Tensor(msgspec.Struct, tag_field="ph", tag="O", gc=False):
    """A tensor's description: where memory is shown, most of the file."""

    name: str | None = None
    args: TensorArgs | None = None

    @property
    def told(self) -> str | None:
        """Return the description, a protocol buffer in text."""
        snapshot = self.args.snapshot if self.args else None
        return snapshot.tensor_description if snapshot else None


class TensorDeleted(msgspec.Struct, tag_field="ph", tag="D", gc=False):
    """A tensor goes."""


class Counter(msgspec.Struct, tag_field="ph", tag="C", gc=False):
    """How much memory an allocator has given away."""


Usual: TypeAlias = (
    Op | Flow | FlowEnd | RowLabel | Tensor | TensorMade | TensorDeleted | Counter
)

_EVENTS = msgspec.json.Decoder(list[Usual])


def decode(text: bytes) -> list[Usual]:
    """Return the events in ``text``, a JSON array.

    Raises:
        msgspec.ValidationError: Some event is not as TensorFlow writes it.
        msgspec.DecodeError: It is no JSON.
        UnicodeDecodeError: It is no UTF-8.
    """
    return _EVENTS.decode(text)
