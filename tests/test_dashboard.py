"""The app without a browser: who may open what, and what the page is made of."""

from __future__ import annotations

import gzip
import html
import re
import subprocess
import sys

import pytest

from placement_viz import analyze_run, compare_runs, load_run
from placement_viz.dashboard import comparison_address, create_app, tables
from placement_viz.dashboard.catalog import Catalog, Limits
from placement_viz.dashboard.compare_view import COMPARISON_IDS, comparison_parts
from placement_viz.dashboard.differences import doubt
from placement_viz.dashboard.opening import destination
from placement_viz.dashboard.run_view import op_answer, run_parts
from placement_viz.dashboard.sessions import COOKIE
from placement_viz.errors import UnknownNameError
from placement_viz.figures import DARK, LIGHT, OpClass
from placement_viz.parser import load_named
from tests.builders import ROOT, TRACES, op, run

ONE = TRACES / "one_misplaced_gradient.json"
MENDED = TRACES / "same_step_colocated.json"
MARKUP = TRACES / "markup_in_names.json"
CUT_OFF = TRACES / "cut_off.json"
STYLE = ROOT / "placement_viz" / "dashboard" / "assets" / "style.css"


def text_of(component):
    """Return all text of a component, tags aside."""
    if component is None:
        return ""
    if isinstance(component, str | int | float):
        return str(component)
    if isinstance(component, list | tuple):
        return " ".join(text_of(each) for each in component)
    return text_of(getattr(component, "children", None))


def add(catalog, name, path, session):
    """Open a file as an upload and return its label."""
    return catalog.add(name, analyze_run(load_named(path, source=name)), session)


def test_samples_and_runs_are_listed_by_name():
    """A label is a file's name without its ending, and no two are alike."""
    catalog = Catalog(samples=[ONE, MENDED], runs=[ONE])

    listing = catalog.listing("s")

    assert listing.opened == ("one_misplaced_gradient",)
    assert listing.samples == ("one_misplaced_gradient (2)", "same_step_colocated")


def test_runs_of_one_name_are_told_apart_by_their_folder():
    """The two runs that capture writes are called by what is different in them."""
    paths = [ROOT / f"{folder}/timeline.json" for folder in ("auto", "colocated")]

    listing = Catalog(runs=paths).listing("s")

    assert listing.opened == ("auto/timeline", "colocated/timeline")
    address = comparison_address(paths)
    assert address == (
        "?view=compare&baseline=auto%2Ftimeline&candidate=colocated%2Ftimeline"
    )
    assert comparison_address(paths[:1]) == ""


def test_upload_belongs_to_its_session():
    """A label of another session is as unknown as one that never was."""
    catalog = Catalog()
    label = add(catalog, "timeline.json", ONE, "mine")

    assert catalog.load(label, "mine").run.source == "timeline.json"
    assert catalog.listing("theirs").labels == ()
    with pytest.raises(UnknownNameError, match="upload the file again"):
        catalog.load(label, "theirs")


def test_uploads_of_one_name_are_kept_apart():
    """Two files called timeline.json can be compared."""
    catalog = Catalog(samples=[ONE])

    labels = [add(catalog, "timeline.json", p, "s") for p in (ONE, MENDED)]

    assert labels == ["timeline.json", "timeline.json (2)"]


def test_upload_cannot_stand_in_for_a_sample():
    """An upload with the name of a sample gets a label of its own."""
    catalog = Catalog(samples=[ONE])

    label = add(catalog, "one_misplaced_gradient", MENDED, "s")

    assert label != "one_misplaced_gradient"
    assert catalog.load("one_misplaced_gradient", "s").run.source == str(ONE)


def test_label_is_never_a_path():
    """A label that looks like a path opens nothing."""
    catalog = Catalog(samples=[ONE])

    for label in (str(MENDED), "../traces/same_step_colocated", "/etc/hostname"):
        with pytest.raises(UnknownNameError):
            catalog.load(label, "s")


def test_oldest_upload_of_a_full_session_goes():
    """A session keeps so many uploads, those that were used last."""
    catalog = Catalog(limits=Limits(runs=2))
    for name in ("a", "b"):
        add(catalog, name, ONE, "s")
    catalog.load("a", "s")

    add(catalog, "c", ONE, "s")

    assert set(catalog.listing("s").uploads) == {"a", "c"}


def test_sessions_and_bytes_are_bounded():
    """Uploads of the session that was idle longest make room for new ones."""
    few = Catalog(limits=Limits(sessions=2))
    small = Catalog(limits=Limits(table_bytes=1))
    for session in ("one", "two", "three"):
        add(few, "t", ONE, session)
        add(small, "t", ONE, session)

    assert [len(few.listing(s).uploads) for s in ("one", "two", "three")] == [0, 1, 1]
    assert [len(small.listing(s).uploads) for s in ("one", "two", "three")] == [0, 0, 1]


def test_uploads_lead_to_a_view():
    """One upload opens the run, two the comparison in the order given."""
    assert destination(["a"]) == {"view": "run", "run": "a"}
    assert destination(["a", "b"]) == {
        "view": "compare",
        "baseline": "a",
        "candidate": "b",
    }


def test_misplaced_ops_come_first_in_the_table():
    """The table begins with what is wrong, and names devices shortly."""
    rows = tables.gradient_rows(analyze_run(load_run(ONE)))

    assert [row["verdict"] for row in rows] == ["misplaced", "colocated"]
    assert rows[0]["ran_on"] == "GPU:0"
    assert rows[0]["belongs_on"] == "GPU:1"
    assert rows[0]["op"] == "2"


def test_table_says_what_it_leaves_out():
    """A table that is cut keeps the misplaced ops and says so."""
    analysis = analyze_run(load_run(ONE))

    assert len(tables.gradient_rows(analysis, max_rows=1)) == 1
    assert "listed: 1" in tables.gradient_caption(analysis, max_rows=1)
    assert "listed" not in tables.gradient_caption(analysis)


def test_op_is_explained():
    """The details say what is wrong, what to change and where the forward op ran."""
    details = op_answer(analyze_run(load_run(ONE)), 2)

    text = text_of(details)
    assert "belongs on GPU:1" in text
    assert "colocate_gradients_with_ops" in text
    assert "tower_1/mm, on GPU:1" in text


@pytest.mark.parametrize("number", [None, -1, 4, 10**9])
def test_op_that_is_not_there_is_said_so(number):
    """No op, or one from an old link, gives a sentence."""
    details = op_answer(analyze_run(load_run(ONE)), number)

    assert text_of(details)


def test_markup_stays_text_in_the_page():
    """Names reach the page as children, never as markup."""
    details = op_answer(analyze_run(load_run(MARKUP)), 1)

    assert "<script>" in text_of(details)
    assert "dangerously" not in str(details)


@pytest.mark.parametrize("path", [ONE, MENDED, MARKUP, *sorted(TRACES.glob("z*.json"))])
def test_view_of_a_run_is_filled(path):
    """Every run has a headline, and as many parts as there are places."""
    headline, *rest = run_parts(analyze_run(load_run(path)))

    assert headline.endswith(".")
    assert len(rest) == 7


def test_comparison_is_filled():
    """A comparison has a value for each of its places."""
    comparison = compare_runs(load_run(ONE), load_run(MENDED))

    parts = dict(zip(COMPARISON_IDS, comparison_parts(comparison), strict=True))

    (row,) = parts["moves-table", "rowData"]
    assert (row["from_device"], row["to_device"]) == ("GPU:0", "GPU:1")
    assert row["kind"] == "fixed"
    assert doubt(comparison) is None


def test_strangers_are_not_compared_silently():
    """Two runs without a common op are compared with a warning."""
    comparison = compare_runs(run(op("a")), run(op("b")))

    assert "same program" in doubt(comparison)


@pytest.fixture
def client():
    """Return a browser without a screen."""
    return create_app([ONE, CUT_OFF]).server.test_client()


def test_page_sets_one_session_cookie(client):
    """The cookie is random, out of reach of scripts, and sent once."""
    first = client.get("/")

    cookie = first.headers["Set-Cookie"]
    assert re.match(rf"{COOKIE}=[\w-]{{43}};", cookie)
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Set-Cookie" not in client.get("/").headers


def test_answers_forbid_what_is_not_ours(client):
    """Every answer says that the page may load from here only."""
    for path in ("/", "/_dash-layout", "/assets/style.css"):
        answer = client.get(path, buffered=True)

        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_page_names_no_other_host(client):
    """Scripts and styles of the page are paths on this server."""
    page = client.get("/").get_data(as_text=True)

    found = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert found
    assert all(each.startswith("/") for each in found)


def test_the_document_names_what_the_timeline_asks_first(client):
    """The browser asks before scripts run, and only for a run that is there."""
    start, shown, zoomed, unknown = (
        client.get(f"/{query}").get_data(as_text=True)
        for query in (
            "?start",
            "?run=one_misplaced_gradient",
            "?run=one_misplaced_gradient&from=1&to=2",
            "?run=nothing",
        )
    )

    assert early_questions(start) == early_questions(unknown) == []
    assert [each.split("?")[0] for each in early_questions(shown)] == [
        "/_timeline/frame",
        "/_timeline/window",
    ]
    assert early_questions(zoomed) == early_questions(shown)[:1]
    for question in early_questions(shown):
        assert client.get(question).status_code == 200


def test_a_label_is_text_in_the_document(tmp_path):
    """A file may have any name."""
    odd = tmp_path / 'a"><script>.json'
    odd.write_bytes(ONE.read_bytes())

    page = create_app(runs=[odd]).server.test_client().get("/").get_data(as_text=True)

    assert 'data-run="a&quot;&gt;&lt;script&gt;"' in page


def early_questions(page):
    """Return what the document wants to be fetched at once."""
    found = re.findall(r'<link rel="preload" as="fetch"[^>]* href="([^"]+)"', page)
    return [html.unescape(each) for each in found]


def test_tables_wait_until_something_is_drawn(client):
    """The largest script is not among those that the page starts with."""
    page = client.get("/").get_data(as_text=True)

    (late,) = re.findall(r'<meta name="late-script" content="([^"]+)"', page)
    assert "ag_grid" in late
    assert f'src="{late}"' not in page
    with client.get(late) as script:
        assert script.status_code == 200


def test_layout_is_made_for_the_session(client):
    """The start page offers the samples, damaged ones too, and reads none."""
    layout = client.get("/_dash-layout").get_data(as_text=True)

    assert "one_misplaced_gradient" in layout
    assert "cut_off" in layout


def test_style_has_the_colours_of_the_figures():
    """The legend and the bars of a class have the same colour, light and dark."""
    light, dark = (
        STYLE.read_text(encoding="utf-8")
        .split("prefers", maxsplit=1)[0]
        .split('data-mantine-color-scheme="dark"', maxsplit=1)
    )
    for look, part in ((LIGHT, light), (DARK, dark)):
        for op_class in OpClass:
            assert f"--{op_class.value}: {look.fills[op_class]};" in part
        for name in ("surface", "band", "grid", "text", "muted"):
            assert f"--{name}: {getattr(look, name)};" in part


def test_starting_needs_no_tensorflow():
    """The app is up without TensorFlow, which takes seconds to import."""
    program = "import sys, app; print('tensorflow' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "False"


def test_scripts_are_sent_packed_to_who_can_unpack_them():
    """The page weighs a quarter, and a browser that has a script keeps it."""
    client = create_app().server.test_client()
    page = client.get("/").get_data(as_text=True)
    path = re.search(r'src="(/assets/timeline_view[^"]*)"', page)[1]
    known = {"Accept-Encoding": "gzip"}

    with client.get(path) as plain, client.get(path, headers=known) as packed:
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in packed.headers["Vary"]
        assert gzip.decompress(packed.data) == plain.data
        assert "Content-Encoding" not in plain.headers
    known["If-None-Match"] = packed.headers["ETag"]
    with client.get(path, headers=known) as again:
        assert again.status_code == 304
