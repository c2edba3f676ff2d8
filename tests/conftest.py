"""Switches and fixtures that all tests share."""

import pytest

from tests.builders import ROOT

GOLDEN = ROOT / "tests" / "golden"


def pytest_addoption(parser):
    """Add the switch that writes golden files instead of comparing with them."""
    parser.addoption(
        "--update-golden", action="store_true", help="write what is compared"
    )


@pytest.fixture
def golden(request):
    """Return a function that compares text with the file of a name."""

    def compare(name, text):
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no {path.name}; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare
