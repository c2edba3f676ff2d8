"""Wheel, drag, touch and keys move a timeline, in a real browser."""

from __future__ import annotations

import pytest

from tests.hand import CANVAS, GRAPH, N_LANES, STATUS, VIEW, WHEEL

pytestmark = [
    pytest.mark.browser,
    # The driver's connection is closed by the interpreter, not by selenium.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


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


def heads(hand, view="timeline"):
    """Return the names of the devices, from top to bottom."""
    return hand.script(
        f"return [...document.querySelectorAll('#{view} .head .device')]"
        ".map(each => each.textContent)"
    )


def test_a_device_is_moved_and_pinned_by_keys(hand):
    """The name of a device is a button; what was made of it outlives a reload."""
    from selenium.webdriver.common.keys import Keys

    hand.show()
    assert heads(hand) == ["CPU:0", "CPU:1"]
    tops = hand.script(f"return {VIEW}.tops[0].map(Math.round)")

    hand.script("document.querySelectorAll('#timeline .head .device')[1].focus()")
    moved = hand.chain().key_down(Keys.SHIFT).send_keys(Keys.ARROW_UP)
    moved.key_up(Keys.SHIFT).perform()

    hand.until(lambda: heads(hand) == ["CPU:1", "CPU:0"])
    assert hand.driver.switch_to.active_element.text == "CPU:1"
    now = hand.script(f"return {VIEW}.tops[0].map(Math.round)")
    assert now[-1] == tops[0]
    hand.show()
    assert heads(hand) == ["CPU:1", "CPU:0"]
    hand.script("document.querySelectorAll('#timeline .head .device')[1].focus()")
    hand.driver.switch_to.active_element.send_keys("p")
    hand.until(lambda: heads(hand) == ["CPU:0", "CPU:1"])
    assert hand.find("#timeline .head.pinned .device").text == "CPU:0"
    hand.script("window.sessionStorage.clear()")


def test_a_device_is_moved_by_its_button(hand):
    """Buttons beside the name do the same for the pointer."""
    hand.show()
    last = hand.find("#timeline .head:last-child .device")
    hand.chain().move_to_element(last).perform()
    hand.find("#timeline .head:last-child .up").click()

    hand.until(lambda: heads(hand) == ["CPU:1", "CPU:0"])
    hand.script("window.sessionStorage.clear()")
