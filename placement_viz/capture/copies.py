"""Copies of what a ``tf.function`` is called with; the program misses nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from placement_viz.capture.function_inputs import variable_type
from placement_viz.errors import CaptureError

__all__ = ["array_of", "take_batch", "value_of"]

#: More elements than any iterator has.
_ALWAYS = 2**62


def array_of(tensor: Any) -> Any:
    """Return a copy of an eager tensor's value as an array, a text's too."""
    return np.array(tensor.numpy())


def value_of(handle: Any) -> Any:
    """Return a copy of the value of the variable behind an eager handle.

    Raises:
        CaptureError: It has no value yet.
    """
    from tensorflow.python.framework import dtypes, errors_impl  # noqa: PLC0415
    from tensorflow.python.ops import gen_resource_variable_ops  # noqa: PLC0415

    dtype = dtypes.as_dtype(variable_type(handle).dtype)
    try:
        with _beside_the_program(handle.device):
            return array_of(gen_resource_variable_ops.read_variable_op(handle, dtype))
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
