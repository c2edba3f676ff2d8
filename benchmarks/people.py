"""Several people at once who move in their timelines, without their browsers."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence

__all__ = ["ask_at_once"]

_N_WINDOWS = 100
#: A page asks at most once in a frame.
_FRAME_S = 1 / 60
_LEAST_US = 500


def ask_at_once(
    address: str, labels: Sequence[str], span_us: float, n_pixels: int
) -> list[float]:
    """Return how long windows took that people asked for at the same time, in ms.

    Args:
        address: Of the server.
        labels: Of the runs, one for each person; they are opened first.
        span_us: About how long each run is.
        n_pixels: How wide their pages are.
    """
    host = urllib.parse.urlsplit(address).netloc
    _open_all(address, labels, span_us, n_pixels)
    took: list[float] = []
    begin = threading.Barrier(len(labels))

    def ask(label: str) -> None:
        chance = random.Random(label)  # noqa: S311 - the same windows every time
        connection = http.client.HTTPConnection(host)
        begin.wait()
        for path in _paths(label, span_us, n_pixels, chance):
            begun = time.perf_counter()
            connection.request("GET", path)
            connection.getresponse().read()
            seconds = time.perf_counter() - begun
            took.append(1000 * seconds)
            time.sleep(max(_FRAME_S - seconds, 0))
        connection.close()

    people = [threading.Thread(target=ask, args=(label,)) for label in labels]
    for person in people:
        person.start()
    for person in people:
        person.join()
    return took


def _paths(
    label: str, span_us: float, n_pixels: int, chance: random.Random
) -> list[str]:
    """Return windows that get narrower and move, again and again."""
    paths = []
    width, start = span_us, 0.0
    for _ in range(_N_WINDOWS):
        query = {"run": label, "from": start, "to": start + width, "px": n_pixels}
        paths.append(f"/_timeline/window?{urllib.parse.urlencode(query)}")
        narrower = width * 0.7 if width > _LEAST_US else span_us
        start = chance.uniform(0, span_us - narrower)
        width = narrower
    return paths


def _open_all(
    address: str, labels: Sequence[str], span_us: float, n_pixels: int
) -> None:
    """Open each run, and wait until all are judged."""
    chance = random.Random(0)  # noqa: S311 - likewise
    cookies = urllib.request.HTTPCookieProcessor()
    opener = urllib.request.build_opener(cookies)
    opener.open(address).read()
    for label in labels:
        (path, *_) = _paths(label, span_us, n_pixels, chance)
        opener.open(f"{address.rstrip('/')}{path}").read()
    while json.load(opener.open(f"{address}_reading")):
        time.sleep(0.5)
