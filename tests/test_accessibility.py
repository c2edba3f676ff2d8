"""What axe-core, a widely used checker of accessibility, says about the page."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

from tests import browser
from tests.builders import SAMPLES

pytestmark = [
    pytest.mark.browser,
    # The driver's connection is closed by the interpreter, not by selenium.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

RUN, OTHER = SAMPLES / "towers-auto.json", SAMPLES / "towers-colocated.json"
VIEWS = {
    "start": ("?start", ".start h2"),
    "run": ("?run=towers-auto&op=128", "#details .lead"),
    "keys": ("?run=towers-auto&op=128", "#details .lead"),
    "compare": (
        "?view=compare&baseline=towers-auto&candidate=towers-colocated",
        "#compare-devices td",
    ),
}
CHECK = "axe.run().then(arguments[arguments.length - 1])"
#: Each part of the page as it is when everything is drawn.
IS_DRAWN = """
const at = document.querySelector('#main').className;
const id = {'view-run': 'timeline', 'view-compare': 'compare-timeline'}[at];
return !id || Number(document.getElementById(id).dataset.rendered) > 0;
"""


@pytest.fixture(scope="module")
def axe():
    """Return the script of axe-core."""
    # A wrapper that carries it; its Python is not needed.
    spec = importlib.util.find_spec("axe_selenium_python")
    if spec is None:
        pytest.skip("needs axe-core: pip install --group dev")
    folder = pathlib.Path(spec.origin).parent / "node_modules" / "axe-core"
    return (folder / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def address(serve_app):
    """Return the address of a server with two runs."""
    return serve_app([RUN, OTHER])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_serious_is_in_the_way_of_anybody(
    axe, shared_browser, address, view, scheme
):
    """No view has a serious fault: contrasts, labels, roles and reach by keyboard."""
    query, sign = VIEWS[view]
    prefers = [{"name": "prefers-color-scheme", "value": scheme}]
    shared_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": prefers})
    page = browser.Page(shared_browser, address)
    page.open(query)
    page.until(lambda: page.find(sign).is_displayed())
    page.until(lambda: page.script(IS_DRAWN))
    if view == "keys":
        page.script("document.querySelector('.run .graph').focus()")
        page.driver.switch_to.active_element.send_keys("?")
        page.until(lambda: page.find(".run .keys"))

    page.script(axe)
    found = page.driver.execute_async_script(CHECK)

    assert found["passes"]
    serious = [
        (each["id"], [node["target"] for node in each["nodes"]])
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
    assert serious == []
