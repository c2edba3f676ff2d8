"""What a ``tf.function`` takes, and whether that can be copied.

Tensors can. Of handles two kinds can be followed: a variable, whose value is read, and
an iterator, of which a batch is taken. What else a function may hold (tables, queues,
Python callbacks) lives in eager state and keeps it from being run again elsewhere.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placement_viz.capture.called import CALLS, called_functions, graphs_called_by

__all__ = [
    "SPEAKING",
    "FunctionInputs",
    "HandleKind",
    "InputHandle",
    "InputValues",
    "examine",
    "variable_type",
]

_ITERATOR_OPS = frozenset(
    {"IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional"}
)
#: Ops without a result that tell somebody something; a replay would tell it again.
SPEAKING = frozenset(
    {
        "FlushSummaryWriter",
        "PrintV2",
        "WriteAudioSummary",
        "WriteGraphSummary",
        "WriteHistogramSummary",
        "WriteImageSummary",
        "WriteRawProtoSummary",
        "WriteScalarSummary",
        "WriteSummary",
    }
)

_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})

#: Op types that call functions, to how many inputs come before what they pass on.
_PASSING = {
    **dict.fromkeys(CALLS, 0),
    "While": 0,
    "StatelessWhile": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}


class HandleKind(enum.Enum):
    """What a handle stands for."""

    VARIABLE = "variable"
    ITERATOR = "iterator"
    UNUSED = "unused"
    #: What cannot be followed.
    OPAQUE = "opaque"


@dataclasses.dataclass(frozen=True, eq=False)
class InputHandle:
    """An input of a function that is a handle.

    Attributes:
        kind: What it stands for.
        consumer: An operation that uses it; None when none does.
        variable: Type and shape of the variable behind it, for a variable.
    """

    kind: HandleKind
    consumer: Any = None
    variable: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class FunctionInputs:
    """The inputs of a function as its graph shows them.

    Attributes:
        handles: Position of an input to what is known of it, for handles.
        obstacle: Why the function cannot be run elsewhere; empty when it can.
        names: The op that stands for a variable, to the variable's name.
    """

    handles: Mapping[int, InputHandle]
    obstacle: str = ""
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class InputValues:
    """Copies of what one call passed, by the position of the input.

    Attributes:
        tensors: Values of the inputs that are tensors.
        variables: Values of the variables behind handles.
        batches: The next batch of the iterators behind handles.
        devices: Full name of the device that an input was on.
    """

    tensors: Mapping[int, Any]
    variables: Mapping[int, Any]
    batches: Mapping[int, Sequence[Any]]
    devices: Mapping[int, str]


def examine(graph: Any) -> FunctionInputs:
    """Return what the function with this ``FuncGraph`` takes."""
    handles: dict[int, InputHandle] = {}
    obstacle = _python_obstacle(graph)
    for position, tensor in enumerate(graph.inputs):
        if tensor.dtype.name == "resource":
            found = _examine_handle(tensor)
            handles[position] = found
            obstacle = obstacle or _handle_obstacle(found)
        elif tensor.dtype.name == "variant":
            consumers = list(_users(tensor))
            if consumers:
                obstacle = obstacle or _needs(consumers[0])
    return FunctionInputs(handles, obstacle, _variable_names(graph))


def _variable_names(graph: Any) -> dict[str, str]:
    """Return the op that stands for a variable to a name that no op has."""
    taken = {op.name for op in graph.get_operations()}
    stand_ins = {id(outer): inner.op.name for outer, inner in graph.captures}
    found: dict[str, str] = {}
    for variable in graph.variables:
        # A variable of a strategy has several handles, and shows none by itself.
        for each in getattr(variable, "values", None) or (variable,):
            stand_in = stand_ins.get(id(getattr(each, "handle", None)))
            name = each.name.partition(":")[0]
            if stand_in and name not in taken:
                taken.add(name)
                found[stand_in] = name
    return found


def _examine_handle(tensor: Any) -> InputHandle:
    users = list(_users(tensor))
    if not users:
        return InputHandle(HandleKind.UNUSED)
    iterating = [op for op in users if op.type in _ITERATOR_OPS]
    if iterating:
        return InputHandle(HandleKind.ITERATOR, iterating[0])
    variable = variable_type(tensor)
    if variable is not None:
        return InputHandle(HandleKind.VARIABLE, users[0], variable)
    return InputHandle(HandleKind.OPAQUE, users[0])


def variable_type(tensor: Any) -> Any:
    """Return type and shape of the variable behind a handle, None if there is none."""
    from tensorflow.python.ops import handle_data_util  # noqa: PLC0415

    data = handle_data_util.get_handle_data(tensor)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return data.shape_and_type[0]


def _handle_obstacle(handle: InputHandle) -> str:
    if handle.kind is HandleKind.OPAQUE:
        return _needs(handle.consumer)
    if handle.kind is HandleKind.ITERATOR:
        kinds = {dtype.name for dtype in handle.consumer.get_attr("output_types")}
        if kinds & {"variant", "resource"}:
            return (
                f"the op {handle.consumer.name} ({handle.consumer.type}) takes ragged, "
                "sparse or other values that cannot be copied"
            )
    return ""


def _needs(op: Any) -> str:
    return f"the op {op.name} ({op.type}) uses what only eager code holds"


def _python_obstacle(graph: Any) -> str:
    for function in called_functions(graph):
        for op in function.get_operations():
            if op.type in _PYTHON_OPS:
                return f"the op {op.name} ({op.type}) calls Python code"
    return ""


def _users(tensor: Any) -> Iterator[Any]:
    """Yield the ops that use ``tensor``, inside called functions too."""
    waiting, seen = [tensor], {tensor.ref()}
    while waiting:
        current = waiting.pop()
        for op in current.consumers():
            followed = list(_followed(op, current))
            if not followed and op.type not in SPEAKING:
                yield op
            for same in followed:
                if same.ref() not in seen:
                    seen.add(same.ref())
                    waiting.append(same)


def _followed(op: Any, tensor: Any) -> Iterator[Any]:
    """Yield what ``tensor`` becomes when ``op`` only hands it on."""
    if op.type == "Identity":
        yield op.outputs[0]
    if op.type not in _PASSING:
        return
    positions = [i for i, each in enumerate(op.inputs) if each is tensor]
    for graph in graphs_called_by(op):
        for position in positions:
            if position >= _PASSING[op.type]:
                yield graph.inputs[position - _PASSING[op.type]]
