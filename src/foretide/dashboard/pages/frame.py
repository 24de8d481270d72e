"""What all pages share: the head, the menu, and parts that are kept current once a second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import Request
from markupsafe import Markup
from nicegui import background_tasks, ui
from nicegui.element import Element

from foretide.dashboard.pages.markup import ago, empty, html, join, note
from foretide.dashboard.reading import Reader
from foretide.errors import ForetideError, PipelineNotFoundError
from foretide.status.sources import Entry
from foretide.status.views.overview import Overview

PERIOD_SECONDS = 1.0
_PATIENCE_SECONDS = 0.5
"""A page whose content takes longer is shown without it."""

_FIND_SECONDS = 1.5
"""Within this time a page of an unknown pipeline is answered with 404. NiceGUI waits 3 s for a page at most."""

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
SKELETON = Markup(
    '<div class="skeleton" role="status" aria-label="The content is being read"><i></i><i></i><i></i></div>'
)
"""What stands for content that is being read."""


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
    """Call a function that reads files, without keeping other pages waiting.

    A page that is closed meanwhile is cancelled; with `run.io_bound` of NiceGUI it would go on with None.
    """
    return await asyncio.to_thread(function, *arguments)


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
def frame(title: str, entry: Entry | None, page: str) -> Iterator[None]:
    """The head of a page and its menu; the content is made inside."""
    ui.add_head_html(_HEAD)
    ui.page_title(f"{title} · Foretide")
    ui.html(html(_TOP, "" if entry is None else entry.name, ""), sanitize=False)
    items = [("/", "Overview", page == "overview")]
    if entry is not None:
        items += [(link(entry.id, each), words, each == page) for each, words in PAGES.items()]
    chosen = Markup(' aria-current="page"')
    entries = join(html('<a href="{}"{}>{}</a>', to, chosen if is_this else "", words) for to, words, is_this in items)
    with ui.element("div").classes("frame"):
        ui.html(html('<nav class="menu" aria-label="Pages">{}</nav>', entries), sanitize=False)
        ui.run_javascript("foretide.showCurrent()")
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


Fill = Callable[[], Awaitable[None]]


async def fill(work: Fill) -> None:
    """Make the content of a page. If that takes long, the page is shown at once, and the content when it has been read.

    What cannot be read is said on the page, and tried again until it can.
    """
    content = ui.element("div")
    task = background_tasks.create(_filled(content, work), name="content of a page")
    await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)


async def _filled(content: Element, work: Fill) -> None:
    with content:
        loading = Part("loading")
        loading.create(SKELETON)
    while not content.is_deleted:
        with content, ui.element("div") as made:
            try:
                await work()
            except PipelineNotFoundError as error:
                loading.show(empty("Nothing to show", str(error), "foretide list"))
            except ForetideError as error:
                loading.show(empty("This cannot be read now", str(error)))
            else:
                loading.show(Markup(""))
                return
        made.delete()
        await asyncio.sleep(PERIOD_SECONDS)


Build = Callable[[Page], Awaitable[Update | None]]


def add_page(reader: Reader, name: str, lead: str, build: Build) -> None:
    """Add a page of a pipeline. `build` makes its content, and returns what keeps it current."""

    @ui.page(f"/p/{{pipeline}}/{name}")
    async def show(request: Request, pipeline: str) -> None:
        try:
            entry = await _find(reader, pipeline)
        except PipelineNotFoundError as error:
            ui.context.client.status_code = HTTPStatus.NOT_FOUND
            with frame(PAGES[name], None, name):
                ui.html(empty("Nothing to show", str(error), "foretide list"), sanitize=False)
            return

        async def work() -> None:
            found: Overview = await read(reader.overview, entry.id)
            update = await build(Page(reader, found, request.query_params))
            if update is not None:
                keep_current(update, found.id, reader)

        with frame(PAGES[name], entry, name):
            top = html('<h1>{}</h1><p class="lead">{}</p><div id="state"></div>', PAGES[name], lead)
            ui.html(top, sanitize=False)
            await fill(work)


async def _find(reader: Reader, pipeline: str) -> Entry:
    """The pipeline; what was asked for as it is, if it cannot be found out in time, or not now."""
    unknown = Entry(pipeline, pipeline, "")
    found = asyncio.ensure_future(read(reader.sources.find, pipeline))
    await asyncio.wait({found}, timeout=_FIND_SECONDS)
    try:
        return found.result() if found.done() else unknown
    except PipelineNotFoundError:
        raise
    except ForetideError:
        return unknown
