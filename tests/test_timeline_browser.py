"""What hands do to a timeline, in a real browser."""

from __future__ import annotations

import re

import polars as pl
import pytest

from placement_viz import analyze_run, load_run
from placement_viz.dashboard.pictures import Picture
from tests import browser
from tests.builders import SAMPLES, event, timeline

pytestmark = [
    pytest.mark.browser,
    # The driver's connection is closed by the interpreter, not by selenium.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

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
    picture = Picture(analyze_run(load_run(path)))
    forward = [picture.op(number).forward_op for number in picture.ops["op"]]
    return picture.ops.with_columns(forward_op=pl.Series(forward, dtype=pl.String))


@pytest.fixture(scope="module")
def towers():
    """Return the ops of the run that most tests look at."""
    return ops_of(TOWERS)


@pytest.fixture(scope="module")
def address(serve_app, tmp_path_factory):
    """Return the address of a server with two real runs and some odd ones."""
    folder = tmp_path_factory.mktemp("runs")
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
    crowd = folder / "crowd.json"
    crowd.write_bytes(
        timeline(*(event(f"n{i}", ts=i, dur=1) for i in range(N_CROWDED)))
    )
    return serve_app([TOWERS, MENDED, names, lanes, gap, crowd])


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
                f"const v = {view}, s = v.root.dataset, w = v.window;"
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


@pytest.fixture
def hand(shared_browser, address):
    """Return a page whose console must stay clean."""
    hand = Hand(shared_browser, address)
    hand.complaints()
    yield hand
    assert hand.complaints() == []


@pytest.fixture
def middle(hand, towers):
    """Return a window in the middle of the towers, and show it."""
    span_us = towers.select((towers["start_us"] + towers["duration_us"]).max()).item()
    window = span_us * 0.4, span_us * 0.6
    hand.show(query=f"&from={window[0]}&to={window[1]}")
    hand.until_window(*window)
    return window


def test_the_wheel_zooms_at_the_pointer(hand, middle):
    """What is under the pointer stays there, and the rest comes nearer or goes."""
    start, end = middle
    left, top, width, _ = hand.area()
    held = start + (end - start) / 4

    hand.script_with(WHEEL, left + width / 4, top + 20, {"deltaY": -250})

    factor = 2.718281828**-0.5
    hand.until_window(held + (start - held) * factor, held + (end - held) * factor)
    hand.script_with(WHEEL, left + width / 4, top + 20, {"deltaY": 250})
    hand.until_window(start, end)


@pytest.mark.parametrize(
    "turn", [{"deltaX": 100}, {"deltaY": 100, "shiftKey": True}], ids=["flat", "shift"]
)
def test_the_wheel_moves_sideways(hand, middle, turn):
    """A wheel that tilts, or is turned with Shift, moves the window."""
    start, end = middle
    left, top, width, _ = hand.area()
    by = (end - start) * 100 / width

    hand.script_with(WHEEL, left + width / 2, top + 20, turn)

    hand.until_window(start + by, end + by)


@pytest.mark.usefixtures("middle")
def test_nobody_zooms_out_of_a_run(hand):
    """The whole run is the most that there is to see."""
    left, top, width, _ = hand.area()
    whole = hand.script(f"return {VIEW}.whole")

    hand.script_with(WHEEL, left + width / 2, top + 20, {"deltaY": 9000})

    hand.until_window(*whole)
    hand.press("dds")
    hand.until_window(*whole)


def test_a_drag_moves_the_window(hand, middle):
    """What was grabbed stays under the pointer, and nothing is chosen by that."""
    start, end = middle
    left, top, width, _ = hand.area()
    by = (end - start) * 120 / width

    hand.drag((left + 300, top + 30), (left + 180, top + 34))

    hand.until_window(start + by, end + by)
    assert hand.chosen() == []
    hand.until(lambda: "from=" in hand.driver.current_url)


KEYS = {
    "w": (1 / 1.6, 0),
    "W": (1 / 1.6, 0),
    "s": (1.6, 0),
    "a": (1, -0.2),
    "d": (1, 0.2),
    "+": (1 / 1.6, 0),
    "=": (1 / 1.6, 0),
    "-": (1.6, 0),
    "ARROW_LEFT": (1, -0.2),
    "ARROW_RIGHT": (1, 0.2),
    "ARROW_UP": (1 / 1.6, 0),
    "ARROW_DOWN": (1.6, 0),
}


@pytest.mark.usefixtures("middle")
def test_keys_move_and_zoom(hand):
    """Each key moves by a fifth or zooms around the middle, and 0 shows all."""
    from selenium.webdriver.common.keys import Keys

    for key, (factor, share) in KEYS.items():
        start, end = hand.window()
        centre = (start + end) / 2 + share * (end - start)
        half = (end - start) / 2 * factor

        hand.press(getattr(Keys, key, key))

        hand.until_window(centre - half, centre + half)
    hand.press("0")
    hand.until_window(*hand.script(f"return {VIEW}.whole"))
    hand.until(lambda: "from=" not in hand.driver.current_url)


def test_the_browsers_own_keys_are_left_alone(hand, middle):
    """Ctrl and a letter is not a letter."""
    from selenium.webdriver.common.keys import Keys

    hand.script(f"{VIEW}.graph.focus()")
    hand.chain().key_down(Keys.CONTROL).send_keys("d").key_up(Keys.CONTROL).perform()

    assert hand.window() == pytest.approx(list(middle), abs=1)


@pytest.mark.usefixtures("middle")
def test_a_double_click_shows_all(hand):
    """Two clicks lead back to the whole run."""
    left, top, width, _ = hand.area()

    hand.reach(hand.chain(), left + width / 2, top + 1, CANVAS).double_click().perform()

    hand.until_window(*hand.script(f"return {VIEW}.whole"))


def test_a_part_is_measured(hand, middle, towers):
    """Shift and drag says how long a part is, and sums up the ops in it."""
    left, top, width, height = hand.area()

    hand.drag((left + 50, top), (left + width - 50, top + height), shift=True)

    hand.until_text(STATUS, "of durations")
    span = hand.script(f"return {VIEW}.span")
    scale = (middle[1] - middle[0]) / width
    assert span["from"] == pytest.approx(middle[0] + 50 * scale, abs=3 * scale)
    assert span["to"] == pytest.approx(middle[1] - 50 * scale, abs=3 * scale)
    starts, lengths = towers["start_us"], towers["duration_us"]
    seen = towers.filter((starts <= span["to"]) & (starts + lengths >= span["from"]))
    told = hand.text(STATUS)
    assert f": {seen.height} ops, " in told
    for (kind,), ops in seen.group_by("op_class"):
        assert re.search(rf"\b{ops.height} {kind} \d", told)
    longest = seen.group_by("op_type").agg(seen["duration_us"].sum()).height
    assert hand.window() == pytest.approx(list(middle), abs=1)
    if longest > 5:
        assert f"and {longest - 5} more types" in told


@pytest.mark.usefixtures("middle")
def test_a_measured_part_fills_the_window(hand):
    """Key m zooms to what is measured, and Escape forgets it."""
    from selenium.webdriver.common.keys import Keys

    left, top, *_ = hand.area()
    hand.drag((left + 100, top + 5), (left + 300, top + 40), shift=True)
    hand.until(lambda: hand.script(f"return {VIEW}.span !== null"))
    span = hand.script(f"return {VIEW}.span")

    hand.press("m")

    hand.until_window(span["from"], span["to"])
    hand.press(Keys.ESCAPE)
    assert hand.script(f"return {VIEW}.span") is None


def test_keys_that_need_an_op_say_so(hand):
    """With nothing chosen there is a hint instead of nothing at all."""
    hand.show()

    for key, hint in {
        "m": "mark a part with Shift and drag",
        "f": "choose an op first",
        "i": "choose an op first",
        "n": "search with / first",
    }.items():
        hand.press(key)

        hand.until_text(STATUS, hint)


def test_a_chosen_op_fills_half_of_the_window(hand, towers):
    """Key m zooms to the chosen op when nothing is measured."""
    row = towers.filter(towers["duration_us"] >= 4).row(0, named=True)
    hand.show(query=f"&op={row['op']}")
    hand.until_chosen(row["op"])

    hand.press("m")

    start, length = row["start_us"], row["duration_us"]
    hand.until_window(start - length / 2, start + 1.5 * length)


def test_search_steps_through_what_it_finds(hand, towers):
    """The first of what is found is chosen, and n and N lead on and back."""
    hand.show()
    found = towers.filter(towers["op_type"] == "AddN")["op"].to_list()

    hand.search("^addn$")

    hand.until_text(STATUS, f"1 of {len(found)} found")
    hand.until_chosen(found[0])
    hand.press("n")
    hand.until_chosen(found[1])
    hand.until_text(STATUS, f"2 of {len(found)} found")
    hand.press("NN")
    hand.until_chosen(found[-1])
    hand.until_text("#details", towers["name"][found[-1]])


def test_search_says_what_is_wrong(hand):
    """An expression that is none, and one that fits nothing, are told in a line."""
    hand.show()

    hand.search("(unclosed")

    hand.until_text(STATUS, "'(unclosed' is no regular expression")
    hand.search("no such op anywhere")
    hand.until_text(STATUS, "nothing found")
    assert hand.chosen() == []


def test_escape_leads_out_of_the_search(hand):
    """The keyboard is back in the timeline, and keys are keys again."""
    from selenium.webdriver.common.keys import Keys

    hand.show()
    before = hand.window()
    hand.press("/")

    hand.driver.switch_to.active_element.send_keys("wwd" + Keys.ESCAPE)

    assert hand.window() == before
    hand.driver.switch_to.active_element.send_keys("w")
    hand.until(lambda: hand.window() != before)


def test_all_keys_are_listed(hand):
    """A question mark lists every key that does something, and takes the list away."""
    hand.show()

    hand.press("?")

    hand.until_text(".run .keys", "misplaced op before, after")
    listed = hand.text(".run .keys")
    for key in "WSAD0m[]fi/nN?+-":
        assert key in listed
    hand.press("?")
    hand.until(lambda: not hand.driver.find_elements("css selector", ".keys"))


def test_misplaced_ops_are_stepped_through(hand, towers):
    """Brackets lead from misplaced op to misplaced op, and say where they end."""
    misplaced = towers.filter(towers["op_class"] == "misplaced")["op"].to_list()
    hand.show(query=f"&op={misplaced[0]}")
    hand.until_chosen(misplaced[0])

    hand.press("]")

    hand.until_chosen(misplaced[1])
    hand.until_text("#details", "belongs on")
    hand.until(lambda: f"op={misplaced[1]}" in hand.driver.current_url)
    hand.press("[")
    hand.until_chosen(misplaced[0])
    hand.press("[")
    hand.until_text(STATUS, "no misplaced op that way")
    assert hand.chosen() == [misplaced[0]]


def test_a_gradient_leads_to_its_forward_op(hand, towers):
    """Key f chooses the forward op, and says when there is none."""
    ran = dict(zip(towers["name"], towers["op"], strict=True))
    gradient = next(
        row
        for row in towers.iter_rows(named=True)
        if row["op_class"] == "misplaced" and row["forward_op"] in ran
    )
    hand.show(query=f"&op={gradient['op']}")
    hand.until_chosen(gradient["op"])

    hand.press("f")

    hand.until_chosen(ran[gradient["forward_op"]])
    hand.press("f")
    hand.until_text(STATUS, "its forward op did not run in this step")


def test_arrows_show_where_tensors_come_from(hand, towers):
    """Key i counts and draws the links of an op, and takes them away again."""
    picture = Picture(analyze_run(load_run(TOWERS)))
    op = next(
        n for n in towers["op"] if all(len(x) > 0 for x in picture.links(n).values())
    )
    links = picture.links(op)
    n_inputs, n_consumers = len(links["inputs"]), len(links["consumers"])
    hand.show(query=f"&op={op}")
    hand.until_chosen(op)

    hand.press("i")

    hand.until_text(STATUS, f"{n_inputs} inputs, {n_consumers} consumers")
    ends = hand.script(f"return {VIEW}.links.map(l => l.map(mark => mark.told.op))")
    truth = [[n, op] for n in links["inputs"]] + [[op, n] for n in links["consumers"]]
    assert ends == truth
    hand.press("i")
    hand.until(lambda: hand.script(f"return {VIEW}.links") is None)


def test_the_map_leads_anywhere(hand, middle):
    """A click in the small picture of the run brings the window there."""
    first, last = hand.script(f"return {VIEW}.whole")
    size = hand.find(".run canvas.map").size
    half = (middle[1] - middle[0]) / 2
    share = 0.75
    chain = hand.chain()

    hand.reach(chain, size["width"] * share, 10, ".run canvas.map").click().perform()

    centre = first + (last - first) * share
    hand.until_window(centre - half, centre + half)
    hand.reach(hand.chain(), size["width"] - 3, 10, ".run canvas.map").click().perform()
    hand.until_window(last - 2 * half, last)
    chain = hand.reach(hand.chain(), 3, 10, ".run canvas.map").click_and_hold()
    hand.reach(chain, size["width"] / 2, 12, ".run canvas.map").release().perform()
    centre = (first + last) / 2
    hand.until_window(centre - half, centre + half)


def test_the_map_is_as_wide_as_the_timeline(hand):
    """A moment is at the same place in both, so that one leads the eye to the other."""
    hand.show()

    left, _, width, _ = hand.area()
    place = hand.script(
        "const map = document.querySelector('.run canvas.map').getBoundingClientRect();"
        f"const graph = {GRAPH}.getBoundingClientRect();"
        "return [map.left - graph.left, map.width]"
    )
    assert place == pytest.approx([left, width], abs=1)


def test_one_finger_moves_the_window(hand, middle):
    """A touch that goes sideways pans, as a drag does."""
    left, top, width, _ = hand.area()
    by = (middle[1] - middle[0]) * 150 / width

    hand.touch("touchStart", (left + 400, top + 30))
    for x in range(390, 240, -10):
        hand.touch("touchMove", (left + x, top + 30))
    hand.touch("touchMove", (left + 250, top + 30))
    hand.touch("touchEnd")

    # A browser takes the first few pixels to find out what the touch is to be.
    hand.until(
        lambda: (
            hand.window()
            == pytest.approx([middle[0] + by, middle[1] + by], abs=by * 0.15)
        )
    )
    assert hand.chosen() == []


def test_two_fingers_zoom(hand, middle):
    """What is under each finger stays under it."""
    left, top, width, _ = hand.area()
    at = left + width / 2

    hand.touch("touchStart", (at - 50, top + 30), (at + 50, top + 30))
    for by in range(50, 101, 5):
        hand.touch("touchMove", (at - by, top + 30), (at + by, top + 30))
    hand.touch("touchEnd")

    span = middle[1] - middle[0]
    hand.until(
        lambda: (
            hand.window()
            == pytest.approx(
                [middle[0] + span / 4, middle[1] - span / 4], abs=span * 0.04
            )
        )
    )


@pytest.mark.parametrize("hidden", [[], ["forward", "misplaced"]], ids=["all", "some"])
def test_every_op_of_a_window_is_shown_or_merged(hand, towers, hidden):
    """Whatever is zoomed to, the timeline accounts for every op that is there."""
    hand.show()
    for each in hidden:
        hand.find(f"#legend input[value='{each}']").click()
    starts, ends = towers["start_us"], towers["start_us"] + towers["duration_us"]

    for key in ("0", "w", "w", "d", "w", "wwww", "aaaaaa"):
        hand.press(key)
        start, end = hand.window()

        seen = (starts <= end) & (ends >= start) & ~towers["op_class"].is_in(hidden)
        hand.until_drawn(int(seen.sum()))
        hand.until_text(STATUS, f": {int(seen.sum())} ops")


def test_odd_names_are_text(hand):
    """Markup, another direction of writing and 10,000 characters do no harm."""
    hand.show("names")
    width = hand.script("return document.documentElement.scrollWidth")

    for op, part in enumerate((MARKUP, TURNED[:3], "x" * 60)):
        hand.click_on_op(op)

        hand.until_text(".run .tip", part)
        hand.until_text("#details", part)
        hand.search(re.escape(part))
        hand.until_text(STATUS, "1 of 1 found")
    for selector in (".run .tip", "#details", STATUS):
        inside = "b, script, img, i"
        found = hand.driver.find_elements("css selector", f"{selector} :is({inside})")
        assert found == []
    assert hand.driver.title == "placement_viz"
    labels = hand.script(f"return Object.values({VIEW}.sources[0].data.labels)")
    assert max(map(len, labels)) <= 120
    assert any("script><img" in each for each in labels)
    # Nothing makes the page wider than it was.
    assert hand.script("return document.documentElement.scrollWidth") == width


def test_all_of_many_lanes_are_reached(hand):
    """A list of lanes longer than the screen scrolls, and a found op is in sight."""
    hand.show("lanes")
    seen = hand.script(f"return [{GRAPH}.scrollHeight, {GRAPH}.clientHeight]")
    assert seen[0] > seen[1]

    hand.search(f"^n{N_LANES - 1}$")

    hand.until_text(STATUS, "1 of 1 found")
    hand.until(lambda: len(hand.chosen()) == 1)
    (op,) = hand.chosen()
    *_, middle = hand.place_of(op)
    top, height = hand.script(f"return [{GRAPH}.scrollTop, {GRAPH}.clientHeight]")
    assert top < middle < top + height
    # Measured anew while it is scrolled, everything stays where it is.
    hand.script(f"{VIEW}.measure()")
    assert hand.place_of(op)[-1] == pytest.approx(middle, abs=1)
    left, *_ = hand.area()
    hand.drag((left + 200, middle - 160), (left + 200, middle - 10))
    hand.until(lambda: hand.script(f"return {GRAPH}.scrollTop") < top)


def test_nothing_between_two_ops_is_shown_as_nothing(hand):
    """A window without an op is empty, says so, and leads out again."""
    hand.show("gap", "&from=400000&to=500000")

    hand.until_text(STATUS, "100 ms: 0 ops")
    hand.until_drawn(0)
    left, top, width, _ = hand.area()
    hand.reach(hand.chain(), left + width / 2, top + 10, CANVAS).click().perform()
    assert hand.chosen() == []
    hand.press("0")
    hand.until_text(STATUS, ": 2 ops")


@pytest.mark.usefixtures("middle")
def test_screen_readers_hear_of_a_zoom_once(hand):
    """What is read out changes when the hand is at rest, not with every step."""
    hand.script(
        "for (const name of ['voice', 'status']) {"
        "  const place = document.querySelector('.run .timeline-' + name);"
        "  const told = window['told-' + name] = [];"
        "  new MutationObserver(() => told.push(place.textContent))"
        "  .observe(place, {childList: true, characterData: true, subtree: true}); }"
    )
    hand.script(f"{VIEW}.graph.focus()")
    chain = hand.chain()
    for _ in range(8):
        chain.send_keys("w").pause(0.1)

    chain.perform()

    hand.until(
        lambda: hand.script("return window['told-voice']")[-1:] == [hand.text(STATUS)]
    )
    shown, heard = hand.script("return [window['told-status'], window['told-voice']]")
    assert len(shown) >= 6
    assert len(heard) <= len(shown) / 2
    assert hand.find(".run .timeline-voice").get_attribute("role") == "status"
    assert hand.find(STATUS).get_attribute("role") in {None, ""}


def test_who_uses_the_keyboard_sees_where_it_is(hand):
    """The timeline is reached by Tab and has a ring around it then."""
    from selenium.webdriver.common.keys import Keys

    hand.show()
    hand.script("[...document.querySelectorAll('#legend input')].pop().focus()")

    def is_reached():
        hand.driver.switch_to.active_element.send_keys(Keys.TAB)
        return hand.script(f"return document.activeElement === {GRAPH}")

    hand.until(is_reached)
    ring = hand.script(
        f"const style = getComputedStyle({GRAPH});"
        "return [style.outlineStyle, parseFloat(style.outlineWidth)]"
    )
    assert ring[0] == "solid"
    assert ring[1] >= 2


def test_nothing_moves_by_itself(hand, middle):
    """There is no animation to be switched off: a zoom is there at once."""
    hand.press("w")

    assert hand.script("return document.getAnimations().length") == 0
    assert hand.script(f"return {VIEW}.window") != pytest.approx(list(middle), abs=1)


def test_the_tip_goes_when_the_timeline_moves(hand, towers):
    """What is told of an op is not left beside another one."""
    hand.show()
    longest = towers.sort("duration_us")["op"][-1]
    hand.click_on_op(longest)
    hand.until_text(".run .tip", towers["name"][longest])

    hand.press("ww")

    hand.until(lambda: not hand.find(".run .tip").is_displayed())


BLOCK = f"""
const view = {VIEW}, [source] = view.sources, found = [];
const width = source.window[1] - source.window[0];
source.data.op.forEach((op, i) => {{
    if (op >= 0) return;
    const at = part => source.window[0] + part * width;
    const [from, to] = [at(source.data.begin[i]), at(source.data.end[i])];
    const line = source.data.kind[i] >> 8;
    found.push([from, to, view.x((from + to) / 2), view.tops[0][line]]);
}});
return found[found.length >> 1];
"""


def test_a_block_tells_what_is_in_it_and_opens(hand):
    """Ops that are too narrow to be drawn are counted, and a click leads to them."""
    hand.show("crowd")
    before = hand.window()
    start, end, x, y = hand.script(BLOCK)
    assert end - start > 1.5

    hand.reach(hand.chain(), x, y, CANVAS).perform()

    hand.until_text(".run .tip", "click to zoom in")
    # Each op lasts a microsecond; neighbours that only touch are not in it.
    assert hand.text(".run .tip").startswith(f"{round(end - start)} ops in ")
    # A scroll bar may have come meanwhile, which makes the page narrower.
    start, end, x, y = hand.script(BLOCK)
    hand.reach(hand.chain(), x, y, CANVAS).click().perform()
    hand.until(lambda: hand.window() != before)
    window = hand.window()
    # A pointer is only as exact as a pixel, in which there are several blocks.
    pixel = (before[1] - before[0]) / hand.area()[2]
    assert window[0] - start == pytest.approx(0, abs=3 * pixel)
    assert window[1] - window[0] < (before[1] - before[0]) / 20


def test_two_runs_share_an_axis(hand, towers):
    """In the comparison an op lights up in both runs, and both zoom together."""
    query = "?view=compare&baseline=towers-auto&candidate=towers-colocated"
    hand.open(query)
    mended = ops_of(MENDED)
    both = towers.height + mended.height
    seen = "const s = document.querySelector('#compare-timeline').dataset;"
    hand.until(
        lambda: (
            hand.script(seen + "return Number(s.opsShown) + Number(s.opsMerged)")
            == both
        )
    )
    named = {name: n for n, name in reversed(list(enumerate(mended["name"])))}
    op = next(
        row["op"]
        for row in towers.filter(towers["op_class"] == "misplaced").iter_rows(
            named=True
        )
        if row["name"] in named
    )

    hand.script(f"{OTHER}.choose({op}, 0)")

    hand.until_chosen(op, named[towers["name"][op]], view=OTHER)
    before = hand.window(OTHER)
    hand.press("w", view=OTHER)
    hand.until(lambda: hand.window(OTHER) != before)
    starts = hand.script(f"return {OTHER}.sources.map(s => s.window)")
    assert starts[0] == starts[1]
    hand.until(lambda: "cfrom=" in hand.driver.current_url)


def test_a_part_of_both_runs_is_summed_for_each(hand, towers):
    """Measured across two runs, both are told, each by its name."""
    hand.open("?view=compare&baseline=towers-auto&candidate=towers-colocated")
    hand.until(lambda: hand.window(OTHER))
    hand.script(
        f"const v = {OTHER}, a = v.area; v.span = {{from: v.whole[0], to: v.whole[1],"
        "top: a.top, bottom: a.top + a.height}; v.measureSpan()"
    )

    hand.until_text(".compare .timeline-status", f"Before: {towers.height} ops")
    assert f"After: {ops_of(MENDED).height} ops" in hand.text(
        ".compare .timeline-status"
    )
