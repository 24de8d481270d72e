"""The page *Advice*: what a person could change in the query, and what that would save."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.markup import duration, empty, html, join
from foretide.planning.advice import Advice

LEAD = "What the control loop cannot change while the query runs, and you can. That which saves most comes first."


async def build(page: Page) -> Update:
    """A panel for each piece of advice."""
    part = Part("advice")
    part.create(render(await read(page.reader.advice, page.id)))

    async def update() -> None:
        part.show(render(await read(page.reader.advice, page.id)))

    return update


def render(found: Sequence[Advice]) -> Markup:
    """All advice."""
    if not found:
        return empty("No advice", "Nothing that would pay was found, or too few batches have been measured yet.")
    return join(_one(each) for each in found)


def _one(advice: Advice) -> Markup:
    saved = "" if advice.seconds is None else f"saves {duration(advice.seconds)}"
    share = "" if advice.share is None else f" ({advice.share:.0%})"
    return html(
        '<section class="panel"><div class="head"><h2>{}</h2><span class="soft">{}{}</span></div><p>{}</p>'
        '<p class="soft">How: {}</p></section>',
        advice.subject,
        saved,
        share,
        advice.sentence,
        advice.how,
    )
