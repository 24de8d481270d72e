"""The page *Topology*: the graph with its rates and utilization, and the workers."""

from __future__ import annotations

from markupsafe import Markup

from foretide.dashboard.pages.frame import Page, Part, Update, read
from foretide.dashboard.pages.graph import draw
from foretide.dashboard.pages.markup import empty, html, join, number, percent, pill, table
from foretide.status.views.topology import OperatorView, TopologyView, WorkerView

LEAD = (
    "Tuples a second on each stream, how busy each operator is, and which of its replicas get tuples. "
    "The busiest operator is the bottleneck; replicas on slow or quarantined workers are red."
)


async def build(page: Page) -> Update:
    """The graph, which moves as the pipeline reports."""
    part = Part("topology")
    part.create(render(await read(page.reader.topology, page.id)))

    async def update() -> None:
        part.show(render(await read(page.reader.topology, page.id)))

    return update


def render(view: TopologyView) -> Markup:
    """The graph, and its figures in tables."""
    if not view.operators:
        return empty("No operator is known yet", "The graph appears with the first batch.")
    return html(
        '<section class="panel"><div class="along scroll" tabindex="0" role="group" aria-label="graph">{}</div>'
        '<div class="down">{}</div></section><div class="columns"><section class="panel"><h2>Operators</h2>{}</section>'
        '<section class="panel"><h2>Workers</h2>{}</section></div>',
        draw(view, down=False),
        draw(view, down=True),
        table(
            ("operator", "tuples/s", "busy", "busiest", "replicas", "ms a tuple"),
            [_operator(each) for each in view.operators],
            range(1, 6),
        ),
        table(("worker", "host", "state", "slowness"), [_worker(each) for each in view.workers], (3,))
        if view.workers
        else html('<p class="soft">No worker is known yet.</p>'),
    )


def _operator(found: OperatorView) -> tuple[object, ...]:
    marks = join(
        pill(words, kind)
        for shown, words, kind in ((found.bottleneck, "bottleneck", "bad"), (found.held, "by hand", "calm"))
        if shown
    )
    active = "all" if found.active is None else found.active
    return (
        html('<span data-operator="{}">{}</span> {}', found.name, found.name, marks),
        html('<span data-rate="{}">{}</span>', found.name, number(found.rate)),
        percent(found.utilization),
        percent(found.capacity),
        f"{active} of {found.pool}",
        number(found.service_ms),
    )


def _worker(found: WorkerView) -> tuple[object, ...]:
    kind = {"in service": "good", "quarantined": "bad", "drained": "slow", "gone": "calm"}[found.state]
    slow = pill("slow") if found.slow else Markup("")
    return found.id, found.host, pill(found.state, kind), html("{} {}", slow, number(found.slowness))
