"""The checksum of TensorFlow's record files."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import numpy.typing as npt

__all__ = ["masked_crc32c"]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, with its bits reversed
_ALL_ONES = 0xFFFFFFFF
#: What is read side by side has to fit into the processor's cache.
_CHUNK_BYTES = 1 << 22
#: Below this, one byte after another is faster.
_SHORT_BYTES = 1 << 10


def masked_crc32c(data: bytes) -> int:
    """Return the checksum that stands behind ``data`` in a record file.

    Source:
        ``tensorflow/core/lib/hash/crc32c.h``: rotated and shifted, so that data with
        checksums in it can be summed up too.
    """
    state, view = _ALL_ONES, memoryview(data)
    for start in range(0, len(data), _CHUNK_BYTES):
        state = _updated(state, view[start : start + _CHUNK_BYTES])
    crc = state ^ _ALL_ONES
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ALL_ONES


def _updated(state: int, data: memoryview) -> int:
    """Return the state of the sum after ``data``.

    The sum is linear, so equal parts of the data can be summed up side by side and put
    together in the end.
    """
    n_parts = math.isqrt(len(data)) if len(data) >= _SHORT_BYTES else 0
    n_each = len(data) // n_parts if n_parts else 0
    lead = len(data) - n_parts * n_each
    for byte in data[:lead]:
        state = _BYTE_STATES[(state ^ byte) & 0xFF] ^ state >> 8
    if not n_parts:
        return state
    parts = np.frombuffer(data[lead:], np.uint8).reshape(n_parts, n_each)
    # Behind the parts, each bit of a state: what the length of a part makes of it.
    sums = np.zeros(n_parts + 32, np.uint32)
    sums[n_parts:] = [1 << i for i in range(32)]
    for column in np.ascontiguousarray(parts.T):
        sums[:n_parts] ^= column
        sums = _STATES[sums & 0xFF] ^ sums >> 8
    bits: list[int] = sums[n_parts:].tolist()
    for part in sums[:n_parts].tolist():
        moved = (moved for i, moved in enumerate(bits) if state >> i & 1)
        state = functools.reduce(operator.xor, moved, part)
    return state


def _byte_state(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_BYTE_STATES = [_byte_state(byte) for byte in range(256)]
_STATES: npt.NDArray[np.uint32] = np.array(_BYTE_STATES, np.uint32)
