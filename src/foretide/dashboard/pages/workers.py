"""The page *Workers*: workers and machines as heat maps."""

from __future__ import annotations

from markupsafe import Markup

from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.markup import empty, html, join
from foretide.metrics.metric import Level
from foretide.status.views.heat import Cell, HeatMap

LEAD = (
    "The main features of workers and machines. The warmer a cell, the more it exceeds its peers, or the busier it is: "
    "a warm row is a worker that is slowed down, and a warm machine below it says by what."
)
_TITLES = {Level.WORKER: "Workers", Level.MACHINE: "Machines"}


async def build(page: Page) -> Update:
    """A heat map of each level."""
    parts = {level: Part(f"heat-{level.value}") for level in _TITLES}
    for level, part in parts.items():
        part.create(render(await read(page.reader.heat, page.id, level)))

    async def update() -> None:
        for level, part in parts.items():
            part.show(render(await read(page.reader.heat, page.id, level)))

    return update


def render(found: HeatMap) -> Markup:
    """A table whose cells are the warmer the more they stand out."""
    title = _TITLES[found.level]
    if not found.subjects:
        return empty(f"No {title.lower()} are measured yet", "They are read every few seconds once the pipeline runs.")
    heads = join(
        html('<th scope="col" class="f" title="{}">{} <span class="small">{}</span></th>', each.meaning, each.words,
             each.unit)
        for each in found.features
    )  # fmt: skip
    rows = join(
        html('<tr><th scope="row">{}</th>{}</tr>', subject, join(_cell(cell) for cell in cells))
        for subject, cells in zip(found.subjects, found.rows, strict=True)
    )
    return html(
        '<section class="panel"><h2>{}</h2><div class="scroll" tabindex="0" role="group" aria-label="{}">'
        '<table class="heat"><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table></div></section>',
        title,
        title,
        heads,
        rows,
    )


def _cell(cell: Cell) -> Markup:
    strength = f"{0.55 * cell.heat:.2f}"
    return html('<td class="heat" style="background:rgba(var(--heat),{})">{}</td>', strength, cell.text.split(" ")[0])
