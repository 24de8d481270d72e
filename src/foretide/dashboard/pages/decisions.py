"""The page *Decisions*: a time line, and one decision in full."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup
from nicegui import ui

from foretide.dashboard.pages.frame import Page, Part, Update, link, read
from foretide.dashboard.pages.markup import empty, html, join, pill, table
from foretide.dates import local_date
from foretide.errors import DecisionNotFoundError
from foretide.status.views.decisions import DecisionDetail, DecisionLine

LEAD = (
    "What the control loop and people changed, and why. Choose one to see what it was based on, and what it achieved."
)
_LISTED = 60
_KINDS = {"change": "good", "advice": "calm", "by hand": "", "stopped": "stopped", "note": "calm"}


async def build(page: Page) -> Update:
    """The time line, and the decision that the address names."""
    chosen = _chosen(page)
    detail = Part("detail")
    if chosen is not None:
        detail.create(await _detail(page, chosen))
        ui.run_javascript('document.getElementById("detail")?.scrollIntoView({block: "nearest"})')
    lines = Part("timeline")
    lines.create(render(await read(page.reader.decisions, page.id, _LISTED), page.id, chosen))

    async def update() -> None:
        lines.show(render(await read(page.reader.decisions, page.id, _LISTED), page.id, chosen))
        if chosen is not None:
            detail.show(await _detail(page, chosen))

    return update


def _chosen(page: Page) -> int | None:
    text = page.query.get("id", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None  # noqa: PLR2004


async def _detail(page: Page, number: int) -> Markup:
    try:
        return render_detail(await read(page.reader.decision, page.id, number))
    except DecisionNotFoundError as error:
        return empty("No such decision", str(error))


def render(decisions: Sequence[DecisionLine], pipeline: str, chosen: int | None) -> Markup:
    """The time line, the newest first."""
    if not decisions:
        return empty("No decision yet", "The control loop keeps each cycle in which there was anything to decide.")
    items = join(_item(each, pipeline, each.id == chosen) for each in reversed(decisions))
    return html('<section class="panel"><h2>Time line</h2><ol class="timeline">{}</ol></section>', items)


def _item(line: DecisionLine, pipeline: str, is_chosen: bool) -> Markup:  # noqa: FBT001
    outcome = Markup("") if line.outcome is None else pill(line.outcome)
    return html(
        '<li class="{}" data-decision="{}"><span class="soft">{}</span><span>{}</span>'
        '<a href="{}?id={}#detail"{}>{}</a><span>{}</span></li>',
        "chosen" if is_chosen else "",
        line.id,
        local_date(line.at, "%H:%M:%S"),
        pill(line.kind, _KINDS[line.kind]),
        link(pipeline, "decisions"),
        line.id,
        Markup(' aria-current="true"') if is_chosen else "",
        line.summary,
        outcome,
    )


def render_detail(detail: DecisionDetail) -> Markup:
    """One decision in full."""
    parts = join(
        html("<dt>{}</dt><dd>{}</dd>", label, join(html("<div>{}</div>", part.text) for part in group))
        for label, group in groupby(detail.parts, key=lambda part: part.label)
    )
    rows = [(each.target, each.planned, each.requested, each.observed) for each in detail.progress]
    progress = (
        html("<h3>From plan to effect</h3>{}", table(("target", "planned", "requested", "observed"), rows))
        if rows
        else Markup("")
    )
    return html(
        '<section class="panel" aria-label="decision {}"><div class="head"><h2>{}</h2>'
        '{}<span class="soft end">{}</span>'
        '</div><dl class="parts">{}</dl>{}</section>',
        detail.line.id,
        detail.heading,
        pill(detail.line.kind, _KINDS[detail.line.kind]),
        local_date(detail.line.at),
        parts,
        progress,
    )
