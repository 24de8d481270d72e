"""Plots of outcomes as SVG within a page: lines over a sweep, and a bar with its spread for each side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.experiments.experiment import Measure
from benchmarks.experiments.outcome import Outcome
from foretide.formatting import format_number
from foretide.html import Html, tag
from foretide.reports.charts import WIDTH
from foretide.reports.scales import Scale, ticks, values_scale

_LOOKS = ("first", "second", "expected", "third", "limit")
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 84, 24, 14, 40, 250
_NAMES, _BAR, _GAP = 230, 14, 9
_MAX_NAME = 34


def plot(outcome: Outcome, measure: Measure) -> Html | None:
    """The plot of a measure: of a sweep if the sides are places of one; None if nothing was measured."""
    found = [side for side in outcome.sides if math.isfinite(outcome.spread(side.name, measure.name).median)]
    if not found:
        return None
    swept = [side for side in found if side.at is not None]
    picture = _sweep(outcome, measure) if len(swept) > 2 else _bars(outcome, measure)
    legend = _legend(list(_series(outcome, measure))) if len(swept) > 2 else None
    caption = tag("figcaption", tag("strong", measure.name), tag("span", measure.unit, class_="unit"), legend)
    return tag("figure", caption, tag("div", picture, class_="scroll"))


def _series(outcome: Outcome, measure: Measure) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for side in outcome.sides:
        value = outcome.spread(side.name, measure.name).median
        if side.at is not None and math.isfinite(value):
            lines.setdefault(side.series or "measured", []).append((side.at, value))
    return {name: sorted(points) for name, points in lines.items()}


def _sweep(outcome: Outcome, measure: Measure) -> Html:
    lines = _series(outcome, measure)
    points = [point for line in lines.values() for point in line]
    places = sorted({at for at, _ in points})
    bottom = _HEIGHT - _BOTTOM
    across = Scale(places[0], places[-1], _LEFT, WIDTH - _RIGHT)
    up = values_scale([value for _, value in points], bottom, _TOP)
    return tag(
        "svg",
        tag("title", f"{measure.name} by {outcome.axis}"),
        *_grid(up, _LEFT, WIDTH - _RIGHT),
        *(tag("text", f"{at:g}", x=across.place(at), y=bottom + 18, class_="tick middle") for at in places),
        tag("text", outcome.axis, x=(_LEFT + WIDTH) / 2, y=_HEIGHT - 4, class_="tick middle"),
        *(_line(line, across, up, look) for line, look in zip(lines.values(), _looks(), strict=False)),
        viewBox=f"0 0 {WIDTH} {_HEIGHT}",
        role="img",
    )


def _grid(up: Scale, left: float, right: float) -> Iterator[Html]:
    for value in ticks(up):
        y = up.place(value)
        yield tag("path", d=f"M{left} {y}H{right}", class_="grid")
        yield tag("text", format_number(value, 3), x=left - 8, y=y + 4, class_="tick end")


def _looks() -> Iterator[str]:
    while True:
        yield from _LOOKS


def _line(points: Sequence[tuple[float, float]], across: Scale, up: Scale, look: str) -> Html:
    places = [f"{across.place(at)} {up.place(value)}" for at, value in points]
    return tag("path", d=f"M{'L'.join(places)}", class_=f"line {look}")


def _legend(names: Sequence[str]) -> Html:
    entries = [
        tag(
            "li",
            tag("svg", tag("path", d="M0 6H24", class_=f"line {look}"), class_="swatch", viewBox="0 0 24 12"),
            name,
        )
        for name, look in zip(names, _looks(), strict=False)
    ]
    return tag("ul", *entries, class_="legend")


def _bars(outcome: Outcome, measure: Measure) -> Html:
    spreads = [(side.name, outcome.spread(side.name, measure.name)) for side in outcome.sides]
    spreads = [(name, each) for name, each in spreads if math.isfinite(each.median)]
    most = [value for _, each in spreads for value in (each.median, each.most) if math.isfinite(value)]
    across = values_scale(most, _NAMES, WIDTH - _RIGHT - 60)
    height = len(spreads) * (_BAR + _GAP) + 6
    rows = [part for place, (name, each) in enumerate(spreads) for part in _bar(name, each, place, across)]
    return tag(
        "svg",
        tag("title", f"{measure.name}: median, and the range of the repetitions"),
        *rows,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
    )


def _bar(name: str, found: object, place: int, across: Scale) -> Iterator[Html]:
    top, middle = place * (_BAR + _GAP) + 3, place * (_BAR + _GAP) + 3 + _BAR / 2
    median, least, most = (getattr(found, each) for each in ("median", "least", "most"))
    end = across.place(median)
    shown = name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
    yield tag("text", shown, x=_NAMES - 8, y=top + 11, class_="tick end")
    yield tag("rect", x=_NAMES, y=top, width=max(end - _NAMES, 1.0), height=_BAR, class_="present")
    low, high = across.place(least), across.place(most)
    yield tag("path", d=f"M{low} {middle}H{high}M{low} {middle - 4}v8M{high} {middle - 4}v8", class_="line first")
    yield tag("text", format_number(median, 4), x=max(end, high) + 6, y=top + 11, class_="tick")
