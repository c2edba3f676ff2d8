"""Two timelines on one axis, in a real browser."""

from __future__ import annotations

import pytest

from tests.hand import MENDED, OTHER, ops_of

pytestmark = [
    pytest.mark.browser,
    # The driver's connection is closed by the interpreter, not by selenium.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


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


PLACE = "?view=compare&baseline=towers-auto&candidate=towers-colocated"


def test_both_runs_are_searched(hand, towers):
    """What fits is found in the first run, then in the second one."""
    n_before, n_after = (
        each.filter(each["op_type"] == "AddN").height
        for each in (towers, ops_of(MENDED))
    )
    hand.open(PLACE)
    hand.until(lambda: hand.window(OTHER))

    hand.press("/", view=OTHER)
    hand.driver.switch_to.active_element.send_keys("^addn$\n")

    status = ".compare .timeline-status"
    hand.until(lambda: hand.script(f"return {OTHER}.found !== null"))
    assert hand.script(f"return {OTHER}.found.total") == n_before + n_after
    hand.press("N", view=OTHER)
    hand.until(lambda: hand.script(f"return {OTHER}.chosen[0].source") == 1)
    assert hand.text(status)


def test_the_map_of_two_runs_leads_anywhere(hand):
    """A click in the small picture moves both runs."""
    hand.open(PLACE)
    hand.until(lambda: hand.window(OTHER))
    hand.press("www", view=OTHER)
    hand.until(lambda: hand.script(f"return {OTHER}.isWhole()") is False)
    first, last = hand.script(f"return {OTHER}.whole")
    size = hand.find(".compare canvas.map").size

    place = (size["width"] * 0.75, 10, ".compare canvas.map")
    hand.reach(hand.chain(), *place).click().perform()

    def is_there():
        start, end = hand.window(OTHER)
        at = ((start + end) / 2 - first) / (last - first)
        return abs(at - 0.75) < 0.01

    hand.until(is_there)
