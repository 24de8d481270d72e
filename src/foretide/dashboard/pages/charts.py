"""Options of the ECharts on the pages. Colours are variables of the style sheet, so that charts follow the theme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foretide.status.views.decisions import DecisionLine
from foretide.status.views.forecasts import ForecastView, Foreseen
from foretide.status.views.latency import LatencyView, Point

Options = dict[str, Any]

_INK, _SOFT, _LINE, _PANEL, _BAD, _BAND = (f"var(--{name})" for name in ("ink", "soft", "line", "panel", "bad", "band"))
COLOURS = ("var(--s2)", "var(--s3)", "var(--s1)")
_MAX_HEADROOM = 2.0


def base(unit: str) -> Options:
    """A chart over time, without series."""
    return {
        "animation": False,
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 8, "right": 14, "top": 56, "bottom": 6, "containLabel": True},
        "legend": {"top": 0, "left": 0, "itemWidth": 16, "itemHeight": 8, "textStyle": {"color": _SOFT}},
        "tooltip": {
            "trigger": "axis",
            "backgroundColor": _PANEL,
            "borderColor": _LINE,
            "textStyle": {"color": _INK, "fontSize": 13},
            "confine": True,
        },
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": _LINE}},
            "axisTick": {"show": False},
            "axisLabel": {"color": _SOFT, "hideOverlap": True},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "name": unit,
            "nameTextStyle": {"color": _SOFT, "align": "left"},
            "axisLabel": {"color": _SOFT},
            "splitLine": {"lineStyle": {"color": _LINE}},
        },
        "series": [],
    }


def line(name: str, points: Iterable[Point], colour: str, **more: Any) -> Options:
    """A line over time."""
    style = {"color": colour, "width": 2, **more.pop("lineStyle", {})}
    data = [[point.at * 1000.0, round(point.value, 6)] for point in points]
    return {
        "type": "line", "name": name, "data": data, "showSymbol": False, "lineStyle": style,
        "itemStyle": {"color": colour}, **more,
    }  # fmt: skip


def latency_chart(view: LatencyView) -> Options:
    """Latency by quantile, the target as a line, and changes as marks."""
    chart = base("s")
    found = [line(name, points, colour) for (name, points), colour in zip(view.quantiles.items(), COLOURS, strict=True)]
    times = [point.at for points in view.quantiles.values() for point in points]
    if view.target is not None and times:
        ends = [Point(min(times), view.target), Point(max(times), view.target)]
        dashed = {"type": "dashed", "width": 1.5}
        found.append(line(f"target {view.target_quantile}", ends, _BAD, lineStyle=dashed))
    if found and view.decisions:
        found[-1 if view.target is None else 2]["markLine"] = _marks(view.decisions)
    return chart | {"series": found}


def _marks(decisions: Sequence[DecisionLine]) -> Options:
    return {
        "symbol": ["none", "circle"],
        "symbolSize": 6,
        "lineStyle": {"color": _SOFT, "type": "dotted", "width": 1.5},
        "label": {"show": True, "color": _SOFT, "formatter": "{b}", "fontSize": 11},
        "tooltip": {"show": False},
        "data": [{"xAxis": each.at * 1000.0, "name": str(each.id)} for each in decisions],
    }


def forecast_chart(view: ForecastView) -> Options:
    """What came, what had been expected for the same times, and what is expected now, with intervals of 80 %."""
    unit = "" if view.series is None else view.series.unit
    chart = base(unit)
    earlier = f"expected {view.horizon:g} s before" if view.horizon is not None else "expected"
    series = [
        line("measured", view.came, _INK),
        line(earlier, _means(view.earlier), COLOURS[1], lineStyle={"type": "dashed", "width": 1.5}),
        line("expected now", _means(view.ahead), COLOURS[2]),
        *_band("80 % interval before", view.earlier, "var(--s3)", 0.16),
        *_band("80 % interval now", view.ahead, "var(--s1)", 0.22),
    ]
    legend = {**chart["legend"], "data": [each["name"] for each in series[:3]]}
    return chart | {"series": series, "legend": legend, "yAxis": chart["yAxis"] | {"max": _top(view)}}


def _top(view: ForecastView) -> float | None:
    """The end of the axis, where intervals that are much wider than the load is high would make a line of it."""
    levels = [*(point.value for point in view.came), *(point.mean for point in (*view.earlier, *view.ahead))]
    highest = _MAX_HEADROOM * max(levels, default=0.0)
    if highest <= 0 or max((point.high or 0.0 for point in (*view.earlier, *view.ahead)), default=0.0) <= highest:
        return None
    step = 10.0 ** math.floor(math.log10(highest))
    return step * math.ceil(highest / step)


def _means(points: Iterable[Foreseen]) -> list[Point]:
    return [Point(each.at, each.mean) for each in points]


def _band(name: str, points: Sequence[Foreseen], colour: str, opacity: float) -> list[Options]:
    """The area between low and high: two stacked lines, of which only the area of the second is seen."""
    known = [each for each in points if each.low is not None and each.high is not None]
    hidden: Mapping[str, Any] = {"lineStyle": {"width": 0, "opacity": 0}, "tooltip": {"show": False}, "stack": name}
    low = line(name, (Point(each.at, each.low or 0.0) for each in known), colour, **hidden)
    gap = (Point(each.at, (each.high or 0.0) - (each.low or 0.0)) for each in known)
    area = {"color": colour, "opacity": opacity}
    return [low, line(name, gap, colour, areaStyle=area, **hidden)]
