"""What is found, measured and told in a timeline, in a real browser."""

from __future__ import annotations

import re

import pytest

from placement_viz import analyze_run, load_run
from placement_viz.dashboard.pictures import Picture
from tests.hand import CANVAS, MARKUP, STATUS, TOWERS, TURNED, VIEW

pytestmark = [
    pytest.mark.browser,
    # The driver's connection is closed by the interpreter, not by selenium.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


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


@pytest.mark.parametrize("by", [-3, 0, 3])
def test_an_op_of_a_pixel_may_be_missed_by_three(hand, by):
    """With nothing else under the pointer the nearest op is told."""
    hand.show("tiny")
    left, _, middle = hand.place_of(1)

    hand.reach(hand.chain(), left + by, middle, CANVAS).perform()

    hand.until_text(".run .tip", "alone")


@pytest.mark.parametrize("by", [-0.5, 1.5])
def test_an_op_between_two_wide_ones_is_reached(hand, by):
    """It may be missed by a pixel, and is chosen by a click."""
    hand.show("tiny")
    left, *_, middle = hand.place_of(3)

    found = hand.script(f"return {VIEW}.hit({left + by}, {middle})")

    assert found["op"] == 3
    hand.script(f"{VIEW}.click({left + by}, {middle})")
    hand.until_chosen(3)


def test_the_critical_path_is_drawn_and_hidden(hand):
    """Key k draws a line through the ops of the path, and hides it again."""
    hand.show()
    path = analyze_run(load_run(TOWERS, cache=False)).step.critical_path.path

    hand.press("k")

    hand.until_text(STATUS, "critical path: what each op of it waited for last")
    hand.until(lambda: hand.script(f"return {VIEW}.path !== null"))
    assert hand.script(f"return {VIEW}.path.op") == path["op"].to_list()
    hand.press("k")
    hand.until_text(STATUS, "critical path hidden")
    assert hand.script(f"return {VIEW}.path") is None


def test_counters_are_stepped_through(hand):
    """Key u shows tensors on their way, then what each device holds, then all anew."""
    hand.show()
    hand.until(lambda: hand.script(f"return {VIEW}.counter !== null"))

    told = []
    for _ in range(4):
        before = hand.script(f"return {VIEW}.counter.label")
        hand.press("u")
        hand.until(
            lambda old=before: hand.script(f"return {VIEW}.counter.label") != old
        )
        told.append(hand.script(f"return {VIEW}.counter.told"))

    on_the_way, first, second, busy = told
    assert on_the_way.startswith("on the way: at most ")
    assert first == "held by CPU:0: at most 38.7 MiB"
    assert second == "held by CPU:1: at most 3.1 MiB"
    assert busy == "busy devices"
