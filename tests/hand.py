"""A page with a timeline, and what a hand does to it."""

from __future__ import annotations

import polars as pl
import pytest

from tests import browser
from tests.builders import SAMPLES, event, timeline

TOWERS = SAMPLES / "towers-auto.json"
MENDED = SAMPLES / "towers-colocated.json"


MARKUP = "<b>bold</b><script>document.title='broken'</script><img src=x>"
#: Hebrew, an embedding that is never closed, and an override.
TURNED = "אבג\u202bדהז\u202eabc"
LONG = "x" * 10_000
N_LANES = 130
#: So many that several share a pixel, one touching the other.
N_CROWDED = 12_000
GAP = (100_000, 900_000)

VIEW = "window.placementTimeline.of('timeline')"
OTHER = "window.placementTimeline.of('compare-timeline')"
CANVAS = ".view-run .run canvas.ops"
STATUS = ".view-run .run .timeline-status"
GRAPH = "document.querySelector('.run .graph')"
WHEEL = """
const canvas = document.querySelector('.run canvas.ops');
const box = canvas.getBoundingClientRect();
const [x, y, more] = arguments;
canvas.dispatchEvent(new WheelEvent('wheel', Object.assign(
    {clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true},
    more)));
"""


def ops_of(path):
    """Return how the ops of a run are drawn, as a table."""
    from placement_viz import analyze_run, load_run
    from placement_viz.dashboard.pictures import Picture

    picture = Picture(analyze_run(load_run(path)))
    forward = [picture.op(number).forward_op for number in picture.ops["op"]]
    return picture.ops.with_columns(forward_op=pl.Series(forward, dtype=pl.String))


def timeline_files(folder):
    """Write some odd runs to a folder; return them with two real ones."""
    names = folder / "names.json"
    names.write_bytes(
        timeline(
            event(MARKUP, op="<i>Odd</i>", ts=0, dur=1000),
            event(TURNED, ts=1000, dur=1000),
            event(LONG, ts=2000, dur=1000),
        )
    )
    lanes = folder / "lanes.json"
    lanes.write_bytes(
        timeline(*(event(f"n{i}", tid=i, ts=0, dur=1000) for i in range(N_LANES)))
    )
    gap = folder / "gap.json"
    gap.write_bytes(
        timeline(
            event("before", ts=0, dur=GAP[0]),
            event("after", ts=GAP[1], dur=100_000),
        )
    )
    tiny = folder / "tiny.json"
    tiny.write_bytes(
        timeline(
            event("before", ts=0, dur=400_000),
            event("alone", ts=500_000, dur=1),
            event("after", ts=600_000, dur=200_000),
            event("between", ts=800_000, dur=1),
            event("last", ts=800_001, dur=199_999),
        )
    )
    crowd = folder / "crowd.json"
    crowd.write_bytes(
        timeline(*(event(f"n{i}", ts=i, dur=1) for i in range(N_CROWDED)))
    )
    return [TOWERS, MENDED, names, lanes, gap, tiny, crowd]


class Hand(browser.Page):
    """A page with a timeline, and what a hand does to it."""

    def show(self, run="towers-auto", query=""):
        """Open a run and wait until its timeline is there."""
        self.open(f"?run={run}{query}")
        self.until(lambda: self.script(f"return {VIEW}.look && {VIEW}.area !== null"))
        self.until(lambda: self.script(browser.SEEN))
        self.script(
            "document.querySelector('.run .card').scrollIntoView({block: 'center'})"
        )

    def window(self, view=VIEW):
        """Return the window that is drawn, once the server has answered."""
        return self.until(
            lambda: self.script(
                f"const v = {view}, s = v.graph.dataset, w = v.window;"
                "return w[0] === Number(s.startUs) && w[1] === Number(s.endUs) && w"
            )
        )

    def until_window(self, start_us, end_us):
        """Wait for a window, to the pixel."""
        # The map has large pixels.
        pixel = max(
            (end_us - start_us) / 500, self.script(f"return {VIEW}.whole")[1] / 1200
        )

        def is_there():
            return self.window() == pytest.approx([start_us, end_us], abs=pixel)

        try:
            self.until(is_there)
        except Exception:
            assert self.window() == pytest.approx([start_us, end_us], abs=pixel)
            raise

    def area(self, view=VIEW):
        """Return left, top, width and height of what is drawn into."""
        area = self.script(f"return {view}.area")
        return area["left"], area["top"], area["width"], area["height"]

    def press(self, keys, view=VIEW):
        """Press keys in the timeline."""
        self.script(f"{view}.graph.focus()")
        self.driver.switch_to.active_element.send_keys(keys)

    def chain(self):
        """Return an empty chain of moves."""
        from selenium.webdriver.common.action_chains import ActionChains

        return ActionChains(self.driver, duration=50)

    def drag(self, start, end, *, shift=False):
        """Drag from one pixel of the canvas to another."""
        from selenium.webdriver.common.keys import Keys

        chain = self.chain()
        if shift:
            chain.key_down(Keys.SHIFT)
        self.reach(chain, *start, CANVAS).click_and_hold()
        self.reach(chain, *end, CANVAS).release()
        if shift:
            chain.key_up(Keys.SHIFT)
        chain.perform()

    def touch(self, kind, *places):
        """Put fingers on pixels of the canvas."""
        left, top = self.script(
            "const box = document.querySelector('.run canvas.ops')"
            ".getBoundingClientRect(); return [box.left, box.top]"
        )
        points = [
            {"x": left + x, "y": top + y, "id": number}
            for number, (x, y) in enumerate(places)
        ]
        self.driver.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
        )

    def chosen(self, view=VIEW):
        """Return the numbers of the ops with a box around them."""
        return self.script(f"return {view}.chosen.map(mark => mark.told.op)")

    def until_chosen(self, *ops, view=VIEW):
        """Wait for ops with a box around them."""
        self.until(lambda: self.chosen(view) == list(ops))

    def search(self, pattern):
        """Search, as a person does."""
        self.press("/")
        box = self.driver.switch_to.active_element
        assert box.get_attribute("type") == "search"
        box.send_keys(pattern + "\n")
