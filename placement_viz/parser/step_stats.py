"""RunMetadata and StepStats (``.pb``, ``.pbtxt``); needs TensorFlow.

What FULL_TRACE records is turned into a timeline by TensorFlow itself and read as such,
so that both give the same run.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

from placement_viz.errors import NoOpsError, TraceFormatError
from placement_viz.model import Recorded, recorded_tables
from placement_viz.step_stats import find_allocations, find_copies, tensor_sizes

__all__ = ["Timeline", "is_step_stats", "timeline_of"]

_TEXT = re.compile(
    rb"\s*(?:#[^\n]*\n\s*)*(?:step_stats|dev_stats|partition_graphs|cost_graph)\s*[:{]"
)
#: The first field of both messages, in binary, and somewhere after it a device. Nobody
#: should wait for TensorFlow because a file begins with an empty line.
_BINARY = re.compile(rb"\n.*/(?:job|device|host|gpu|cpu):", re.DOTALL)


def is_step_stats(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` may be one of the two.

    Args:
        head: A piece of it; no JSON.
    """
    return any(kind.match(head) for kind in (_BINARY, _TEXT))


@dataclasses.dataclass(frozen=True, eq=False)
class Timeline:
    """Step stats as TensorFlow writes them for people, and what it leaves out then.

    Attributes:
        trace: The timeline.
        recorded: What the step stats tell of sizes and memory, with times from that of
            the first op, which is the argument.
    """

    trace: bytes
    recorded: Callable[[int], Recorded]


def timeline_of(data: bytes, *, source: str) -> Timeline:
    """Return the timeline that TensorFlow writes for step stats.

    Args:
        data: A serialised RunMetadata or StepStats, binary or text.
        source: What to call it in messages.

    Raises:
        TraceFormatError: It is neither, or TensorFlow is not installed.
        NoOpsError: Nothing was traced.
    """
    try:
        from google.protobuf import message, text_format  # noqa: PLC0415 - heavy
        from tensorflow.python.client import timeline  # noqa: PLC0415 - heavy
    except ImportError as error:
        text = (
            f"{source}: expected TensorFlow to read step stats with, found none; "
            "install tensorflow, or open the timeline that it writes of them"
        )
        raise TraceFormatError(text) from error
    try:
        stats = _step_stats(data)
    except message.DecodeError as error:
        text = (
            f"{source}: expected a timeline, RunMetadata or StepStats, found binary "
            "data of another kind, or damaged; a profiler's xplane, if it is one, does "
            "not record the device of logical ops"
        )
        raise TraceFormatError(text) from error
    except (text_format.ParseError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        text = f"{source}: expected RunMetadata or StepStats, found damage: {reason}"
        raise TraceFormatError(text) from error
    if not stats.dev_stats:
        raise NoOpsError(
            f"{source}: no device in these step stats; only a Session step run with "
            "FULL_TRACE records ops"
        )
    trace = timeline.Timeline(stats).generate_chrome_trace_format(show_memory=False)
    recorded = functools.partial(
        recorded_tables,
        tensor_sizes(stats),
        find_allocations(stats),
        find_copies(stats),
    )
    return Timeline(str(trace).encode(), recorded)


def _step_stats(data: bytes) -> Any:
    """Return the StepStats in ``data``, alone or inside a RunMetadata."""
    from google.protobuf import message, text_format  # noqa: PLC0415 - heavy
    from tensorflow.core.framework import step_stats_pb2  # noqa: PLC0415 - heavy
    from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415 - heavy

    metadata, stats = config_pb2.RunMetadata(), step_stats_pb2.StepStats()
    if match := _TEXT.match(data):
        target = stats if b"dev_stats" in match[0] else metadata
        text_format.Parse(data, target, allow_unknown_field=True)
        return stats if target is stats else metadata.step_stats
    # Either may be read as the other without complaint; devices tell.
    for target in (stats, metadata):
        try:
            target.ParseFromString(data)
        except message.DecodeError:
            continue
        found = getattr(target, "step_stats", target)
        if any(device.device.startswith("/") for device in found.dev_stats):
            return found
    # Says what is wrong with it, if it is damaged.
    metadata.ParseFromString(data)
    return step_stats_pb2.StepStats()
