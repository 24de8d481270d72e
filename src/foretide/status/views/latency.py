"""Latency over time against the target, with what was changed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from foretide.metrics.metric import Sample
from foretide.status.views.decisions import DecisionLine

LATENCIES = {"p50": "latency_p50_ms", "p95": "latency_p95_ms", "p99": "latency_p99_ms"}


@dataclass(frozen=True, slots=True)
class Point:
    """A value, and when it was measured, in seconds since 1970."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class LatencyView:
    """Latency in seconds by quantile, the target, and the decisions of that time."""

    at: float
    quantiles: Mapping[str, tuple[Point, ...]]
    target: float | None
    target_quantile: str
    decisions: tuple[DecisionLine, ...]


def latency_view(
    at: float,
    samples: Iterable[Sample],
    target: tuple[float | None, str],
    decisions: Iterable[DecisionLine],
    most: int = 600,
) -> LatencyView:
    """Latency over time, of at most so many points each."""
    found: dict[str, list[Point]] = {name: [] for name in LATENCIES}
    names = {metric: name for name, metric in LATENCIES.items()}
    for sample in samples:
        found[names[sample.metric]].append(Point(sample.at, sample.value / 1000.0))
    changed = tuple(each for each in decisions if each.kind in {"change", "by hand"})
    return LatencyView(at, {name: thinned(points, most) for name, points in found.items()}, *target, changed)


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """At most so many points: of each group of neighbours the highest, so that no peak is lost.

    >>> thinned([Point(0.0, 1.0), Point(1.0, 5.0), Point(2.0, 2.0), Point(3.0, 1.0)], 2)
    (Point(at=1.0, value=5.0), Point(at=2.0, value=2.0))
    """
    size = -(-len(points) // most)
    groups = (points[start : start + size] for start in range(0, len(points), max(size, 1)))
    return tuple(max(group, key=lambda point: point.value) for group in groups)
