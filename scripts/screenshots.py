"""Takes pictures of every page of a dashboard, for docs/images: python scripts/screenshots.py ADDRESS PIPELINE FOLDER.

Both themes, 1280 and 390 pixels wide; with names of pages after the folder, only these.
"""  # noqa: INP001

from __future__ import annotations

import os
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = os.environ.get("FORETIDE_CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PAGES = (
    "overview", "topology", "latency", "forecast", "decisions", "workers", "joins", "what-if", "advice", "act",
)  # fmt: skip
_SIZES = {1280: 860, 390: 844}


def take(browser: Browser, address: str, pipeline: str, folder: Path, pages: tuple[str, ...]) -> None:
    """Take all pictures."""
    for theme in ("light", "dark"):
        for width, height in _SIZES.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            page = context.new_page()
            for name in pages:
                page.goto(address if name == "overview" else f"{address}/p/{pipeline}/{name}")
                page.locator("main .panel").first.wait_for(timeout=60_000)
                page.wait_for_timeout(3000)  # charts and live values
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png")
            context.close()


def main(address: str, pipeline: str, folder: str, *pages: str) -> None:
    """Start the browser, and take the pictures."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        take(browser, address, pipeline, Path(folder), pages or PAGES)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
