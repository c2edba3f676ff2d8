"""Where the step went, in the app: what the view says, and where its links lead."""

import json
import urllib.parse

import pytest

from placement_viz import analyze_run, load_run
from placement_viz.analysis import survey_run
from placement_viz.dashboard.step_view import step_parts
from placement_viz.figures import DARK, LIGHT
from placement_viz.reports.document import analysis_document, format_json
from tests import browser
from tests.builders import CORPUS, SAMPLES, TRACES, op, run
from tests.test_dashboard import text_of

MARKUP = TRACES / "markup_in_names.json"
#: Files of every kind: each says what it can, and nothing it cannot.
CORPUS_FILES = [
    each["file"]
    for line in (
        (CORPUS / "INDEX.jsonl").read_text().splitlines() if CORPUS.exists() else ()
    )
    for each in [json.loads(line)]
    if each["kind"] == "tf1-timeline"
]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_every_topic_of_a_sample_is_shown(path):
    """The view has the questions, all topics and both pictures."""
    analysis = analyze_run(load_run(path, cache=False))

    shown = text_of(step_parts(analysis, path.stem, LIGHT))

    for part in (
        "Is the second device used?",
        "Is the step input-bound?",
        "Longest idle gaps",
        "crossed between devices",
        "The critical path takes",
        "held most at",
        "By name scope",
    ):
        assert part in shown


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_every_public_timeline_has_a_view_and_a_document(name):
    """Real files of every era are answered in words and in JSON."""
    analysis = analyze_run(load_run(CORPUS / name, cache=False))

    shown = text_of(step_parts(analysis, name, DARK))
    document = json.loads(format_json(analysis_document(analysis)))

    assert "Devices" in shown
    assert document["step"]["devices"]["span_us"] <= document["run"]["span_us"]
    answers = document["step"]["answers"]
    assert all(text.endswith(".") for text in answers.values())


@pytest.mark.parametrize(
    "ops",
    [
        [op("a")],
        [op("a", duration_us=0)],
        [op("k", row_kind="stream", row="/device:GPU:0/stream:all", on="GPU:0")],
        [op("x", row_kind="other", row="python", on="/host:CPU")],
    ],
    ids=["one op", "no times", "kernels alone", "no placement"],
)
def test_a_run_that_tells_little_has_a_view_all_the_same(ops):
    """What is not known is said or left out; nothing fails."""
    analysis = analyze_run(run(*ops))

    assert "In short" in text_of(step_parts(analysis, "little", LIGHT))
    assert analysis_document(analysis)["step"]["answers"]


def test_nothing_is_said_before_ops_are_judged():
    """While ops are being judged, the view says so."""
    shown = text_of(step_parts(survey_run(run(op("a"))), "run", LIGHT))

    assert shown == "Not known yet: the ops are being judged."


# In a browser.


@pytest.fixture(scope="module")
def address(serve_app):
    """Return the address of a server with a sample and a run full of markup."""
    return serve_app([MARKUP, SAMPLES / "towers-auto.json"])


@pytest.fixture
def page(address, browsers):
    """Return a browser with the app, which must not complain."""
    page = browser.Page(browsers(), address)
    yield page
    assert page.complaints() == []


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_wait_leads_to_its_place_in_the_timeline(page):
    """The view is chosen like any other, and its links zoom the timeline."""
    page.open("?run=towers-auto")
    page.until_drawn(178)
    page.find("#view-picker input[value=step] + label").click()
    page.until_text("#step-body", "Longest waits on the critical path")
    assert "view=step" in page.driver.current_url

    link = page.find("#step-body a[title='show in the timeline']")
    asked = urllib.parse.parse_qs(
        urllib.parse.urlsplit(link.get_attribute("href")).query
    )
    link.click()

    page.until(lambda: page.find(".view-run"))
    middle = (float(asked["from"][0]) + float(asked["to"][0])) / 2
    page.until(lambda: is_inside(page.script(browser.WINDOW), middle))


def is_inside(window, moment):
    """Return whether a window is a part of the run, with ``moment`` in it."""
    start, end = window
    return start <= moment <= end and end - start < 29_000


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_scope_leads_to_its_place_in_the_timeline(page):
    """A click on a scope of the icicle shows when what is in it ran."""
    page.open("?view=step&run=towers-auto")
    page.until(lambda: page.find("#icicle .slice text"))
    adam = next(
        each
        for each in page.driver.find_elements("css selector", "#icicle .slice")
        if each.text == "Adam"
    )
    page.script_with("arguments[0].scrollIntoView({block: 'center'})", adam)

    adam.find_element("css selector", "path.surface").click()

    page.until(lambda: page.find(".view-run"))
    page.until(lambda: page.script(browser.SEEN) > 0)
    start, end = page.script(browser.WINDOW)
    assert 0 < end - start <= 30_500


@pytest.mark.browser
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_markup_in_names_is_text_in_the_step_too(page):
    """No element comes from the name of an op, in a table or in a picture."""
    page.open("?view=step&run=markup_in_names")

    page.until_text("#step-body", "By name scope")
    page.until(lambda: page.find("#icicle .slice text"))

    assert page.script("return window.hacked") is None
    assert not page.driver.find_elements(
        "css selector", "#step-body img, #step-body script"
    )
