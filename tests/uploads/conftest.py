"""Servers of uploads, and readings that wait."""

from __future__ import annotations

import pytest

from tests.uploads.server import Held, Server


@pytest.fixture
def started():
    """Return a function that starts a server, and end what it started."""
    servers = []

    def start(**options):
        servers.append(Server(**options))
        return servers[-1]

    yield start
    for server in servers:
        server.uploads.close()
        assert server.files() == []


@pytest.fixture
def server(started):
    """Return a server with the usual limits."""
    return started()


@pytest.fixture
def held(monkeypatch):
    """Make readings wait in their middle."""
    held = Held(monkeypatch)
    yield held
    held.may_go_on.set()
