"""Recordings decided again: what was recorded of a query, the worlds in it, and what policies would have decided.

What was in force is read from samples as far as they show it: the rows of each task show a route, samples of a worker
show that it was alive. The rest is as it was recorded, or else the default: all tasks of a pool are active.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import Decision
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target, Weights
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, World
from foretide.joins.plan import JoinView
from foretide.metrics.catalogue import at_level
from foretide.metrics.metric import Level, Sample
from foretide.metrics.snapshot import Key, Smoother, Snapshot, freeze

BATCH = "batch"
"""The metric whose sample ends a batch."""

_GONE_AFTER_SECONDS = 60.0
"""Without a sample for so long, a worker counts as gone."""

_OLD_FORECASTS_SECONDS = 120.0
"""Older forecasts are not used."""

_SECONDS_PER_SERIES = 0.5
"""Seconds from one record of forecasts to the next, for each series in it."""

_RECORDED_LEVELS = (0.1, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Levels of quantiles that are recorded: those that policies ask for, and the lower end of an interval of 80 %."""

_WORKER_METRICS = frozenset(metric.name for metric in at_level(Level.WORKER))
Smoothing = Mapping[str, Callable[[], Smoother]]


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """How a query was set up, from a time on until the next such record.

    Attributes:
        observed: What is in force. Its routes hold for batches that read its route version.
        policies: The names of the policies that control it, in order of rank.
    """

    at: float
    setup: Setup
    target: Target = field(default_factory=Target)
    observed: Observed = field(default_factory=Observed)
    policies: tuple[str, ...] = ()
    joins: Mapping[str, JoinView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """The forecast of one series: its horizons in seconds, the mean at each, and quantiles by level."""

    metric: str
    subject: str
    by: str
    seconds: tuple[float, ...]
    means: tuple[float, ...]
    quantiles: Mapping[float, tuple[float, ...]] = field(default_factory=dict)

    def forecast(self, age: float) -> Forecast:
        """The forecast at the same horizons, counted from `age` seconds later."""
        means = _later(self.seconds, self.means, age)
        levels = {level: _later(self.seconds, values, age) for level, values in self.quantiles.items()}
        return Forecast(
            self.by,
            tuple(
                ForecastPoint(seconds, means[place], {level: values[place] for level, values in levels.items()})
                for place, seconds in enumerate(self.seconds)
            ),
        )


def _later(seconds: Sequence[float], values: Sequence[float], age: float) -> list[float]:
    """Values at horizons counted from later on, on straight lines between those that are known."""
    found = []
    for ahead in (each + age for each in seconds):
        right = bisect_left(seconds, ahead)
        if right in (0, len(seconds)):
            found.append(values[min(right, len(seconds) - 1)])
            continue
        share = (ahead - seconds[right - 1]) / (seconds[right] - seconds[right - 1])
        found.append(values[right - 1] + share * (values[right] - values[right - 1]))
    return found


@dataclass(frozen=True, slots=True)
class RecordedForecasts:
    """All forecasts at one time, trusted or not."""

    at: float
    series: tuple[RecordedSeries, ...]

    @classmethod
    def of(cls, at: float, forecasts: Forecasts) -> RecordedForecasts:
        """Six digits of each value, and the levels of quantiles that policies ask for."""
        return cls(
            at,
            tuple(_recorded(*key, each) for key, each in sorted(forecasts.by_series.items(), key=lambda item: item[0])),
        )

    def forecasts(self, at: float) -> Forecasts:
        """The forecasts as they serve at a later time; none if they are too old for that."""
        age = max(at - self.at, 0.0)  # those of a cycle come just after the batch that they belong to
        if age > _OLD_FORECASTS_SECONDS:
            return Forecasts()
        return Forecasts({(each.metric, each.subject): each.forecast(age) for each in self.series})


def _recorded(metric: str, subject: str, forecast: Forecast) -> RecordedSeries:
    points = forecast.points
    levels = [level for level in _RECORDED_LEVELS if all(level in point.quantiles for point in points)]
    return RecordedSeries(
        metric,
        subject,
        forecast.by,
        tuple(point.seconds for point in points),
        tuple(_digits(point.mean) for point in points),
        {level: tuple(_digits(point.quantiles[level]) for point in points) for level in levels},
    )


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def forecast_period(series: int) -> float:
    """Seconds from one record of so many forecasts to the next: however many there are, they take as much space.

    >>> forecast_period(1), forecast_period(192)
    (0.5, 96.0)
    """
    return _SECONDS_PER_SERIES * series


def worlds(
    setups: Sequence[RecordedWorld],
    samples: Iterable[Sample],
    forecasts: Iterable[RecordedForecasts] = (),
    *,
    target: Target | None = None,
    smoothing: Smoothing | None = None,
) -> Iterator[World]:
    """A world for every batch of a recording.

    Args:
        setups: At least one, in order of time. Each holds until the next; the first also holds before its time.
        samples: All that was measured, in order of time.
        forecasts: What was forecast, in order of time.
        target: The latency to hold instead of the recorded one.
        smoothing: How to smooth metrics, by name, as the monitor did when it was live.
    """
    recording, records = _Recording(setups, smoothing or {}), _Forecasts(forecasts)
    ended: float | None = None
    last: World | None = None
    for sample in samples:
        if ended is not None and sample.at > ended:
            last, ended = recording.world(ended, target), None
        if sample.metric == BATCH:
            if last is not None:
                yield replace(last, forecasts=records.of_batch(last.at, sample.at))
            last, ended = None, sample.at
        recording.take(sample)
    last = recording.world(ended, target) if ended is not None else last
    if last is not None:
        yield replace(last, forecasts=records.of_batch(last.at, math.inf))


class _Forecasts:
    """The forecasts of a recording, batch by batch."""

    def __init__(self, records: Iterable[RecordedForecasts]) -> None:
        self._records = iter(records)
        self._next = next(self._records, None)
        self._last: RecordedForecasts | None = None

    def of_batch(self, ended: float, next_ended: float) -> Forecasts:
        """The forecasts of the cycle that followed a batch, or else the last ones before it."""
        while self._next is not None and self._next.at < next_ended:
            self._last, self._next = self._next, next(self._records, None)
        return Forecasts() if self._last is None else self._last.forecasts(ended)


class _Recording:
    """What is known so far."""

    def __init__(self, setups: Sequence[RecordedWorld], smoothing: Smoothing) -> None:
        self._setup, *later = setups
        self._later = list(reversed(later))
        self._smoothing = smoothing
        self._smoothers: dict[Key, Smoother] = {}
        self._figures: dict[Key, tuple[float, float]] = {}
        self._workers: dict[str, float] = {}
        self._tasks: dict[str, dict[int, tuple[float, float]]] = {}

    def take(self, sample: Sample) -> None:
        key = (sample.metric, sample.subject)
        self._figures[key] = (self._smoothed(key, sample.value), sample.at)
        if sample.metric in _WORKER_METRICS:
            self._workers[sample.subject] = sample.at
        elif sample.metric == "task_rows":
            operator, _, task = sample.subject.rpartition("/")
            if task.isdecimal():
                self._tasks.setdefault(operator, {})[int(task)] = (sample.value, sample.at)

    def _smoothed(self, key: Key, value: float) -> float:
        make = self._smoothing.get(key[0])
        if make is None:
            return value
        if key not in self._smoothers:
            self._smoothers[key] = make()
        return self._smoothers[key].add(value)

    def world(self, at: float, target: Target | None) -> World:
        while self._later and self._later[-1].at <= at:
            self._setup = self._later.pop()
        setup = self._setup.setup
        snapshot = Snapshot(at, setup.query, freeze(self._figures))
        observed, goal = self._observed(snapshot), target or self._setup.target
        return World(setup, snapshot, observed, target=goal, joins=self._setup.joins)

    def _observed(self, snapshot: Snapshot) -> Observed:
        known = self._setup.observed
        version = snapshot.value("route_version")
        recorded = known.routes if version is None or version == known.route_version else {}
        parts = self._setup.setup.by_edge
        routes = {edge: recorded.get(edge) or self._route(part) for edge, part in parts.items()}
        alive = [worker for worker, seen in self._workers.items() if seen >= snapshot.at - _GONE_AFTER_SECONDS]
        executors = {worker: known.executors.get(worker, worker) for worker in alive} if self._workers else None
        return replace(
            known,
            routes=routes,
            route_version=None if version is None else int(version),
            executors=known.executors if executors is None else executors,
            pools=known.pools or {edge: part.pool for edge, part in parts.items()},
        )

    def _route(self, part: OperatorSetup) -> Weights:
        """The rows that each task got in the last batch that had any; equal weights without one."""
        seen = self._tasks.get(part.name, {})
        last = max((at for rows, at in seen.values() if rows > 0), default=None)
        rows = {task: rows for task, (rows, at) in seen.items() if at == last}
        weights = tuple(rows.get(task, 0.0) for task in range(part.pool))
        return weights if any(weights) else (1.0,) * part.pool


@dataclass(frozen=True, slots=True)
class Advice:
    """A decision that was advised, how many times, and when last. It is repeated because nobody acts on it."""

    decision: Decision
    times: int
    last: float


def replay(control: Control, worlds: Iterable[World]) -> Iterator[Decision]:
    """A decision, marked as advice, for each world of a recording in order of time."""
    advising = replace(control, mode="advise")
    state = advising.start()
    for world in worlds:
        state, decision = step(advising, state, world)
        yield decision


def advice(decisions: Iterable[Decision]) -> list[Advice]:
    """The decisions that advise something new. One that repeats the last advice for its targets is counted there."""
    found: list[Advice] = []
    latest: dict[str, tuple[Action, int]] = {}
    for decision in (each for each in decisions if each.chosen):
        before = [latest.get(action.target) for action in decision.actions]
        if all(
            known is not None and known[0] == action for known, action in zip(before, decision.actions, strict=True)
        ):
            for index in {known[1] for known in before if known is not None}:
                found[index] = replace(found[index], times=found[index].times + 1, last=decision.at)
            continue
        latest |= {action.target: (action, len(found)) for action in decision.actions}
        found.append(Advice(decision, 1, decision.at))
    return found
