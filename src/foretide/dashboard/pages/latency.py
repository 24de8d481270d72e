"""The page *Latency*: against the target, with what was changed meanwhile."""

from __future__ import annotations

from markupsafe import Markup
from nicegui import ui

from foretide.dashboard.pages.charts import latency_chart
from foretide.dashboard.pages.frame import Chart, Page, Part, Update, link, read
from foretide.dashboard.pages.markup import duration, empty, html, join
from foretide.dates import local_date
from foretide.status.views.latency import LatencyView

LEAD = "How long tuples took, from event time to commit. Dotted lines are changes, with the number of the decision."
SECONDS = 900.0
_LISTED = 8


async def build(page: Page) -> Update:
    """A chart of the last 15 minutes, the newest values and the changes."""
    view = await read(page.reader.latency, page.id, SECONDS)
    newest, changes = Part("newest"), Part("changes")
    newest.create(render_newest(view))
    with ui.element("section").classes("panel"):
        chart = Chart.create(latency_chart(view), "latency over the last 15 minutes")
    changes.create(render_changes(view, page.id))

    async def update() -> None:
        view = await read(page.reader.latency, page.id, SECONDS)
        newest.show(render_newest(view))
        changes.show(render_changes(view, page.id))
        chart.show(latency_chart(view))

    return update


def render_newest(view: LatencyView) -> Markup:
    """The newest value of each quantile, and the target."""
    if not any(view.quantiles.values()):
        return empty("No latency was measured yet", "It is known once a batch with event times was committed.")
    tiles = [
        html(
            '<div class="tile"><div class="label">{}</div><div class="value" data-{}="{}">{}</div></div>',
            name,
            name,
            f"{points[-1].value:.6g}" if points else "",
            duration(points[-1].value if points else None),
        )
        for name, points in view.quantiles.items()
    ]
    target = html(
        '<div class="tile"><div class="label">target {}</div><div class="value">{}</div></div>',
        view.target_quantile if view.target is not None else "",
        "none" if view.target is None else duration(view.target),
    )
    return html('<section class="panel"><div class="tiles" style="margin:0">{}{}</div></section>', join(tiles), target)


def render_changes(view: LatencyView, pipeline: str) -> Markup:
    """The changes of that time, the newest first."""
    if not view.decisions:
        return Markup("")
    items = join(
        html(
            '<li><span>{}</span><span class="soft">decision {}</span><a href="{}?id={}#detail">{}</a></li>',
            local_date(each.at, "%H:%M:%S"),
            each.id,
            link(pipeline, "decisions"),
            each.id,
            each.summary,
        )
        for each in view.decisions[: -_LISTED - 1 : -1]
    )
    return html('<section class="panel"><h2>Changes</h2><ol class="timeline">{}</ol></section>', items)
