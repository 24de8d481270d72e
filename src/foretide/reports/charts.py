"""Charts as SVG within a page: lines over time with a limit and marks, and strips of intervals. No scripts.

Colours are classes of the page's style sheet, so that they follow light, dark and print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from foretide.formatting import format_number
from foretide.html import Html, tag
from foretide.reports.scales import Scale, elapsed, thinned, ticks, time_ticks, values_scale
from foretide.status.run_record import Interval, Points

WIDTH = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 24, 26, 30
_MOST_POINTS = 500
_MOST_ROWS = 24
_MARK_GAP = 15.0
_MAX_GAP_SECONDS = 120.0
_STRIP, _STRIP_GAP = 20, 8
_BINS = 90
_TICK_WIDTH = 75
_MAX_NAME = 14

Look = Literal["first", "second", "third", "expected"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart; its points are in seconds from the start of the run.

    Attributes:
        steps: Whether a value holds until the next one.
        high: The upper edge of an area above the line.
    """

    name: str
    points: Points
    look: Look = "first"
    steps: bool = False
    high: Points = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a time: a short label, and what it was."""

    at: float
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over the time of a run.

    Attributes:
        limits: Values with the times in which they held, such as a target.
        top: The highest value of the scale, so that several charts can be compared; by default that of the lines.
    """

    title: str
    unit: str
    seconds: float
    lines: tuple[Line, ...]
    limits: tuple[tuple[float, Interval], ...] = ()
    limit_name: str = ""
    marks: tuple[Mark, ...] = ()
    height: int = 230
    width: int = WIDTH
    may_log: bool = False
    top: float = 0.0

    @property
    def values(self) -> list[float]:
        """All values that are to be seen."""
        own = [value for line in self.lines for _, value in (*line.points, *line.high)]
        return [*own, *(value for value, _ in self.limits)]

    @property
    def typical(self) -> float | None:
        """The value that must be seen well on a logarithmic scale: the lowest limit, or the median of the lines."""
        own = [value for value in self.values if value > 0]
        return min([median(own), *(value for value, _ in self.limits)]) if own else None


def draw_chart(chart: Chart) -> Html:
    """The chart as a figure: a caption with the legend, the picture, and its figures as a table instead of it."""
    bottom = chart.height - _BOTTOM
    across = Scale(0.0, chart.seconds, _LEFT, chart.width - _RIGHT)
    values = [*chart.values, *([chart.top] if chart.top else [])]
    up = values_scale(values, bottom, _TOP, chart.typical if chart.may_log else None)
    picture = tag(
        "svg",
        tag("title", _spoken(chart)),
        *_grid(chart, across, up),
        *(part for line in chart.lines for part in _line(line, across, up)),
        *(_limit(value, span, across, up) for value, span in chart.limits),
        *_marks(chart.marks, across, bottom),
        viewBox=f"0 0 {chart.width} {chart.height}",
        role="img",
    )
    scale = f"{chart.unit}, logarithmic scale" if up.log else chart.unit
    return tag(
        "figure",
        tag("figcaption", tag("strong", chart.title), tag("span", scale, class_="unit"), _legend(chart)),
        tag("div", picture, class_="scroll", tabindex="0", role="group", aria_label=f"Chart: {chart.title}"),
        _table(chart),
    )


def _spoken(chart: Chart) -> str:
    """What the chart shows, in a sentence."""
    parts = [_range_of(line, chart.unit) for line in chart.lines if line.points]
    limits = [
        f"{chart.limit_name} {format_number(value)} {chart.unit}" for value in dict.fromkeys(v for v, _ in chart.limits)
    ]
    marks = [f"{len(chart.marks)} marked actions"] if chart.marks else []
    return f"{chart.title}. {'; '.join([*parts, *limits, *marks])}."


def _range_of(line: Line, unit: str) -> str:
    values = [value for _, value in line.points]
    low, high, last = (format_number(each, 3) for each in (min(values), max(values), values[-1]))
    return f"{line.name}: from {low} to {high} {unit}, {last} at the end"


def _legend(chart: Chart) -> Html:
    entries: list[tuple[str, str]] = [(line.look, line.name) for line in chart.lines if line.points]
    entries += [("limit", chart.limit_name)] if chart.limits else []
    return tag("ul", *(tag("li", _swatch(look), name) for look, name in entries), class_="legend")


def _swatch(look: str) -> Html:
    stroke = tag("path", d="M1 6H23", class_=f"line {look}")
    return tag("svg", stroke, viewBox="0 0 24 12", class_="swatch", aria_hidden="true")


def _grid(chart: Chart, across: Scale, up: Scale) -> Iterator[Html]:
    for value in ticks(up):
        y = up.place(value)
        yield tag("path", d=f"M{_LEFT} {y}H{chart.width - _RIGHT}", class_="grid")
        yield tag("text", format_number(value, 3), x=_LEFT - 8, y=y + 4, class_="tick end")
    yield from time_axis(chart.seconds, across, chart.height - _BOTTOM)


def time_axis(seconds: float, across: Scale, bottom: float) -> Iterator[Html]:
    """Times below a chart."""
    for at, label in time_ticks(seconds, most=int((across.end - across.start) / _TICK_WIDTH)):
        x = across.place(at)
        yield tag("path", d=f"M{x} {bottom}v5", class_="grid")
        yield tag("text", label, x=x, y=bottom + 19, class_="tick middle")


def _line(line: Line, across: Scale, up: Scale) -> Iterator[Html]:
    points = thinned(line.points, _MOST_POINTS, highest=line.look == "first")
    if line.high:
        yield tag("path", d=_area(points, dict(line.high), across, up), class_=f"area {line.look}")
    yield tag("path", d=_path(points, across, up, steps=line.steps), class_=f"line {line.look}")


def _path(points: Points, across: Scale, up: Scale, *, steps: bool) -> str:
    """A line through the points, interrupted where nothing was measured for long. A point by itself is a dot."""
    gap = max(_MAX_GAP_SECONDS, across.high / 4)
    parts: list[str] = []
    for place, (at, value) in enumerate(points):
        x, y = across.place(at), up.place(value)
        if place == 0 or (not steps and at - points[place - 1][0] > gap):
            parts.append(f"M{x} {y}h.1")
        else:
            parts.append(f"H{x}V{y}" if steps else f"L{x} {y}")
    return "".join(parts)


def _area(points: Points, high: dict[float, float], across: Scale, up: Scale) -> str:
    known = [(at, value) for at, value in points if at in high]
    above = [f"{across.place(at)} {up.place(high[at])}" for at, _ in known]
    below = [f"{across.place(at)} {up.place(value)}" for at, value in reversed(known)]
    return f"M{'L'.join([*above, *below])}Z" if known else ""


def _limit(value: float, span: Interval, across: Scale, up: Scale) -> Html:
    left, right = (across.place(at) for at in span)
    return tag("path", d=f"M{left} {up.place(value)}H{right}", class_="line limit")


def _marks(marks: Sequence[Mark], across: Scale, bottom: float) -> Iterator[Html]:
    """A dotted line for each mark, with its label above where there is room."""
    free_from = 0.0
    for mark in marks:
        x = across.place(mark.at)
        parts = [tag("title", f"{mark.label}: {mark.text}"), tag("path", d=f"M{x} {_TOP}V{bottom}", class_="mark")]
        if x >= free_from:
            parts.append(tag("text", mark.label, x=x, y=_TOP - 9, class_="tick middle flag"))
            free_from = x + _MARK_GAP + 4.0 * len(mark.label)
        yield tag("g", *parts)


def _table(chart: Chart) -> Html | None:
    """The figures of a chart, at even times."""
    lines = [line for line in chart.lines if line.points]
    if not lines:
        return None
    head = tag(
        "tr", tag("th", "time", scope="col"), *(tag("th", f"{line.name}, {chart.unit}", scope="col") for line in lines)
    )
    rows = [
        tag("tr", tag("th", elapsed(at, chart.seconds), scope="row"), *(tag("td", shown) for shown in cells))
        for at, cells in _cells(lines, chart.seconds)
    ]
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    return tag("details", tag("summary", "Figures as a table"), tag("div", table, class_="scroll"))


def _cells(lines: Sequence[Line], seconds: float) -> Iterator[tuple[float, list[str]]]:
    width = seconds / _MOST_ROWS or 1.0
    for row in range(_MOST_ROWS):
        start, end = row * width, (row + 1) * width
        found = [_in_part(line, start, end) for line in lines]
        if any(each != "-" for each in found):
            yield end, found


def _in_part(line: Line, start: float, end: float) -> str:
    values = [value for at, value in line.points if start <= at < end or at == end]
    return format_number(max(values) if line.look == "first" else values[-1]) if values else "-"


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of a heat map: a value over time, when it was there, and intervals that are marked below it."""

    name: str
    points: Points
    out: tuple[Interval, ...] = ()
    present: tuple[Interval, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Strips below one another. `strength` of a value is read from `weakest` to `strongest`."""

    title: str
    unit: str
    seconds: float
    strips: tuple[Strip, ...]
    weakest: float
    strongest: float
    out_name: str
    marks: tuple[Mark, ...] = field(default=())


def draw_heat_map(heat: HeatMap) -> Html:
    """The heat map as a figure."""
    across = Scale(0.0, heat.seconds, _LEFT + 30, WIDTH - _RIGHT)
    bottom = _TOP + len(heat.strips) * (_STRIP + _STRIP_GAP)
    rows = [part for place, strip in enumerate(heat.strips) for part in _strip(heat, strip, place, across)]
    picture = tag(
        "svg",
        tag("title", "; ".join(f"{each.name}: {_heat_range(each)}" for each in heat.strips)),
        *rows,
        *_marks(heat.marks, across, bottom),
        *time_axis(heat.seconds, across, bottom),
        viewBox=f"0 0 {WIDTH} {bottom + _BOTTOM}",
        role="img",
    )
    scale = tag(
        "span", f"{heat.unit}; from {heat.weakest:g} (pale) to {heat.strongest:g} and more (strong)", class_="unit"
    )
    out = tag("ul", tag("li", tag("span", class_="swatch out"), heat.out_name), class_="legend") if any(
        each.out for each in heat.strips) else None  # fmt: skip
    label = f"Chart: {heat.title}"
    return tag(
        "figure",
        tag("figcaption", tag("strong", heat.title), scale, out),
        tag("div", picture, class_="scroll", tabindex="0", role="group", aria_label=label),
    )


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def _heat_range(strip: Strip) -> str:
    values = [value for _, value in strip.points]
    return f"from {format_number(min(values), 3)} to {format_number(max(values), 3)}" if values else "not measured"


def _strip(heat: HeatMap, strip: Strip, place: int, across: Scale) -> Iterator[Html]:
    top = _TOP + place * (_STRIP + _STRIP_GAP)
    yield tag(
        "text",
        _short(strip.name),
        x=_LEFT + 22,
        y=top + 14,
        class_="tick end",
    )
    for start, end in strip.present:
        yield _block(start, end, top, across, "present")
    width = heat.seconds / _BINS
    for at, value in thinned(strip.points, _BINS):
        share = (value - heat.weakest) / (heat.strongest - heat.weakest)
        strength = round(min(max(share, 0.0), 1.0), 2)
        yield (
            tag("g", _block(max(at - width, 0.0), at, top, across, "heat"), opacity=strength) if strength else Html("")
        )
    for start, end in strip.out:
        yield _block(start, end, top + _STRIP - 3, across, "out", 5)


def _block(start: float, end: float, top: float, across: Scale, look: str, height: int = _STRIP) -> Html:
    left, right = across.place(start), across.place(end)
    return tag("rect", x=left, y=top, width=round(max(right - left, 1.0), 1), height=height, class_=look)


def shifted(points: Points, began: float) -> Points:
    """Points by the seconds since the start of the run."""
    return tuple((at - began, value) for at, value in points)
