"""The page *Workers*: workers and machines as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.markup import empty, html, join, pill
from foretide.metrics.metric import Level
from foretide.status.views.heat import Cell, HeatMap

LEAD = (
    "The main features of workers and machines. The warmer a cell, the more it exceeds its peers, or the busier it is: "
    "a warm row is a worker that is slowed down, and the machine in its heading says by what."
)
_NOTABLE_HEAT = 0.6
_TITLES = {Level.WORKER: "Workers", Level.MACHINE: "Machines"}


async def build(page: Page) -> Update:
    """A heat map of each level."""
    workers, machines = Part("heat-worker"), Part("heat-machine")
    found = await _read(page)
    workers.create(render(*found))
    machines.create(render(found[1]))

    async def update() -> None:
        found = await _read(page)
        workers.show(render(*found))
        machines.show(render(found[1]))

    return update


async def _read(page: Page) -> tuple[HeatMap, HeatMap]:
    return (
        await read(page.reader.heat, page.id, Level.WORKER),
        await read(page.reader.heat, page.id, Level.MACHINE),
    )


def render(found: HeatMap, machines: HeatMap | None = None) -> Markup:
    """A table whose cells are the warmer the more they stand out; with machines, workers are grouped by them."""
    title = _TITLES[found.level]
    if not found.subjects:
        return empty(f"No {title.lower()} are measured yet", "They are read every few seconds once the pipeline runs.")
    heads = join(
        html('<th scope="col" class="f" title="{}">{} <span class="small">{}</span></th>', each.meaning, each.words,
             each.unit)
        for each in found.features
    )  # fmt: skip
    rows = zip(found.hosts, found.subjects, found.rows, strict=True)
    groups = join(
        html(
            "<tbody>{}{}</tbody>",
            Markup("") if machines is None else _machine(host, machines, len(found.features)),
            join(_row(subject, cells) for _, subject, cells in group),
        )
        for host, group in groupby(rows, key=lambda row: row[0])
    )
    return html(
        '<section class="panel"><h2>{}</h2><div class="scroll" tabindex="0" role="group" aria-label="{}">'
        '<table class="heat"><thead><tr><td></td>{}</tr></thead>{}</table></div></section>',
        title,
        title,
        heads,
        groups,
    )


def _machine(host: str, machines: HeatMap, columns: int) -> Markup:
    """The heading of a machine's workers: its name, and what about it stands out."""
    cells = machines.rows[machines.subjects.index(host)] if host in machines.subjects else ()
    notable = [
        f"{feature.words} {cell.text}"
        for feature, cell in zip(machines.features, cells, strict=False)
        if cell.heat >= _NOTABLE_HEAT
    ]
    words = join((pill(each, "slow") for each in notable), " ")
    return html(
        '<tr class="machine"><th scope="rowgroup" colspan="{}"><span>{}</span> {}</th></tr>',
        columns + 1,
        host or "machine not known",
        words,
    )


def _row(subject: str, cells: Sequence[Cell]) -> Markup:
    return html('<tr><th scope="row">{}</th>{}</tr>', subject, join(_cell(cell) for cell in cells))


def _cell(cell: Cell) -> Markup:
    strength = f"{0.55 * cell.heat:.2f}"
    return html('<td class="heat" style="background:rgba(var(--heat),{})">{}</td>', strength, cell.text.split(" ")[0])
