"""A headless Chromium with the app in it, for tests and benchmarks."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1440,1200",
)
SECONDS = 20
#: Where an op is drawn, in pixels of the canvas: left, right and middle.
PLACE = """
const done = arguments[arguments.length - 1];
const view = window.placementTimeline.of('timeline');
view.sources[0].op(arguments[0]).then(told => {
    const { x0, x1, y } = view.at({ source: 0, told });
    done([x0, x1, y]);
});
"""
OUTLINED = "return window.placementTimeline.of('timeline').chosen.length"
WINDOW = """
const seen = document.querySelector('#timeline').dataset;
return [Number(seen.startUs), Number(seen.endUs)];
"""
SEEN = "return Number(document.querySelector('#timeline').dataset.rendered || 0)"
DRAWN = """
const seen = document.querySelector('#timeline').dataset;
return Number(seen.opsShown || 0) + Number(seen.opsMerged || 0);
"""


def is_installed():
    """Return whether a browser and its driver are here."""
    return bool(CHROMIUM and DRIVER)


def start(profile):
    """Return a driver of a new browser without a past.

    Args:
        profile: An empty folder of its own.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


class Page:
    """A browser with the app in it; waits instead of sleeping."""

    def __init__(self, driver, address):
        self.driver = driver
        self.address = address

    def open(self, query=""):
        """Load the page and wait until it can be used."""
        self.driver.get(self.address + query)
        self.until(lambda: self.find("#upload input[type=file]"))

    def find(self, selector):
        """Return the first element of a selector."""
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        """Return what a person reads there."""
        return self.find(selector).text

    def until(self, claim):
        """Wait until a claim holds, and return it."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.wait import WebDriverWait

        wait = WebDriverWait(
            self.driver,
            SECONDS,
            poll_frequency=0.05,
            ignored_exceptions=[WebDriverException],
        )
        return wait.until(lambda _: claim())

    def until_text(self, selector, part):
        """Wait for a part of a text."""
        self.until(lambda: part in self.text(selector))

    def upload(self, *paths):
        """Choose files, as a person does."""
        self.find("#upload input[type=file]").send_keys("\n".join(map(str, paths)))

    def until_drawn(self, n_ops):
        """Wait for a timeline of so many bars."""
        self.until(lambda: self.driver.execute_script(DRAWN) == n_ops)

    def script(self, source):
        """Return what JavaScript in the page returns."""
        return self.driver.execute_script(source)

    def place_of(self, op):
        """Return left, right and middle of an op, in pixels of the canvas."""
        return self.driver.execute_async_script(PLACE, op)

    def click_on_op(self, op):
        """Click in the middle of an op, as a person does."""
        from selenium.webdriver.common.action_chains import ActionChains

        self.script(
            "document.querySelector('#timeline').scrollIntoView({block: 'center'})"
        )
        left, right, middle = self.place_of(op)
        chain = ActionChains(self.driver, duration=50)
        self.reach(chain, (left + right) / 2, middle).pause(0.3).click().perform()

    def reach(self, chain, x, y, selector=".graph canvas.ops"):
        """Let the pointer go to a pixel of an element, counted from its corner."""
        left, top = self.driver.execute_script(
            "const box = arguments[0].getBoundingClientRect();"
            "return [box.left, box.top]",
            self.find(selector),
        )
        actions = chain.w3c_actions
        actions.pointer_action.move_to_location(round(left + x), round(top + y))
        actions.key_action.pause()
        return chain

    def script_with(self, source, *values):
        """Return what JavaScript in the page returns, given some values."""
        return self.driver.execute_script(source, *values)

    def complaints(self):
        """Return what the console calls severe."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
        ]
