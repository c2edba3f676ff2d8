"""Pictures of where the step went."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz.analysis.step.memory import (
    CURVES_SCHEMA,
    HELD_SCHEMA,
    DevicePeak,
    Memory,
    MemoryFrom,
)
from placement_viz.figures import DARK, LIGHT, memory_figure
from placement_viz.figures.devices import device_fills
from tests.builders import device
from tests.colours import contrast


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=lambda look: look.name)
def test_devices_are_told_apart_on_every_page(look):
    """Each device's colour has a contrast of 3 to 1 with the page, and is its own."""
    fills = device_fills([f"GPU:{i}" for i in range(6)], look)

    assert len(set(fills.values())) == 6
    assert min(contrast(fill, look.surface) for fill in fills.values()) >= 3


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=4_000))
@settings(max_examples=20)
def test_a_long_curve_of_memory_keeps_its_peak(levels):
    """However many points a curve has, few are drawn and the highest is one."""
    held = pl.DataFrame(
        {"device": device("CPU:0"), "at_us": range(len(levels)), "n_bytes": levels},
        schema=CURVES_SCHEMA,
    )
    memory = Memory(MemoryFrom.SIZES, HELD_SCHEMA.to_frame(), held, (peak_of(held),))

    curve, mark = memory_figure(memory, (device("CPU:0"),), LIGHT).data

    assert len(curve.x) <= 2_000
    assert list(curve.x) == sorted(curve.x)
    assert max(curve.y) == mark.y[0] == max(levels) / 2**20


def peak_of(curve):
    """Return the peak of a curve of one device."""
    at_us, n_bytes = curve.sort("n_bytes")["at_us", "n_bytes"].row(-1)
    return DevicePeak(curve["device"][0], at_us, n_bytes, 0, 0, HELD_SCHEMA.to_frame())
