"""The graph of a topology as SVG: spouts first, one level below the other where there is little room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from foretide.dashboard.pages.markup import html, join, number, percent
from foretide.status.views.topology import OperatorView, StreamView, TopologyView

_WIDTH, _HEIGHT = 208, 118
_GAP_ACROSS, _GAP_ALONG = 34, 120
_GAP_DOWN = 62
_MARGIN = 14
_DOTS = 12
_BUSY = 0.8
_COUNT = '{}<text class="sub" x="{}" y="101" font-size="12" text-anchor="end">{}</text>'


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where each operator is; `down` if levels follow each other downwards."""

    boxes: Mapping[str, _Box]
    width: float
    height: float
    down: bool


def draw(view: TopologyView, *, down: bool) -> Markup:
    """The graph, from left to right or from top to bottom."""
    plan = _plan(view, down=down)
    slow = frozenset(worker.id for worker in view.workers if worker.slow or worker.state != "in service")
    most = max([stream.rate or 0.0 for stream in view.streams] + [1e-9])
    links = join(_link(plan, stream, most) for stream in view.streams)
    nodes = join(_node(plan.boxes[each.name], each, slow) for each in view.operators)
    return html(
        '<svg class="graph" viewBox="0 0 {w} {h}" style="max-width:{w}px" role="img" aria-label="{words}">'
        '<defs><marker id="{m}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="12" markerHeight="12" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0,0 L8,4 L0,8 Z"/></marker></defs>'
        "{links}{nodes}</svg>",
        w=f"{plan.width:.0f}",
        h=f"{plan.height:.0f}",
        words=f"topology of {len(view.operators)} operators; the table below has its figures",
        m=_marker(down),
        links=links,
        nodes=nodes,
    )


def _marker(down: bool) -> str:  # noqa: FBT001
    return "tip-down" if down else "tip-along"


def _plan(view: TopologyView, *, down: bool) -> _Plan:
    levels: dict[int, list[str]] = defaultdict(list)
    for each in view.operators:
        levels[each.level].append(each.name)
    across, along = (
        (_WIDTH + _GAP_ACROSS, _HEIGHT + _GAP_DOWN) if down else (_HEIGHT + _GAP_ACROSS, _WIDTH + _GAP_ALONG)
    )
    widest = max((len(names) for names in levels.values()), default=1)
    boxes = {}
    for place, level in enumerate(sorted(levels)):
        names = levels[level]
        start = _MARGIN + (widest - len(names)) * across / 2
        for number_, name in enumerate(names):
            side, length = start + number_ * across, _MARGIN + place * along
            boxes[name] = _Box(side, length) if down else _Box(length, side)
    breadth, length = widest * across - _GAP_ACROSS, len(levels) * along - (_GAP_DOWN if down else _GAP_ALONG)
    width, height = (breadth, length) if down else (length, breadth)
    return _Plan(boxes, width + 2 * _MARGIN, height + 2 * _MARGIN, down)


def _link(plan: _Plan, stream: StreamView, most: float) -> Markup:
    source, target = plan.boxes[stream.source], plan.boxes[stream.target]
    if plan.down:
        x1, y1, x2, y2 = source.x + _WIDTH / 2, source.y + _HEIGHT, target.x + _WIDTH / 2, target.y
        middle = (y1 + y2) / 2
        path = f"M{x1},{y1} C{x1},{middle} {x2},{middle} {x2},{y2}"
    else:
        x1, y1, x2, y2 = source.x + _WIDTH, source.y + _HEIGHT / 2, target.x, target.y + _HEIGHT / 2
        middle = (x1 + x2) / 2
        path = f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    thick = 1.5 + 4.5 * (stream.rate or 0.0) / most
    busy = "" if stream.utilization is None else f"{percent(stream.utilization)} busy"
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    x, above, below, anchor = (x + 10, y - 3, y + 11, "start") if plan.down else (x, y - 9, y + 19, "middle")
    return html(
        '<path class="link" d="{}" stroke-width="{}" marker-end="url(#{})"/>'
        '<text class="label" x="{}" y="{}" text-anchor="{}" font-size="13" data-stream="{}">{}/s</text>'
        '<text class="label sub" x="{}" y="{}" text-anchor="{}" font-size="11">{}</text>',
        path, f"{thick:.1f}", _marker(plan.down), x, above, anchor, f"{stream.source}->{stream.target}",
        number(stream.rate), x, below, anchor, busy,
    )  # fmt: skip


def _node(box: _Box, found: OperatorView, slow: frozenset[str]) -> Markup:
    busy = found.utilization
    share = min(max(busy or 0.0, 0.0), 1.0)
    width = _WIDTH - 28
    meter = html(
        '<rect class="meter" x="14" y="72" width="{}" height="8" rx="4"/>'
        '<rect class="fill {}" x="14" y="72" width="{}" height="8" rx="4"/>',
        width, "busy" if share > _BUSY else "", f"{width * share:.1f}",
    )  # fmt: skip
    flag = html('<text class="flag" x="{}" y="24" text-anchor="end" font-size="12">bottleneck</text>', _WIDTH - 14)
    held = html('<text class="sub" x="{}" y="24" text-anchor="end" font-size="12">by hand</text>', _WIDTH - 14)
    return html(
        '<g transform="translate({},{})"><rect class="node {}" width="{}" height="{}" rx="12"/>'
        '<text x="14" y="25" font-size="15" font-weight="600">{}</text>{}'
        '<text class="sub" x="14" y="44" font-size="12">{}</text>'
        '<text class="sub" x="14" y="62" font-size="12">{}</text>{}{}</g>',
        box.x, box.y, "hot" if found.bottleneck else "", _WIDTH, _HEIGHT, _short(found.name),
        flag if found.bottleneck else held if found.held else Markup(""), _rate(found), _work(found),
        meter if busy is not None else Markup(""), _replicas(found, slow),
    )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 15 else f"{name[:14]}…"  # noqa: PLR2004


def _rate(found: OperatorView) -> str:
    waiting = f", {number(found.lag)} waiting" if found.lag else ""
    return f"{number(found.rate)} tuples/s{waiting}"


def _work(found: OperatorView) -> str:
    known = [
        "" if found.utilization is None else f"{percent(found.utilization)} busy",
        "" if found.service_ms is None else f"{number(found.service_ms)} ms a tuple",
    ]
    return ", ".join(filter(None, known))


def _replicas(found: OperatorView, slow: frozenset[str]) -> Markup:
    """A dot for each replica: filled if it gets tuples, red if it is on a slow worker or one that is out of service."""
    active = found.pool if found.active is None else found.active
    shown = min(found.pool, _DOTS)
    shares = found.shares or tuple(float(place < active) for place in range(found.pool))
    dots = join(
        html(
            '<circle class="dot {}" cx="{}" cy="97" r="4.5"/>',
            "off" if shares[place] <= 0 else "slow" if _on(found, place) in slow else "",
            19 + 13 * place,
        )
        for place in range(shown)
    )
    words = f"{active} of {found.pool}"
    return html(
        '{}<text class="sub" x="{}" y="101" font-size="12" text-anchor="end">{}</text>', dots, _WIDTH - 14, words
    )


def _on(found: OperatorView, place: int) -> str | None:
    return found.workers[place] if place < len(found.workers) else None
