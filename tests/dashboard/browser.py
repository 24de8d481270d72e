"""A browser for the tests of pages: Debian's Chromium, driven by Playwright."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("FORETIDE_CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

TIMEOUT = 120_000
"""Milliseconds: no test depends on how fast the machine is."""


def require_chromium():
    """Skip a test without Chromium; fail it where Chromium is required."""
    if not Path(CHROMIUM).exists():
        message = "the pages are not tested: Chromium is not installed; scripts/chromium.sh installs it"
        if os.environ.get("FORETIDE_REQUIRE_CHROMIUM") == "1":
            pytest.fail(message)
        pytest.skip(message)


@contextmanager
def chromium():
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Watched:
    """A page whose errors are kept, and the addresses of requests to anywhere but the dashboard."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT)
        self.address, self.errors, self.elsewhere = address, [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("request", self._note)
        self.page.on("requestfailed", lambda request: self.errors.append(f"{request.url}: {request.failure}"))

    def _note(self, request):
        if not request.url.startswith((self.address, self.address.replace("http", "ws"), "data:", "blob:")):
            self.elsewhere.append(request.url)

    def open(self, path):
        """Open a page, and wait until its web socket is there."""
        self.page.goto(f"{self.address}{path}")
        self.page.wait_for_function("window.socket?.connected || window.did_handshake", timeout=TIMEOUT)
        return self.page

    def text(self, selector):
        """The text of the first element that fits."""
        return self.page.locator(selector).first.text_content()

    def close(self):
        """Close it."""
        self.context.close()


def violations(page):
    """What axe-core finds of at least serious impact, as sentences."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]
