"""The app as a person uses it, in a real browser."""

from __future__ import annotations

import gzip
import threading

import pytest

from placement_viz.figures import LIGHT, OpClass
from tests import browser
from tests.builders import SAMPLES, TRACES

pytestmark = [
    pytest.mark.browser,
    # The driver's connection is closed by the interpreter, not by selenium.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ONE = TRACES / "one_misplaced_gradient.json"
MENDED = TRACES / "same_step_colocated.json"
MARKUP = TRACES / "markup_in_names.json"
CUT_OFF = TRACES / "cut_off.json"

VIEW = "window.placementTimeline.of('timeline')"
#: Whether anything is drawn there.
ANY_DRAWN = """
const [x, y, width, height] = arguments;
const canvas = document.querySelector('.graph canvas.ops');
const ratio = canvas.width / canvas.clientWidth;
return canvas.getContext('2d').getImageData(
    x * ratio, y * ratio, width * ratio, height * ratio).data.some(value => value);
"""
#: The colours of what is drawn there.
COLOURS = """
const [x, y, width, height] = arguments;
const canvas = document.querySelector('.graph canvas.ops');
const ratio = canvas.width / canvas.clientWidth;
const data = canvas.getContext('2d').getImageData(
    x * ratio, y * ratio, width * ratio, height * ratio).data;
const found = new Set();
for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 255) {
        found.add('#' + [0, 1, 2].map(k =>
            data[i + k].toString(16).padStart(2, '0')).join(''));
    }
}
return [...found];
"""


@pytest.fixture(scope="module")
def address(serve_app):
    """Return the address of a server with two samples, one of them damaged."""
    return serve_app([ONE, MENDED, CUT_OFF, *sorted(SAMPLES.glob("towers-*.json"))])


@pytest.fixture
def new_page(address, browsers):
    """Return a function that starts a browser of its own, without a past."""
    return lambda: browser.Page(browsers(), address)


@pytest.fixture
def page(new_page):
    """Return the start page in a browser; its console must stay clean."""
    page = new_page()
    page.open()
    yield page
    assert page.complaints() == []


def test_sample_is_one_click_away(page):
    """A click on a sample shows its headline and its ops."""
    page.find(".samples a").click()

    page.until_text("#headline", "1 of them belongs on GPU:1")
    page.until_drawn(4)
    assert "run=one_misplaced_gradient" in page.driver.current_url


def test_upload_shows_misplaced_ops_by_colour_and_hatch(page):
    """An uploaded file is drawn with its misplaced op in a class of its own."""
    page.upload(ONE)

    page.until_text("#headline", "1 of them belongs on GPU:1")
    page.until_drawn(4)
    left, right, middle = page.place_of(2)
    # The right half: a name stands on plain ground.
    part = ((left + right) / 2, middle - 6, (right - left) / 3, 12)
    colours = page.driver.execute_script(COLOURS, *part)
    assert {LIGHT.fills[OpClass.MISPLACED], LIGHT.surface} <= set(colours)


def test_gzipped_upload_opens(page, tmp_path):
    """A gzipped timeline opens like a plain one."""
    packed = tmp_path / "timeline.json.gz"
    packed.write_bytes(gzip.compress(ONE.read_bytes()))

    page.upload(packed)

    page.until_text("#message", "Opened timeline.json.gz")
    page.until_text("#headline", "1 of them belongs on GPU:1")


def test_table_and_timeline_choose_the_same_op(page):
    """A row outlines its bar and explains it, and a bar selects its row."""
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)

    page.until(lambda: page.find(".ag-row[row-id='2'] [col-id='verdict']")).click()

    page.until_text("#details", "belongs on GPU:1")
    page.until(lambda: page.script(browser.OUTLINED) == 1)
    assert "op=2" in page.driver.current_url

    page.click_on_op(3)

    page.until_text("#details", "At home")
    page.until(lambda: page.find(".ag-row-selected[row-id='3']"))


def test_closing_an_op_forgets_it(page):
    """The details can be closed, and then nothing is outlined."""
    page.open("?run=one_misplaced_gradient&op=2")
    page.until(lambda: page.script(browser.OUTLINED) == 1)

    page.find("#close-op").click()

    page.until_text("#details", "Choose an op")
    page.until(lambda: page.script(browser.OUTLINED) == 0)
    assert "op=" not in page.driver.current_url


def test_legend_switches_a_class_off(page):
    """A class that is switched off is no longer drawn."""
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)

    page.find("#legend input[value='forward']").click()

    page.until_drawn(2)
    page.find("#legend input[value='forward']").click()
    page.until_drawn(4)


def test_two_runs_are_compared_and_swapped(page):
    """The comparison says what moved, in both directions."""
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)
    query = "?view=compare&baseline=one_misplaced_gradient&candidate="
    page.open(query + "same_step_colocated")

    page.until_text("#compare", "1 op moved; misplaced gradient ops 1 → 0")
    page.until(lambda: page.find("#moves-table .ag-row [col-id='to_device']"))
    assert page.text("#moves-table .ag-row [col-id='to_device']") == "GPU:1"

    page.find("#swap").click()

    page.until_text("#compare", "misplaced gradient ops 0 → 1")


PAIR = "window.placementTimeline.of('compare-timeline')"


def test_an_op_lights_up_in_both_runs_and_they_are_aligned(page):
    """A row chooses its op in both runs, and the runs can be moved until they meet."""
    query = "?view=compare&baseline=one_misplaced_gradient&candidate="
    page.open(query + "same_step_colocated")
    page.until(lambda: page.find("#moves-table .ag-row [col-id='to_device']")).click()

    page.until(lambda: page.script(f"return {PAIR}.chosen.length") == 2)
    page.until(
        lambda: (
            "→" in page.text("#compare .timeline-status")
            and "misplaced → colocated" in page.text("#compare .timeline-status")
        )
    )
    starts = f"return {PAIR}.chosen.map(mark => {PAIR}.at(mark).x0)"
    page.script(f"{PAIR}.shiftTo(7)")
    left, right = page.script(starts)
    assert left != right

    page.find(".align-chosen").click()
    page.until(lambda: len({round(x, 3) for x in page.script(starts)}) == 1)
    page.find(".align-starts").click()
    page.until(lambda: page.script(f"return {PAIR}.sources[1].shift") == 0)


def test_two_files_dropped_together_are_compared(page):
    """Two uploads at once open the comparison."""
    page.upload(ONE, MENDED)

    page.until_text("#compare", "misplaced gradient ops 1 → 0")
    assert "view=compare" in page.driver.current_url


def test_broken_upload_gives_a_message_and_loses_nothing(page):
    """A damaged file is reported in a line, and the open run stays open."""
    page.upload(ONE)
    page.until_text("#headline", "belongs on GPU:1")
    headline = page.text("#headline")

    page.upload(CUT_OFF)

    page.until_text("#uploads [role=alert]", "cut_off.json: ")
    assert page.text("#headline") == headline
    assert page.script(browser.DRAWN) == 4

    page.find("#uploads .line.error button").click()

    page.until(lambda: page.text("#uploads .lines") == "")
    assert "undefined" not in page.script("return document.body.textContent")


def drop(page, *paths):
    """Drop files on the page, as the browser tells it."""
    files = [{"name": path.name, "text": path.read_text()} for path in paths]
    page.driver.execute_script(
        """
        const data = new DataTransfer();
        for (const each of arguments[0]) {
            data.items.add(new File([each.text], each.name));
        }
        const tell = (name) => document.querySelector("main").dispatchEvent(
            new DragEvent(name, {bubbles: true, cancelable: true, dataTransfer: data}));
        tell("dragover");
        window.wasHighlighted = document.body.classList.contains("dropping");
        tell("drop");
        """,
        files,
    )


def test_files_may_be_dropped_anywhere(page):
    """The page shows that it takes files, and opens two of them as a comparison."""
    drop(page, ONE, MENDED)

    page.until_text("#compare", "misplaced gradient ops 1 → 0")
    page.until_text("#message", "Opened one_misplaced_gradient.json and same_step_")
    assert page.script("return window.wasHighlighted")
    assert not page.script("return document.body.classList.contains('dropping')")


def test_an_upload_can_be_chosen_in_the_pickers(page):
    """What was uploaded is offered where runs are chosen."""
    page.upload(ONE)
    page.until_text("#headline", "belongs on GPU:1")

    page.find("#run-picker").click()

    page.until_text(".mantine-Select-dropdown", "one_misplaced_gradient.json")


#: Puts something before the page's own requests to the server.
BEFORE_FETCH = """
const own = window.fetch;
window.seen = [];
window.fetch = async (url, options = {{}}) => {{
    const method = options.method || "GET";
    if (String(url).includes("_uploads")) window.seen.push(method);
    {0}
    return own(url, options);
}};
"""


def test_an_upload_can_be_cancelled(page):
    """Cancel, by keyboard, takes the line away and tells the server."""
    # The slice never gets an answer.
    page.script(
        BEFORE_FETCH.format(
            "if (method === 'PUT') return new Promise((_, fail) =>"
            " options.signal.addEventListener('abort', () => fail(new Error())));"
        )
    )
    page.upload(ONE)
    page.until(lambda: "PUT" in page.script("return window.seen"))
    page.until_text("#uploads", "Sending 0 %")
    button = page.find("#uploads button")
    assert button.get_attribute("aria-label") == "Cancel one_misplaced_gradient.json"

    button.send_keys("\n")

    page.until(lambda: "DELETE" in page.script("return window.seen"))
    assert page.text("#uploads .lines") == ""
    assert "view-start" in page.find("#main").get_attribute("class")
    assert page.driver.switch_to.active_element.get_attribute("type") == "file"


FAILURES = {
    "it did not arrive": """
        if (method === "PUT" && !window.hasFailed) {
            window.hasFailed = true;
            throw new TypeError("network");
        }""",
    "it arrived and the answer was lost": """
        if (method === "PUT" && !window.hasFailed) {
            window.hasFailed = true;
            await own(url, options);
            throw new TypeError("network");
        }""",
    "no server for a while": """
        if (String(url).includes("_uploads")) {
            window.n = (window.n || 0) + 1;
            if (window.n < 4) throw new TypeError("network");
        }""",
    "no server behind the proxy": """
        if (method === "PUT" && !window.hasFailed) {
            window.hasFailed = true;
            return new Response("", {status: 502});
        }""",
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_slice_is_sent_again(page, failure):
    """What the network loses costs time, and nothing else."""
    page.script(BEFORE_FETCH.format(FAILURES[failure]))

    page.upload(ONE)

    page.until_text("#headline", "1 of them belongs on GPU:1")
    assert page.text("#uploads .lines") == ""


def test_a_server_that_forgot_an_upload_gets_it_again(page):
    """An upload to a server that was started anew begins anew."""
    page.script(
        BEFORE_FETCH.format(
            "if (method === 'PUT' && !window.hasFailed) { window.hasFailed = true;"
            " await own(url.split('?')[0], {method: 'DELETE'}); }"
        )
    )

    page.upload(ONE)

    page.until_text("#headline", "1 of them belongs on GPU:1")
    assert page.script("return window.seen").count("POST") == 2
    # The browser itself notes the one that was not found.
    page.complaints()


def test_too_large_files_are_refused_unsent(page):
    """The browser says the limit before anything travels."""
    page.script(BEFORE_FETCH.format(""))
    page.script("document.querySelector('#uploads').dataset.limitBytes = 1024 ** 3")
    page.script("""
        const data = new DataTransfer();
        const file = new File(["x"], "<b>big</b>.json");
        Object.defineProperty(file, "size", {value: 2 * 1024 ** 3});
        const event = new DragEvent("drop", {bubbles: true, cancelable: true});
        Object.defineProperty(event, "dataTransfer", {value: {files: [file]}});
        document.querySelector("main").dispatchEvent(event);
    """)

    page.until_text("#uploads [role=alert]", "<b>big</b>.json: expected at most 1 GiB")
    assert page.script("return window.seen") == []

    page.upload(ONE)

    page.until_text("#headline", "belongs on GPU:1")
    assert page.text("#uploads .lines") == ""


def test_ops_are_drawn_while_they_are_judged(page, monkeypatch):
    """Who waits for verdicts sees what ran, and then the verdicts."""
    import placement_viz.dashboard.readers as module

    may_go_on = threading.Event()
    judge_run = module.judge_run

    def slow(run):
        may_go_on.wait(browser.SECONDS)
        return judge_run(run)

    monkeypatch.setattr(module, "judge_run", slow)
    page.upload(ONE)

    page.until_text("#headline", "is being found out")
    page.until_drawn(4)
    page.until_text("#uploads .lines", "Judging")
    may_go_on.set()

    page.until_text("#headline", "1 of them belongs on GPU:1")
    page.until(lambda: page.find(".ag-row[row-id='2'] [col-id='verdict']"))
    page.until(lambda: page.text("#uploads .lines") == "")


def test_a_run_that_opens_slowly_says_how_far_it_is(page, monkeypatch):
    """What the server reads for the page is shown like an upload."""
    import placement_viz.dashboard.server_files as module

    may_go_on = threading.Event()
    load_run = module.load_run

    def slow(path, *, on_progress, **_):
        on_progress(42, 100)
        may_go_on.wait(browser.SECONDS)
        return load_run(path)

    monkeypatch.setattr(module, "load_run", slow)
    # One that no other test has opened: what was read once is there at once.
    page.open("?run=towers-manual")

    page.until_text("#uploads .lines", "towers-manual")
    page.until_text("#uploads .lines", "Reading 42 %")
    may_go_on.set()

    page.until_text("#headline", "gradient op")
    page.until(lambda: page.text("#uploads .lines") == "")


def test_broken_sample_gives_a_message(page):
    """A damaged sample is reported when it is opened, and the page lives on."""
    page.driver.find_element("link text", "cut_off").click()
    page.until_text("#message", "cut_off.json:")

    page.driver.find_element("link text", "one_misplaced_gradient").click()

    page.until_text("#headline", "belongs on GPU:1")


def test_link_reproduces_run_op_and_window(page):
    """An address brings back the run, the chosen op and the part looked at."""
    page.open("?run=one_misplaced_gradient&op=2&from=90&to=170")

    page.until_text("#headline", "belongs on GPU:1")
    page.until_text("#details", "gradients/tower_1/mm_grad/MatMul")
    page.until_drawn(2)
    page.until(lambda: page.script(browser.OUTLINED) == 1)
    page.until(lambda: page.script(browser.WINDOW) == pytest.approx([90, 170]))


def test_how_many_devices_are_busy_is_drawn_above_the_ops(page):
    """While both compute the line is high, and then it is half as high."""
    page.open("?run=towers-auto")
    page.until(
        lambda: page.script(f"return {VIEW}.counter && {VIEW}.counter.most") == 2
    )

    busy = page.script(f"return {VIEW}.counter.values")
    assert max(busy) > 1.9
    assert sorted(busy)[len(busy) // 2] == pytest.approx(1, abs=0.1)
    strip = (200, 12, 400, 8)
    page.until(lambda: page.driver.execute_script(ANY_DRAWN, *strip))


def test_a_device_is_folded_to_one_line_and_unfolded(page):
    """A click on its label draws its lanes in one; the key for all does the same."""
    heights = f"return {VIEW}.tops[0].map(Math.round)"
    page.open("?run=towers-auto")
    page.until_drawn(178)
    before = page.script(heights)
    assert len(set(before)) == len(before)

    page.find("#timeline .head .device").click()
    page.until(lambda: len(set(page.script(heights))) < len(before))
    page.until_drawn(178)
    page.find("#timeline .head .device").click()
    page.until(lambda: page.script(heights) == before)

    page.script("document.querySelector('#timeline').closest('.graph').focus()")
    page.driver.switch_to.active_element.send_keys("c")
    page.until(lambda: len(set(page.script(heights))) == 2)


def test_zoom_is_in_the_address(page):
    """A zoom changes the address, and the whole run is bare again."""
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)

    page.script("document.querySelector('#timeline').closest('.graph').focus()")
    page.driver.switch_to.active_element.send_keys("+")

    page.until(lambda: "from=" in page.driver.current_url)
    page.find("#whole-run").click()
    page.until(lambda: "from=" not in page.driver.current_url)


def test_sessions_do_not_see_each_others_uploads(new_page):
    """An upload opens only in the browser that sent it."""
    mine, theirs = new_page(), new_page()
    mine.open()
    mine.upload(ONE)
    mine.until_text("#headline", "belongs on GPU:1")

    theirs.open("?run=one_misplaced_gradient.json")

    theirs.until_text("#message", "no run named 'one_misplaced_gradient.json'")
    assert "one_misplaced_gradient.json" not in theirs.text(".samples")


def test_names_with_markup_are_text(page):
    """Tags in names are shown, not obeyed: in table, details and tooltip."""
    page.upload(MARKUP)
    page.until_drawn(3)
    page.until(lambda: page.find(".ag-row[row-id='1'] [col-id='name']")).click()
    page.until_text("#details", "<script>document.title='broken'</script>")

    page.click_on_op(1)

    page.until_text(".graph .tip", "<b>bold</b>")
    assert "<b>bold</b>" in page.text(".ag-row[row-id='1'] [col-id='name']")
    assert page.driver.title == "placement_viz"
    assert (
        page.driver.find_elements("css selector", "#details b, #details script") == []
    )


def test_dark_mode_is_switched_and_remembered(page):
    """The switch changes page and timeline, also after a reload."""
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)
    colour = f"return {VIEW}.look.surface"
    assert page.script(colour) == "#ffffff"

    page.find("#color-scheme").click()

    page.until(lambda: page.script(colour) == "#151b22")
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)
    assert page.script(colour) == "#151b22"


def test_nothing_is_asked_of_another_host(page):
    """All resources of a page with a run come from the app itself."""
    page.open("?run=one_misplaced_gradient&op=2")
    page.until_text("#details", "belongs on GPU:1")

    hosts = page.script(
        "return [...new Set(performance.getEntriesByType('resource')"
        ".map(e => new URL(e.name).origin))]"
    )
    assert hosts == [page.address.rstrip("/")]


def test_controls_have_names(page):
    """Each control that takes input has a label."""
    page.open("?run=one_misplaced_gradient")
    page.until_drawn(4)

    nameless = page.script("""
        return [...document.querySelectorAll('main input, header input, button')]
            .filter(e => e.offsetParent && !e.closest('.ag-root-wrapper')
                && !e.labels?.length && !e.ariaLabel && !e.textContent.trim()
                && !e.getAttribute('aria-labelledby'))
            .map(e => e.outerHTML)
    """)
    assert nameless == []
