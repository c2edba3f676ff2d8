"""What the timeline asks the server, and that every answer is the truth."""

from __future__ import annotations

import json
import re

import flask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_viz import analyze_run
from placement_viz.dashboard import create_app, timeline_routes
from placement_viz.dashboard.catalog import Catalog
from placement_viz.dashboard.pictures import Picture
from placement_viz.dashboard.sessions import COOKIE, protect_server
from placement_viz.dashboard.timeline_routes import add_timeline_routes
from placement_viz.dashboard.windows import CLASSES, coalesce
from placement_viz.names import producer_of
from tests.builders import TRACES, op, run

MINE, THEIRS = "m" * 43, "t" * 43
ONE = TRACES / "one_misplaced_gradient.json"
NAMES = ("a", "a_1", "scope/a", "gradients/a_grad/a", "gradients/scope/a_grad/b")

tensors = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", "^")),
    st.sampled_from(NAMES),
    st.sampled_from(("", ":1", ":0")),
)
some_ops = st.lists(
    st.builds(
        op,
        st.sampled_from(NAMES),
        st.sampled_from(("CPU:0", "GPU:0")),
        op_type=st.sampled_from(("MatMul", "Add", "NoOp")),
        lane=st.integers(0, 2),
        start_us=st.integers(0, 90),
        duration_us=st.integers(0, 40),
        inputs=st.lists(tensors, max_size=3),
    ),
    min_size=1,
    max_size=14,
)
windows = st.tuples(st.floats(-20, 120), st.floats(0.5, 200)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
unhurried = settings(deadline=None, max_examples=40)


class Server:
    """A server of one run, and the browsers that ask about it."""

    def __init__(self, *ops, analysis=None):
        self.analysis = analysis or analyze_run(run(*ops))
        self.catalog = Catalog()
        self.label = self.catalog.add("run", self.analysis, MINE)
        self.flask = flask.Flask("test")
        add_timeline_routes(self.flask, self.catalog, "/")
        protect_server(self.flask, ())

    @property
    def picture(self):
        """Return how the run is drawn."""
        return self.catalog.picture(self.label, MINE)

    def ask(self, question, session=MINE, **query):
        """Return the answer to one question."""
        client = self.flask.test_client()
        client.set_cookie(COOKIE, session)
        query = {"run": self.label, **query}
        return client.get(f"/_timeline/{question}", query_string=query)

    def told(self, question, **query):
        """Return what a good question is answered."""
        answer = self.ask(question, **query)
        assert answer.status_code == 200
        return answer.json

    def window(self, start_us, end_us, px, hide=""):
        """Return the header and the segments of a window, as they arrive."""
        query = {"from": start_us, "to": end_us, "px": px, "hide": hide}
        answer = self.ask("window", **query)
        assert answer.status_code == 200
        return decode(answer.data)


def decode(body):
    """Return the header and the columns of a window, as the browser reads them."""
    length = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + length])
    n = head["n"]
    assert (4 + length) % 4 == 0
    assert len(body) == 4 + length + 16 * n
    op_number, kind = np.frombuffer(body, "<i4", 2 * n, 4 + length).reshape(2, n)
    begin, end = np.frombuffer(body, "<f4", 2 * n, 4 + length + 8 * n).reshape(2, n)
    return head, op_number, kind, begin, end


def assert_same(answer, segments, window):
    """Claim that what arrived is what was cut."""
    head, op_number, kind, begin, end = answer
    width = window[1] - window[0]
    assert head["n"] == len(segments)
    assert op_number.tolist() == segments.op.tolist()
    assert (kind >> 8).tolist() == segments.line.tolist()
    assert (kind & 255).tolist() == segments.op_class.tolist()
    for parts, moments in ((begin, segments.start_us), (end, segments.end_us)):
        truth = np.clip((moments - window[0]) / width, -2, 3)
        assert parts == pytest.approx(truth, abs=1e-6)


@given(some_ops, windows, st.integers(1, 50))
@unhurried
def test_a_window_arrives_as_it_was_cut(ops, window, n_pixels):
    """The bytes of a window are the segments that it shows."""
    server = Server(*ops)

    answer = server.window(*window, n_pixels)

    levels = server.picture.levels()
    assert_same(answer, levels.cut(*window, n_pixels), window)
    assert answer[0]["shown"] == int((answer[1] >= 0).sum())
    assert answer[0]["shown"] + answer[0]["merged"] == levels.count(*window)


def test_without_a_window_all_of_a_run_is_sent():
    """Who does not know yet how long a run is gets the window of its frame."""
    server = Server(op("a"), op("b", start_us=70, duration_us=7))
    whole = server.told("frame")["whole_us"]

    answer = server.ask("window", px=100)

    assert (
        answer.data
        == server.ask(
            "window", **dict(zip(("from", "to"), whole, strict=True)), px=100
        ).data
    )


def test_a_full_window_is_thinned(monkeypatch):
    """More segments than a browser draws at once are put together where they touch."""
    monkeypatch.setattr(timeline_routes, "_MOST_SEGMENTS", 10)
    server = Server(*(op(f"n{i}", start_us=i, duration_us=1) for i in range(200)))
    window, n_pixels = (0, 200), 100
    full = server.picture.levels().cut(*window, n_pixels)

    answer = server.window(*window, n_pixels)

    thinned = coalesce(full, window, n_pixels)
    assert len(thinned) < 10 < len(full)
    assert_same(answer, thinned, window)
    assert answer[0]["merged"] == 200


@given(some_ops, windows, st.integers(1, 200))
@unhurried
def test_only_ops_with_room_for_a_name_have_one(ops, window, n_pixels):
    """A label is the end of the name and the type, of ops that are wide enough."""
    server = Server(*ops)
    room = 28 * (window[1] - window[0]) / n_pixels

    head, op_number, *_ = server.window(*window, n_pixels)

    table = server.analysis.run.trace.ops
    truth = {
        str(number): f"{name.rpartition('/')[2]} · {op_type}"
        for number, (name, op_type, us) in enumerate(
            table.select("name", "op_type", "duration_us").iter_rows()
        )
        if number in op_number and us >= room
    }
    assert head["labels"] == truth


def test_labels_are_few_and_short():
    """However long and many the names are, a window stays small."""
    ops = [op("x" * 10_000, start_us=i, lane=i % 9, duration_us=9) for i in range(900)]
    server = Server(*ops)

    head, *_ = server.window(0, 909, 8000 * 9)

    assert 0 < len(head["labels"]) <= 300
    assert max(map(len, head["labels"].values())) <= 120


@given(some_ops, windows, st.sets(st.sampled_from(CLASSES)))
@unhurried
def test_hidden_classes_are_neither_sent_nor_counted(ops, window, hidden):
    """A class that is switched off is gone, and everything else is there."""
    server = Server(*ops)
    hide = ",".join(each.value for each in hidden)

    head, _, kind, *_ = server.window(*window, 30, hide)

    seen = [
        row
        for row in server.picture.ops.iter_rows(named=True)
        if row["op_class"] not in {each.value for each in hidden}
        and row["start_us"] <= window[1]
        and row["start_us"] + row["duration_us"] >= window[0]
    ]
    assert head["shown"] + head["merged"] == len(seen)
    assert not {CLASSES[each & 255] for each in kind.tolist()} & hidden


def test_unknown_classes_hide_nothing():
    """An old link to a class that is no more does no harm."""
    head, *_ = Server(op("a")).window(0, 20, 100, "nonsense,,misplaced")

    assert head["shown"] == 1


QUESTIONS = {
    "beside": {"step": 1, "at": 0, "op": -1},
    "busy": {"from": 0, "to": 9, "px": 3},
    "counters": {"from": 0, "to": 9, "px": 3},
    "forward": {"op": 0},
    "links": {"op": 0},
    "op": {"op": 0},
    "path": {"from": 0, "to": 9},
    "search": {"for": "a"},
    "frame": {},
    "sums": {"from": 0, "to": 9, "lines": "0,1"},
    "window": {"from": 0, "to": 9, "px": 100},
}


def test_every_question_is_asked_here():
    """The questions of these tests are those that there are."""
    assert set(QUESTIONS) == {*timeline_routes._ANSWERS, "window"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_another_session_learns_nothing(name):
    """A run of another session is as unknown as one that never was."""
    server = Server(op("a"))
    assert server.ask(name, **QUESTIONS[name]).status_code == 200

    for answer in (
        server.ask(name, session=THEIRS, **QUESTIONS[name]),
        server.ask(name, **QUESTIONS[name] | {"run": "../run"}),
    ):
        assert answer.status_code == 404
        assert answer.mimetype == "application/json"
        assert re.fullmatch(
            "no run named '[./]*run' in this session; [^\n]+", answer.json["error"]
        )


BAD = [
    (name, key, value)
    for name, query in QUESTIONS.items()
    for key in query
    if key not in {"for", "name"}
    for value in ("", "x", "nan", "1e400", "9" * 40, None)
]


@pytest.mark.parametrize(("name", "key", "value"), BAD)
def test_what_is_no_number_is_refused(name, key, value):
    """A number that is none, or is missing, is a bad request and no fault of ours."""
    query = QUESTIONS[name] | {key: value}

    answer = Server(op("a")).ask(
        name, **{k: v for k, v in query.items() if v is not None}
    )

    assert answer.status_code == 400


@pytest.mark.parametrize("window", [(5, 5), (5, 4), (0, 1e-320), (1e15 - 1, 1e15)])
def test_a_window_without_width_is_refused(window):
    """A window ends after it begins, or the answer is refused; never a fault."""
    query = {"from": window[0], "to": window[1], "px": 100}

    answer = Server(op("a")).ask("window", **query)

    assert answer.status_code == (200 if window[1] - window[0] == 1 else 400)


@pytest.mark.parametrize("number", [-1, 2, 1 << 39])
@pytest.mark.parametrize("name", ["op", "forward", "links"])
def test_an_op_that_is_not_there_gives_a_message(name, number):
    """A number from an old link gives a line of text."""
    answer = Server(op("a"), op("b")).ask(name, op=number)

    assert answer.status_code == 404
    assert answer.json["error"] == f"no op number {number}: there are 2"


@pytest.mark.parametrize(
    "pattern", ["(", "*", "[z-a]", r"a\1", "(?<=a)b", "a{9999999}"]
)
def test_a_bad_expression_gives_a_message(pattern):
    """What cannot be searched for is told in a line."""
    told = Server(op("a")).told("search", **{"for": pattern})

    assert told == {"error": f"{pattern!r} is no regular expression"}


@given(
    some_ops,
    st.sampled_from(("A", "a$", "^scope/", "GRAD", "matmul|noop", "a.*b", "zz", ".")),
)
@unhurried
def test_search_finds_names_and_types_whatever_their_case(ops, pattern):
    """Found is what Python's own expressions find, in order of start."""
    server = Server(*ops)

    told = server.told("search", **{"for": pattern})

    table = server.analysis.run.trace.ops.select("name", "op_type")
    truth = [
        number
        for number, words in enumerate(table.iter_rows())
        if any(re.search(pattern, word, re.IGNORECASE) for word in words)
    ]
    assert told == {"total": len(truth), "ops": truth}


def test_search_is_bounded():
    """A search that finds everything counts all of it and lists the first part."""
    server = Server(*(op("a", start_us=i) for i in range(6000)))

    told = server.told("search", **{"for": "a"})

    assert told["total"] == 6000
    assert told["ops"] == list(range(5000))


def test_a_search_takes_no_longer_for_a_wicked_expression():
    """An expression that other engines need years for is answered at once."""
    server = Server(op("a" * 50 + "!"))

    assert server.told("search", **{"for": "(a+)+$"})["total"] == 0


def rows_of(server):
    """Return the ops of a run, in order of start, each with its number."""
    return list(enumerate(server.analysis.run.trace.ops.iter_rows(named=True)))


def inputs_of(rows, number):
    """Return what an op took something from: of each input the last before it."""
    this = dict(rows)[number]
    latest = {
        row["name"]: other
        for other, row in rows
        if row["start_us"] <= this["start_us"] and other != number
    }
    wanted = {producer_of(each) for each in this["inputs"]}
    return sorted(latest[name] for name in wanted if name in latest)


@given(some_ops)
@unhurried
def test_links_lead_both_ways(ops):
    """Inputs are the last of their name, and who has an op as input consumes it."""
    server = Server(*ops)
    rows = rows_of(server)
    truth = {number: inputs_of(rows, number) for number, _ in rows}

    for number, _ in rows:
        told = server.told("links", op=number)

        assert [each["op"] for each in told["inputs"]] == truth[number]
        assert [each["op"] for each in told["consumers"]] == [
            other for other, inputs in truth.items() if number in inputs
        ]


def test_links_of_a_loop_stay_in_their_turn():
    """Each turn of a loop takes from the same turn."""
    turns = [
        each
        for i in range(4)
        for each in (
            op("loop/make", start_us=20 * i),
            op("loop/use", start_us=20 * i + 10, inputs=["loop/make"]),
        )
    ]
    server = Server(*turns)

    for i in range(4):
        use = server.told("links", op=2 * i + 1)
        make = server.told("links", op=2 * i)
        assert [each["op"] for each in use["inputs"]] == [2 * i]
        assert [each["op"] for each in make["consumers"]] == [2 * i + 1]


def test_the_op_of_the_other_run_is_the_one_of_the_same_turn():
    """In a loop each execution has its own twin; what only one run has has none."""
    server = Server(op("a"), op("loop", start_us=1), op("loop", start_us=2))
    other = analyze_run(
        run(op("loop", start_us=0), op("new", start_us=1), op("loop", start_us=5))
    )
    label = server.catalog.add("other", other, MINE)
    pair = {"baseline": server.label, "candidate": label}

    def twin(side, number):
        told = server.told("twin", side=side, op=number, **pair)
        return told and (told["name"], told["op"])

    assert [twin(0, number) for number in range(3)] == [None, ("loop", 0), ("loop", 2)]
    assert [twin(1, number) for number in range(3)] == [("loop", 1), None, ("loop", 2)]


@given(some_ops)
@unhurried
def test_the_forward_op_is_the_last_that_ran_before(ops):
    """A gradient op leads to its forward op, in a loop to that of the same turn."""
    server = Server(*ops)
    rows = rows_of(server)
    forward_ops = [server.picture.op(number).forward_op for number, _ in rows]

    for number, row in rows:
        told = server.told("forward", op=number)

        found = [n for n, r in rows if r["name"] == forward_ops[number]]
        before = [n for n in found if rows[n][1]["start_us"] <= row["start_us"]]
        truth = (before[-1:] or found[:1] or [None])[0]
        assert (told and told["op"]) == truth


@given(some_ops, st.integers(-5, 200), st.sampled_from((-1, 1)))
@unhurried
def test_misplaced_ops_are_stepped_through(ops, at, step):
    """The next misplaced op is the one after the chosen, or after a moment."""
    server = Server(*ops)
    table = server.picture.ops
    misplaced = [n for n, c in enumerate(table["op_class"]) if c == "misplaced"]
    starts = table["start_us"].to_list()

    for chosen in (-1, *range(len(starts))):
        told = server.told("beside", step=step, at=at, op=chosen)

        if chosen >= 0:
            sides = [n for n in misplaced if (n - chosen) * step > 0]
        elif step > 0:
            sides = [n for n in misplaced if starts[n] >= at]
        else:
            sides = [n for n in misplaced if starts[n] < at]
        truth = sides[0 if step > 0 else -1] if sides else None
        assert (told and told["op"]) == truth


@given(
    some_ops,
    windows,
    st.sets(st.integers(0, 6), min_size=1),
    st.sampled_from(("", "forward", "misplaced,colocated")),
    st.booleans(),
)
@unhurried
def test_sums_are_what_a_person_would_add(ops, window, lines, hide, is_whole):
    """A part of the picture is counted and summed, by verdict and by type."""
    server = Server(*ops)
    shown = ",".join(map(str, lines))
    query = {"from": window[0], "to": window[1], "lines": shown}

    told = server.told("sums", **query, hide=hide, **{"whole": 1} if is_whole else {})

    def is_in(start, end):
        if is_whole:
            return window[0] <= start and end <= window[1]
        return start <= window[1] and end >= window[0]

    seen = [
        row
        for row in server.picture.ops.iter_rows(named=True)
        if row["line"] in lines
        and row["op_class"] not in hide.split(",")
        and is_in(row["start_us"], row["start_us"] + row["duration_us"])
    ]
    assert told["title"].split()[0] == str(len(seen))
    assert told["total_us"] == sum(row["duration_us"] for row in seen)
    assert told["n_types"] == len({row["op_type"] for row in seen})
    for key, column in (("by_class", "op_class"), ("by_type", "op_type")):
        truth = {}
        for row in seen:
            n, us = truth.get(row[column], (0, 0))
            truth[row[column]] = n + 1, us + row["duration_us"]
        assert {kind: (n, us) for kind, n, us in told[key]} == truth
        lengths = [us for *_, us in told[key]]
        assert lengths == sorted(lengths, reverse=True)


def test_an_op_is_told_with_its_place():
    """What is drawn of an op is its place, and what is said names devices shortly."""
    server = Server(op("a"), op("b", "GPU:0", start_us=5, duration_us=7))

    told = server.told("op", op=1)

    assert (told["op"], told["line"]) == (1, 1)
    assert (told["start_us"], told["duration_us"]) == (5, 7)
    assert told["told"] == ["MatMul on GPU:0: 7 µs at 5 µs"]


def test_the_picture_has_every_op_on_a_line():
    """No op of a run with many rows is left without a place."""
    picture = Picture(analyze_run(run(*(op(f"n{i}", lane=i) for i in range(150)))))

    assert picture.rows.lines.height == 150
    assert sorted(picture.ops["line"].to_list()) == list(range(150))


def test_the_app_may_live_below_a_path(monkeypatch):
    """Behind a proxy the timeline is asked where the page is."""
    monkeypatch.setenv("DASH_URL_BASE_PATHNAME", "/tools/placement/")
    client = create_app([ONE]).server.test_client()
    query = {"run": "one_misplaced_gradient", "op": 2}

    answer = client.get("/tools/placement/_timeline/op", query_string=query)

    assert answer.status_code == 200
    assert answer.json["op_class"] == "misplaced"
