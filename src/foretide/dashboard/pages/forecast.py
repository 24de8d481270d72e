"""The page *Forecast*: what was expected against what came, and which forecasts are trusted."""

from __future__ import annotations

from urllib.parse import urlencode

from markupsafe import Markup
from nicegui import ui

from foretide.dashboard.pages.charts import forecast_chart
from foretide.dashboard.pages.frame import Chart, Page, Part, Update, link, read
from foretide.dashboard.pages.markup import empty, html, join, number, pill, table
from foretide.status.views.forecasts import ForecastView, Trust

LEAD = (
    "What was expected, with an interval of 80 %, against what came. A forecast is used only while its error is no "
    "larger than that of the simplest one, which is that nothing changes."
)
SECONDS = 900.0
_LISTED = 6
_MAX_SERIES = 40


async def build(page: Page) -> Update:
    """A chart of one series, which can be chosen, and how well its forecasts do."""
    query = page.query
    arguments = (page.id, query.get("metric"), query.get("subject"), None, SECONDS)
    view: ForecastView = await read(page.reader.forecast, *arguments)
    choice, trust = Part("series"), Part("trust")
    choice.create(render_choice(view, page.id))
    chart = None
    if view.series is not None:
        with ui.element("section").classes("panel"):
            chart = Chart.create(forecast_chart(view), f"forecast of {view.series.metric}")
    trust.create(render_trust(view))

    async def update() -> None:
        view: ForecastView = await read(page.reader.forecast, *arguments)
        choice.show(render_choice(view, page.id))
        trust.show(render_trust(view))
        if chart is not None:
            chart.show(forecast_chart(view))

    return update


def _mark(trust: Trust) -> Markup:
    return pill("trusted", "good") if trust.trusted else pill("not trusted", "calm")


def render_choice(view: ForecastView, pipeline: str) -> Markup:
    """The series that are forecast, as links."""
    if view.series is None:
        words = "The control loop forecasts once enough batches have been measured, about a minute after the start."
        return empty("Nothing is forecast yet", words)
    links = join(
        html(
            '<a class="pill {}" href="{}?{}"{}>{}</a> ',
            "good" if each == view.series else "",
            link(pipeline, "forecast"),
            urlencode({"metric": each.metric, "subject": each.subject}),
            Markup(' aria-current="true"') if each == view.series else "",
            each.words,
        )
        for each in view.known[:_MAX_SERIES]
    )
    return html('<nav class="row" aria-label="Series" style="margin-bottom:14px">{}</nav>', links)


def render_trust(view: ForecastView) -> Markup:
    """What is expected now, which forecasts are trusted and why, and what became of the models."""
    if view.series is None:
        return Markup("")
    trusted = {each.seconds: each for each in view.trust}
    made = view.ahead[0].at if view.ahead else view.at
    rows = []
    for place, point in enumerate(view.ahead):
        known = view.trust[place] if place < len(view.trust) else None
        mark = Markup("") if known is None else _mark(known)
        seconds = point.at - made if known is None else known.seconds
        interval = "" if None in (point.low, point.high) else f"{number(point.low)} to {number(point.high)}"
        rows.append((f"{seconds:g} s", number(point.mean), interval, mark, "" if known is None else known.why))
    log = join(html("<li>{}</li>", each) for each in view.log[: -_LISTED - 1 : -1])
    model = "" if view.by is None else f"by {view.by}"
    notes = html('<section class="panel"><h2>Models</h2><ul>{}</ul></section>', log) if log else Markup("")
    heading = f"Expected now, {model}" if trusted or rows else "Expected now"
    return html(
        '<section class="panel"><h2>{}</h2>{}</section>{}',
        heading,
        table(("ahead", view.series.words, "80 % interval", "trust", "why"), rows, (1,)),
        notes,
    )
