"""Who may send what, and how much."""

from __future__ import annotations

import pytest

from placement_viz.dashboard.catalog import Limits
from placement_viz.dashboard.upload import SLICE_BYTES
from tests.uploads.server import MENDED, MINE, ONE, THEIRS


def test_more_than_declared_is_refused(server):
    """A file may not grow beyond the size it was announced with."""
    key = server.begin("timeline.json", 100).json["id"]

    answer = server.put(key, 0, ONE[:101])

    assert answer.status_code == 400
    assert "100 bytes, as was declared" in answer.json["error"]
    assert server.state(key)["sent"] == 0


def test_a_slice_is_bounded(server):
    """Neither nothing nor too much is a slice."""
    key = server.begin("timeline.json", 2 * SLICE_BYTES).json["id"]

    assert server.put(key, 0, b"").status_code == 411
    assert server.put(key, 0, bytes(SLICE_BYTES + 1)).status_code == 413
    assert server.put(key, 0, bytes(SLICE_BYTES)).status_code == 200


def test_large_files_are_refused_before_they_are_sent(started):
    """The declared size decides."""
    server = started(limits=Limits(file_bytes=2**20))

    answer = server.begin("big.json", 2**20 + 1)

    assert answer.status_code == 413
    assert answer.json["error"].startswith("big.json: expected at most 1.0 MiB")
    assert server.files() == []


def test_a_session_has_few_uploads_at_a_time(started, held):
    """What is not open yet is counted, for each session apart."""
    server = started(limits=Limits(pending=2))
    server.begin("a.json", 10)
    key = server.send("b.json", ONE)

    answer = server.begin("c.json", 10)

    assert answer.status_code == 429
    assert "at most 2 uploads at a time" in answer.json["error"]
    assert server.begin("c.json", 10, session=THEIRS).status_code == 201
    held.may_go_on.set()
    server.until(key, "done")
    assert server.begin("c.json", 10).status_code == 201


def test_the_disk_is_shared(started):
    """All files together have a limit, and what is over makes room."""
    server = started(limits=Limits(disk_bytes=1000))
    key = server.begin("a.json", 600).json["id"]

    answer = server.begin("b.json", 600, session=THEIRS)

    assert answer.status_code == 507
    assert "try again later" in answer.json["error"]
    server.ask("DELETE", f"_uploads/{key}")
    assert server.begin("b.json", 600, session=THEIRS).status_code == 201


def test_what_is_over_is_not_remembered_for_ever(started):
    """The oldest end makes room for a new upload; one on its way does not."""
    server = started(limits=Limits(uploads=2))
    first = server.send("a.json", ONE)
    server.until(first, "done")
    server.begin("b.json", 10)

    assert server.begin("c.json", 10).status_code == 201
    assert server.ask("GET", f"_uploads/{first}").status_code == 404
    assert server.begin("d.json", 10).status_code == 429
    assert server.catalog.listing(MINE).uploads == ("a.json",)


def test_sessions_do_not_see_each_others_uploads(server):
    """An upload of another session is as unknown as one that never was."""
    key = server.begin("timeline.json", len(ONE)).json["id"]

    answers = [
        server.ask("GET", f"_uploads/{key}", session=THEIRS),
        server.put(key, 0, ONE, session=THEIRS),
        server.ask("DELETE", f"_uploads/{key}", session=THEIRS),
        server.ask("GET", "_uploads/" + "x" * 43),
    ]

    assert [answer.status_code for answer in answers] == [404] * 4
    assert len({answer.data for answer in answers}) == 1
    assert server.state(key)["sent"] == 0


def test_two_sessions_send_at_once(server):
    """Slices of two files may come in any order."""
    mine = server.begin("t.json", len(ONE)).json["id"]
    theirs = server.begin("t.json", len(MENDED), session=THEIRS).json["id"]
    server.put(mine, 0, ONE[:100])
    server.put(theirs, 0, MENDED[:200], session=THEIRS)
    server.put(mine, 100, ONE[100:])
    server.put(theirs, 200, MENDED[200:], session=THEIRS)

    labels = [
        server.until(mine, "done")["label"],
        server.until(theirs, "done", session=THEIRS)["label"],
    ]

    assert labels == ["t.json", "t.json"]
    first, second = (server.catalog.load("t.json", s) for s in (MINE, THEIRS))
    assert first.run.trace.ops.rows() != second.run.trace.ops.rows()


def test_a_browser_that_is_not_known_is_refused(server):
    """Without a cookie a run would belong to nobody."""
    answer = server.begin("timeline.json", 10, session=None)

    assert answer.status_code == 403
    assert "cookie" in answer.json["error"]


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "http://localhost:8050"}, False),
        ({"Origin": "https://elsewhere.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://[broken"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, False),
        ({}, False),
    ],
)
def test_other_pages_may_not_send(server, headers, is_taken):
    """Only our own page may begin an upload."""
    answer = server.begin("timeline.json", 10, headers=headers)

    assert answer.status_code == (201 if is_taken else 403)
    assert bool(server.files()) == is_taken


def test_forms_of_other_pages_are_not_understood(server):
    """Only the types that no form can send are taken."""
    key = server.begin("timeline.json", 10).json["id"]

    text = server.ask("POST", "_uploads", data='{"name": "a", "size": 1}')
    form = server.ask("PUT", f"_uploads/{key}?offset=0", data={"a": "b"})

    assert (text.status_code, form.status_code) == (415, 415)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"name": "a"}',
        '{"name": "a", "size": -1}',
        '{"name": "a", "size": 1.5}',
        '{"name": "a", "size": true}',
        '{"name": ["a"], "size": 1}',
        '{"name": "a", "size": 1e300}',
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_odd_requests_are_refused(server, body):
    """What is no name with a size begins nothing."""
    kind = "application/json"
    answer = server.ask("POST", "_uploads", data=body, content_type=kind)

    assert answer.status_code == 400
    assert "name and the size" in answer.json["error"]
