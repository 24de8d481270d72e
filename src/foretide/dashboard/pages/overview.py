"""The page *Overview*: every pipeline in a few figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup
from nicegui import ui

from foretide.dashboard.pages.frame import Part, fill, frame, keep_current, link, read
from foretide.dashboard.pages.markup import bar, duration, empty, html, join, note, number, pill, sparkline
from foretide.dashboard.reading import Reader
from foretide.dates import local_date
from foretide.errors import ForetideError
from foretide.status.views.latency import Point
from foretide.status.views.overview import Overview

_LEAD = "Those that run on this machine, those that ran since the dashboard was started, and recorded ones."
_LOOK_BACK = 900.0
_MODES = {"act": "acts", "advise": "advises", "pause": "is paused", "none": "is not attached"}

Card = tuple[Overview, Sequence[Point]]


def add(reader: Reader) -> None:
    """Add the page."""

    @ui.page("/")
    async def show() -> None:
        with frame("Overview", None, "overview"):
            ui.html(f'<h1>Pipelines</h1><p class="lead">{_LEAD}</p><div id="state"></div>', sanitize=False)
            await fill(partial(_build, reader))


async def _build(reader: Reader) -> None:
    part = Part("overview")
    part.create(await _content(reader))

    async def update() -> None:
        part.show(await _content(reader))

    keep_current(update, None, reader)


async def _content(reader: Reader) -> Markup:
    try:
        return render(await read(_cards, reader))
    except ForetideError as error:
        return note("error", f"The pipelines cannot be read now: {error}")


def _cards(reader: Reader) -> list[Card]:
    return [(each, _load(reader, each)) for each in reader.overviews()]


def _load(reader: Reader, found: Overview) -> Sequence[Point]:
    try:
        return reader.history(found.id, "input_rows_per_second", None, _LOOK_BACK, 240).points
    except ForetideError:  # a store that is not there yet; the card says so
        return ()


def render(cards: Sequence[Card]) -> Markup:
    """All pipelines."""
    if not cards:
        words = "Start a pipeline on this machine, and it appears here by itself."
        return empty("No pipeline runs yet", words, "foretide run url-count --latency 2s")
    return join(_card(found, load) for found, load in cards)


def _card(found: Overview, load: Sequence[Point]) -> Markup:
    return html(
        '<section class="panel" aria-label="{name}"><div class="head"><h2><a href="{to}">{name}</a></h2>{health}'
        '<span class="soft small end">{batch}</span></div><p class="soft">{why}</p>{notes}<div class="tiles">'
        "{latency}{load}{cost}{loop}</div></section>",
        name=found.name,
        to=link(found.id, "topology"),
        health=pill(found.health),
        batch="" if found.batch is None else f"batch {found.batch:,}",
        why=found.why,
        notes=join(note("warning", each) for each in (*found.alarms, *found.problems)[:3] if each != found.why),
        latency=_latency(found),
        load=_tile("Load", html("{} <small>rows/s</small>", number(found.rows_per_second)), _waiting(found, load)),
        cost=_cost(found),
        loop=_loop(found),
    )


def _tile(label: str, value: Markup, below: Markup) -> Markup:
    return html('<div class="tile"><div class="label">{}</div><div class="value">{}</div>{}</div>', label, value, below)


def _latency(found: Overview) -> Markup:
    quantiles = (("p50", found.p50), ("p95", found.p95), ("p99", found.p99))
    target = found.target_seconds
    most = max([value for _, value in quantiles if value is not None] + [1.25 * (target or 0.0), 1e-9])
    bars = join(
        html(
            '<span>{}</span>{}<b data-{}="{}">{}</b>',
            name,
            bar((value or 0.0) / most, over=_is_over(found, name, value), mark=None if not target else target / most),
            name,
            "" if value is None else f"{value:.6g}",
            duration(value),
        )
        for name, value in quantiles
    )
    template = '<div class="tile"><div class="label">Latency · {}</div><div class="gauge">{}</div></div>'
    return html(template, found.target, bars)


def _is_over(found: Overview, name: str, value: float | None) -> bool:
    target = found.target_seconds
    return name == found.quantile and value is not None and target is not None and value > target


def _waiting(found: Overview, load: Sequence[Point]) -> Markup:
    waiting = "" if found.lag is None else f"{number(found.lag)} rows waiting"
    return html('{}<div class="soft small">{}</div>', sparkline(load, "load of the last 15 minutes"), waiting)


def _cost(found: Overview) -> Markup:
    busy, cores = found.busy_cores, found.cores
    value = html("{} <small>of {} cores busy</small>", number(busy, 2), number(cores))
    share = 0.0 if busy is None or not cores else busy / cores
    words = "" if found.executors is None else f"{found.executors} executors" if found.executors > 1 else "1 executor"
    return _tile("Cost", value, html('{}<div class="soft small">{}</div>', bar(share), words))


def _loop(found: Overview) -> Markup:
    last = found.last_decision
    words = (
        Markup("no decision yet")
        if last is None
        else html(
            '<a href="{}?id={}#detail">{}</a> <span class="soft">at {}</span>',
            link(found.id, "decisions"),
            last.id,
            last.summary,
            local_date(last.at, "%H:%M:%S"),
        )
    )
    held = join(html('<div class="small soft">held by a person: {}</div>', each) for each in found.held)
    return html(
        '<div class="tile wide"><div class="label">The control loop {} · {}</div><div>{}</div>{}</div>',
        _MODES[found.mode],
        ", ".join(found.policies) or "no policies",
        words,
        held,
    )
