"""Views of pipelines by their id: what API and pages both show."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.metrics.catalogue import CATALOGUE, at_level
from foretide.metrics.metric import Level
from foretide.planning.advice import Advice
from foretide.status.sources import Sources
from foretide.status.stored import Figure
from foretide.status.views.decisions import DecisionDetail, DecisionLine, detail_of, line_of
from foretide.status.views.forecasts import ForecastView, chosen_series, forecast_view, series_of
from foretide.status.views.heat import HeatMap, heat_map
from foretide.status.views.joins import JoinDetail, joins
from foretide.status.views.latency import LATENCIES, LatencyView, Point, latency_view
from foretide.status.views.overview import Overview, overview
from foretide.status.views.seen import Seen
from foretide.status.views.topology import TopologyView, topology
from foretide.status.views.what_if import Answer, Question, answer

_MAX_SAMPLES = 20_000
_DECISIONS = 200
_MAX_DECISIONS = 1000


@dataclass(frozen=True, slots=True)
class Metrics:
    """The newest value of every metric."""

    pipeline: str
    at: float
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class History:
    """A metric of a subject over time, the newest last."""

    metric: str
    subject: str
    unit: str
    meaning: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class EdgeRoute:
    """A route as it is published: the part of the stream that each task gets."""

    edge: str
    pool: int
    shares: tuple[float, ...]
    held: str | None


@dataclass(frozen=True, slots=True)
class Routes:
    """The published routes; `in_force` is the version that the last batch read, None for the default split."""

    version: int
    in_force: int | None
    edges: tuple[EdgeRoute, ...]


class Reader:
    """Reads views, for any number of viewers."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def seen(self, name: str) -> Seen:
        """All that is known of a pipeline now."""
        return self.sources.seen(name)

    def overviews(self) -> tuple[Overview, ...]:
        """All pipelines."""
        return tuple(overview(self.sources.seen(entry.id)) for entry in self.sources.entries())

    def overview(self, name: str) -> Overview:
        """A pipeline in a few figures."""
        return overview(self.seen(name))

    def topology(self, name: str) -> TopologyView:
        """Its graph."""
        return topology(self.seen(name))

    def metrics(self, name: str, level: Level | None = None) -> Metrics:
        """Its newest metrics, of one level or of all."""
        seen, wanted = self.seen(name), None if level is None else {metric.name for metric in at_level(level)}
        figures = []
        for sample in seen.samples.values():
            metric = CATALOGUE.get(sample.metric)
            unit, kind = (metric.unit, metric.level) if metric else (None, None)
            if wanted is None or sample.metric in wanted:
                age = max(0.0, seen.at - sample.at)
                figures.append(Figure(sample.metric, unit, kind, sample.subject, sample.value, sample.at, age))
        return Metrics(seen.name, seen.at, tuple(figures))

    def history(self, name: str, metric: str, subject: str | None, seconds: float, most: int) -> History:
        """A metric over the last seconds; of the pipeline itself by default."""
        seen = self.seen(name)
        known, of = CATALOGUE.get(metric), seen.name if subject is None else subject
        samples = self.sources.samples(name, [metric], [of], _since(seen, seconds), most)
        unit, meaning = ("", "") if known is None else (known.symbol, known.meaning)
        return History(metric, of, unit, meaning, tuple(Point(sample.at, sample.value) for sample in samples))

    def latency(self, name: str, seconds: float) -> LatencyView:
        """Its latency over the last seconds."""
        seen = self.seen(name)
        since = _since(seen, seconds)
        samples = self.sources.samples(name, tuple(LATENCIES.values()), [seen.name], since, _MAX_SAMPLES)
        found = overview(seen)
        lines = [line_of(each) for each in self.sources.decisions(name, _DECISIONS) if each.at >= since]
        return latency_view(seen.at, samples, (found.target_seconds, found.quantile), lines)

    def forecast(
        self, name: str, metric: str | None, subject: str | None, ahead: float | None, seconds: float
    ) -> ForecastView:
        """A series that is forecast against what came."""
        seen = self.seen(name)
        since = _since(seen, seconds)
        records = self.sources.forecasts(name, since)
        series = chosen_series(series_of(records), metric, subject)
        came = (
            []
            if series is None
            else self.sources.samples(name, (series.metric,), [series.subject], since, _MAX_SAMPLES)
        )
        control = None if seen.state is None else seen.state.control
        trust, log = ((), ()) if control is None else (control.trust, control.forecasts)
        return forecast_view(seen.at, series, records, came, trust, log, ahead)

    def decisions(self, name: str, last: int, since: float | None = None) -> tuple[DecisionLine, ...]:
        """Its last decisions, the newest last."""
        return tuple(line_of(each) for each in self.sources.decisions(name, last, since))

    def last_decision(self, name: str) -> int:
        """The number of its last decision, 0 if there is none."""
        return max((each.id for each in self.seen(name).decisions), default=0)

    def decisions_after(self, name: str, number: int) -> tuple[DecisionLine, ...]:
        """Its decisions with higher numbers, the newest last."""
        found = self.seen(name).decisions
        if found and found[0].id > number + 1:  # more than are read at once
            found = tuple(self.sources.decisions(name, _MAX_DECISIONS))
        return tuple(line_of(each) for each in found if each.id > number)

    def decision(self, name: str, number: int) -> DecisionDetail:
        """One decision in full."""
        return detail_of(self.sources.decision(name, number))

    def routes(self, name: str) -> Routes:
        """Its published routes."""
        seen = self.seen(name)
        batch = None if seen.state is None else seen.state.batch
        in_force = None if batch is None else batch.route_version
        if seen.routes is None:
            return Routes(0, in_force, ())
        held = {} if seen.state is None else seen.state.held
        edges = []
        for edge, route in seen.routes.edges.items():
            order = held.get(f"edge {edge}")
            words = order.describe() if order is not None and order.holds(seen.at) else None
            edges.append(EdgeRoute(edge, route.pool, route.shares, words))
        return Routes(seen.routes.version, in_force, tuple(edges))

    def heat(self, name: str, level: Level) -> HeatMap:
        """The main features of its workers, or of their machines."""
        return heat_map(self.seen(name), level)

    def joins(self, name: str) -> tuple[JoinDetail, ...]:
        """Its joins."""
        return joins(self.seen(name))

    def advice(self, name: str) -> tuple[Advice, ...]:
        """What a person could change in it, that which saves most first."""
        seen = self.seen(name)
        control = None if seen.state is None else seen.state.control
        return () if control is None else control.advice

    def what_if(self, name: str, question: Question) -> Answer:
        """What another rate, latency or budget would need."""
        return answer(self.sources.worlds(name), question)


def _since(seen: Seen, seconds: float) -> float:
    """The start of the last seconds: before now, or before the end of what was recorded."""
    end = seen.at if seen.running else seen.updated or seen.at
    return float(int(end - seconds))
