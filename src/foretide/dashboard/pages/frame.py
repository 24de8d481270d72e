"""What all pages share: the head, the menu, and parts that are kept current once a second."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import Request
from markupsafe import Markup
from nicegui import run, ui

from foretide.dashboard.pages.markup import ago, empty, html, join, note
from foretide.dashboard.reading import Reader
from foretide.errors import ForetideError
from foretide.status.views.overview import Overview

PERIOD_SECONDS = 1.0
PAGES = {
    "topology": "Topology",
    "latency": "Latency",
    "forecast": "Forecast",
    "decisions": "Decisions",
    "workers": "Workers",
    "joins": "Joins",
    "what-if": "What if",
    "advice": "Advice",
    "act": "Act",
}
"""The pages of a pipeline, by address."""

_TOP = (
    '<a class="skip" href="#content">Skip to the content</a><header class="top">'
    '<a class="brand" href="/">Fore<b>tide</b></a><span class="where">{}</span><span id="live">{}</span>'
    '<button type="button" class="plain" data-theme-button aria-label="Switch between light and dark">'
    "◐</button></header>"
)
_HEAD = (
    '<link rel="stylesheet" href="/static/style.css"><script src="/static/foretide.js"></script>'
    '<meta name="color-scheme" content="light dark">'
)


@dataclass
class Part:
    """A part of a page that is kept current: HTML, of which the browser gets what has changed."""

    id: str
    _shown: str = ""

    def create(self, content: Markup) -> None:
        """Put the part into the page."""
        self._shown = content
        ui.html(content, sanitize=False).props(f'id="{self.id}"')

    def show(self, content: Markup) -> None:
        """Change it, if it is not so already."""
        if content != self._shown:
            self._shown = content
            ui.run_javascript(f"foretide.put({json.dumps(self.id)}, {json.dumps(str(content))})")


@dataclass
class Chart:
    """A chart that is kept current."""

    element: Any

    @classmethod
    def create(cls, options: dict[str, Any], label: str) -> Chart:
        """Put a chart into the page."""
        element = ui.echart(options, renderer="svg").classes("chart").props(f'role="img" aria-label="{label}"')
        return cls(element)

    def show(self, options: dict[str, Any]) -> None:
        """Change it, if it is not so already."""
        if options != self.element.options:
            self.element.options.clear()
            self.element.options.update(options)
            self.element.update()


def link(pipeline: str, page: str) -> str:
    """The address of a page of a pipeline."""
    return f"/p/{quote(pipeline, safe='')}/{page}"


async def read(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that reads files, without keeping other pages waiting."""
    return await run.io_bound(function, *arguments)


@dataclass(frozen=True, slots=True)
class Page:
    """What a page is built from: the pipeline, and the query of its address."""

    reader: Reader
    found: Overview
    query: Mapping[str, str]

    @property
    def id(self) -> str:
        """The pipeline."""
        return self.found.id


@contextmanager
def frame(title: str, found: Overview | None, page: str) -> Iterator[None]:
    """The head of a page and its menu; the content is made inside."""
    ui.add_head_html(_HEAD)
    ui.page_title(f"{title} · Foretide")
    name, current = ("", Markup("")) if found is None else (found.name, live(found))
    ui.html(html(_TOP, name, current), sanitize=False)
    items = [("/", "Overview", page == "overview")]
    if found is not None:
        items += [(link(found.id, each), words, each == page) for each, words in PAGES.items()]
    chosen = Markup(' aria-current="page"')
    entries = join(html('<a href="{}"{}>{}</a>', to, chosen if is_this else "", words) for to, words, is_this in items)
    with ui.element("div").classes("frame"):
        ui.html(html('<nav class="menu" aria-label="Pages">{}</nav>', entries), sanitize=False)
        with ui.element("main").props('id="content"'):
            yield


def live(found: Overview) -> Markup:
    """Whether what is shown is current."""
    age = "no data yet" if found.updated is None else ago(max(found.at - found.updated, 0.0))
    fresh = found.running and found.health not in {"stale", "starting"}
    return html('<span class="live {}">{}</span>', "" if fresh else "off", age)


def state(found: Overview) -> Markup:
    """What is to be known before anything else: that a pipeline has ended, or says nothing."""
    if found.health == "ended":
        return note("stale", "This pipeline has ended. You see what it wrote last.")
    if found.health == "stale":
        return note("stale", f"What you see is old: {found.why}.")
    return Markup("")


Update = Callable[[], Awaitable[None]]


def keep_current(update: Update, pipeline: str | None, reader: Reader) -> None:
    """Update a page once a second; what cannot be read is said on it."""
    shown = {"live": "", "state": ""}

    async def turn() -> None:
        try:
            if pipeline is not None:
                found = await read(reader.overview, pipeline)
                _put(shown, "live", live(found))
                _put(shown, "state", state(found))
            await update()
        except ForetideError as error:
            _put(shown, "state", note("error", f"This cannot be read now: {error}"))

    ui.timer(PERIOD_SECONDS, turn)


def _put(shown: dict[str, str], name: str, content: Markup) -> None:
    if shown[name] != content:
        shown[name] = content
        ui.run_javascript(f"foretide.put({json.dumps(name)}, {json.dumps(str(content))})")


Build = Callable[[Page], Awaitable[Update | None]]


def add_page(reader: Reader, name: str, lead: str, build: Build) -> None:
    """Add a page of a pipeline. `build` makes its content, and returns what keeps it current."""

    @ui.page(f"/p/{{pipeline}}/{name}")
    async def show(request: Request, pipeline: str) -> None:
        try:
            found: Overview = await read(reader.overview, pipeline)
        except ForetideError as error:
            with frame(PAGES[name], None, name):
                ui.html(empty("Nothing to show", str(error), "foretide list"), sanitize=False)
            return
        with frame(PAGES[name], found, name):
            top = html('<h1>{}</h1><p class="lead">{}</p><div id="state">{}</div>', PAGES[name], lead, state(found))
            ui.html(top, sanitize=False)
            try:
                update = await build(Page(reader, found, request.query_params))
            except ForetideError as error:
                ui.html(empty("This cannot be read now", str(error)), sanitize=False)
                return
            if update is not None:
                keep_current(update, found.id, reader)
