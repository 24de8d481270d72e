"""The page *Joins*: the load of each partition, and the hot keys with their plans."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.markup import bar, empty, html, join, note, number, percent, table
from foretide.status.views.joins import HotKey, JoinDetail

LEAD = (
    "The load of each partition in the last window, under the plan in force and as the hash alone would place it. "
    "LI is by how much the fullest partition exceeds the mean."
)


async def build(page: Page) -> Update:
    """A panel for each join."""
    part = Part("joins")
    part.create(render(await read(page.reader.joins, page.id)))

    async def update() -> None:
        part.show(render(await read(page.reader.joins, page.id)))

    return update


def render(found: Sequence[JoinDetail]) -> Markup:
    """All joins."""
    if not found:
        words = "A join appears here if it was made with ft.join and the control loop runs."
        return empty("No join is controlled in this pipeline", words, "foretide demo join")
    return join(_join(each) for each in found)


def _join(detail: JoinDetail) -> Markup:
    problem = Markup("") if detail.problem is None else note("warning", detail.problem)
    return html(
        '<section class="panel" aria-label="join {name}"><div class="head"><h2>{name}</h2><span class="soft">'
        "{partitions}"
        " partitions, windows of {window:g} s</span></div><p>{summary}</p>{problem}"
        '<div class="tiles"><div class="tile"><div class="label">LI now</div><div class="value">{li}</div></div>'
        '<div class="tile"><div class="label">LI by hash alone</div><div class="value">{hash_li}</div></div></div>'
        '<h3>Load of each partition</h3><div class="bars">{bars}</div>'
        '<div class="legend"><span><i></i>under the plan in force</span><span>'
        '<i style="background:var(--calm);opacity:.45">'
        "</i>by hash alone</span></div><h3>Frequent keys</h3>{keys}</section>",
        name=detail.name,
        partitions=detail.partitions,
        window=detail.window_seconds,
        summary=detail.summary,
        problem=problem,
        li=percent(detail.imbalance),
        hash_li=percent(detail.hash_imbalance),
        bars=_bars(detail),
        keys=_keys(detail.keys),
    )


def _bars(detail: JoinDetail) -> Markup:
    most = max((*detail.loads, *detail.hash_loads, 1e-9))
    mean = sum(detail.loads) / len(detail.loads) if detail.loads else 0.0
    return join(
        html(
            "<span>{}</span><span>{}{}</span><span>{}</span>",
            place,
            bar(load / most, mark=mean / most),
            bar(before / most, kind="was"),
            percent(load / mean) if mean else "",
        )
        for place, (load, before) in enumerate(zip(detail.loads, detail.hash_loads, strict=True))
    )


def _keys(keys: Sequence[HotKey]) -> Markup:
    if not keys:
        return html('<p class="soft">No window of keys is complete yet.</p>')
    rows = [
        (each.name, number(each.left), number(each.right), number(each.forecast), each.placement,
         ", ".join(map(str, each.partitions)))
        for each in keys
    ]  # fmt: skip
    return table(("key", "rows left", "rows right", "forecast", "placed", "partitions"), rows, (1, 2, 3))
