"""What a ``tf.function`` is called with, and copies of it.

Tensors are copied as they are. Of handles two kinds can be followed: a variable, whose
value is read, and an iterator, whose next batch is taken and put back in front of the
rest. What else a function may hold (tables, queues, Python callbacks) lives in eager
state and keeps it from being run again elsewhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placement_viz.capture.called import CALLS, called_functions, graphs_called_by
from placement_viz.errors import CaptureError

__all__ = [
    "SPEAKING",
    "FunctionInputs",
    "HandleKind",
    "InputHandle",
    "InputValues",
    "examine",
    "take_batch",
    "value_of",
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

_ALWAYS = 2**62


class HandleKind(enum.Enum):
    """What a handle stands for."""

    VARIABLE = "variable"
    ITERATOR = "iterator"
    UNUSED = "unused"


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

    @property
    def is_opaque(self) -> bool:
        """Return whether it is used in a way that cannot be followed."""
        return self.kind is HandleKind.UNUSED and self.consumer is not None


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
            if found.is_opaque:
                obstacle = obstacle or _needs(found.consumer)
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
    variable = _variable_type(tensor)
    if variable is not None:
        return InputHandle(HandleKind.VARIABLE, users[0], variable)
    return InputHandle(HandleKind.UNUSED, users[0])


def _variable_type(tensor: Any) -> Any:
    """Return type and shape of the variable behind a handle, None if there is none."""
    from tensorflow.python.ops import handle_data_util  # noqa: PLC0415

    data = handle_data_util.get_handle_data(tensor)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return data.shape_and_type[0]


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


def value_of(handle: Any) -> Any:
    """Return a copy of the value of the variable behind an eager handle.

    Raises:
        CaptureError: It has no value yet.
    """
    from tensorflow.python.framework import dtypes, errors_impl  # noqa: PLC0415
    from tensorflow.python.ops import gen_resource_variable_ops  # noqa: PLC0415

    dtype = dtypes.as_dtype(_variable_type(handle).dtype)
    try:
        with _beside_the_program(handle.device):
            return gen_resource_variable_ops.read_variable_op(handle, dtype).numpy()
    except errors_impl.FailedPreconditionError as error:
        raise CaptureError(
            "expected variables with values, found one without"
        ) from error


def take_batch(handle: Any, consumer: Any) -> tuple[Sequence[Any], Any] | None:
    """Return the next batch of an iterator, and an iterator that still has it.

    Args:
        handle: The eager handle of the iterator; it is one batch further afterwards.
        consumer: An op of a graph that takes a batch from it.

    Returns:
        The batch as flat tensors and what to use in place of ``handle``, with which
        the program sees every batch as if nothing had been taken; None when there is
        no batch left.
    """
    import tensorflow as tf  # noqa: PLC0415

    kinds = {key: consumer.get_attr(key) for key in ("output_types", "output_shapes")}
    with _beside_the_program(handle.device):
        try:
            batch = tuple(tf.raw_ops.IteratorGetNext(iterator=handle, **kinds))
        except tf.errors.OutOfRangeError:
            return None
        options = tf.data.Options()
        # Anything that fetches ahead would take from the program's iterator.
        options.experimental_optimization.apply_default_optimizations = False
        options.autotune.enabled = False
        data = tf.data.Dataset.from_tensors(batch).concatenate(_rest(handle, kinds))
        replacement = tf.raw_ops.AnonymousIteratorV3(**kinds)
        tf.raw_ops.MakeIterator(
            dataset=data.with_options(options)._variant_tensor,  # noqa: SLF001
            iterator=replacement,
        )
    return batch, replacement


def _rest(handle: Any, kinds: Mapping[str, Any]) -> Any:
    """Return what an iterator still has, as a dataset that takes it one by one."""
    import tensorflow as tf  # noqa: PLC0415

    def take(_: Any) -> Any:
        return tf.raw_ops.IteratorGetNextAsOptional(iterator=handle, **kinds)

    def has_value(optional: Any) -> Any:
        return tf.raw_ops.OptionalHasValue(optional=optional)

    def value(optional: Any) -> Any:
        return tuple(tf.raw_ops.OptionalGetValue(optional=optional, **kinds))

    return tf.data.Dataset.range(_ALWAYS).map(take).take_while(has_value).map(value)


@contextlib.contextmanager
def _beside_the_program(device: str) -> Iterator[None]:
    """Run eager ops on ``device`` that no tape of the program records."""
    from tensorflow.python.eager import record  # noqa: PLC0415
    from tensorflow.python.framework import ops  # noqa: PLC0415

    with record.stop_recording(), ops.device(device):
        yield
