"""What a store keeps of a run, as series over time: for those who look back at a run, such as its report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedForecasts, RecordedSeries, RecordedWorld
from foretide.control.world.setup import Target
from foretide.errors import EmptyStoreError
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level
from foretide.metrics.steps import StepSample
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

LATENCIES = ("latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms")
"""The metrics of the query that a target can name."""

DUE, LAG, TAKEN = "arrival_rate", "lag", "input_rows_per_second"
FORECAST_SECONDS = 10.0
"""A report shows the forecasts made so long before, or at the horizon nearest to it."""

FORECAST_LEVEL = 0.9

_QUERY = (*LATENCIES, "input_rows", TAKEN, "batch_duration_ms", "total_lag")
_OPERATOR = (DUE, LAG, "utilization", "capacity", "service_time_ms", "join_imbalance")
_WORKER = (
    "worker_slowness",
    "worker_tuple_execution_time_ms",
    "worker_cpu_user_percent",
    "worker_cpu_system_percent",
    "worker_cpu_wait_percent",
)
_GONE_AFTER_SECONDS = 60.0
_SAMPLE_SECONDS = 15.0
"""A worker whose samples begin or end so close to a run was there from its beginning, or to its end."""

Points = tuple[tuple[float, float], ...]
"""Pairs of time, in seconds since 1970, and value, in the order of time."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The load that was expected for a moment.

    Attributes:
        at: The moment.
        made: When it was forecast.
        high: The value that the load stays below with probability `FORECAST_LEVEL`; None if the model gives none.
    """

    at: float
    made: float
    mean: float
    high: float | None
    by: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it was recorded.

    Attributes:
        began: When the first batch was measured, and when the last one was: `ended`.
        query: Series of the query by metric; `latency_...` in milliseconds.
        operators: Series of each operator by metric.
        workers: Series of each worker by metric.
        load: Tuples that fell due a second at all spouts; those that were taken where that is not known.
        forecasts: What was forecast of the load.
        setups: How the query was set up, and what was in force, from a time on; none without a control loop.
        problems: What could not be read, in sentences.
    """

    name: str
    began: float
    ended: float
    query: Mapping[str, Points]
    operators: Mapping[str, Mapping[str, Points]] = field(default_factory=dict)
    workers: Mapping[str, Mapping[str, Points]] = field(default_factory=dict)
    load: Points = ()
    forecasts: tuple[Forecast, ...] = ()
    setups: tuple[RecordedWorld, ...] = ()
    decisions: tuple[Decision, ...] = ()
    alarms: tuple[AlarmRecord, ...] = ()
    rows: int = 0
    batches: int = 0
    problems: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.ended - self.began

    def target_at(self, at: float) -> Target:
        """The target at a time."""
        setup = self.setup_at(at)
        return Target() if setup is None else setup.target

    def setup_at(self, at: float) -> RecordedWorld | None:
        """How it was set up at a time; before the first record as in that."""
        before = [setup for setup in self.setups if setup.at <= at]
        return before[-1] if before else next(iter(self.setups), None)

    def in_service(self) -> dict[str, tuple[Interval, ...]]:
        """When each worker was there: as the control loop saw it, or else while samples of it came."""
        if any(setup.observed.executors for setup in self.setups):
            return self._intervals(lambda setup: setup.observed.executors)
        return {name: tuple(_stretches(series, self.began, self.ended)) for name, series in self.workers.items()}

    def taken_out(self) -> dict[str, tuple[Interval, ...]]:
        """When each worker was there and got no tasks."""
        return self._intervals(lambda setup: setup.observed.quarantined & setup.observed.executors.keys())

    def _intervals(self, names_in: Callable[[RecordedWorld], Iterable[str]]) -> dict[str, tuple[Interval, ...]]:
        found: dict[str, list[Interval]] = {}
        starts = [self.began, *(max(setup.at, self.began) for setup in self.setups[1:]), self.ended]
        for setup, (start, end) in zip(self.setups, pairwise(starts), strict=False):
            for name in names_in(setup) if end > start else ():
                own = found.setdefault(name, [])
                begin = own.pop()[0] if own and own[-1][1] == start else start
                own.append((begin, end))
        return {name: tuple(each) for name, each in sorted(found.items())}


def _stretches(series: Mapping[str, Points], began: float, ended: float) -> Iterator[Interval]:
    """The times within a run in which samples came, without pauses of more than a minute."""
    times = sorted({at for points in series.values() for at, _ in points if began <= at <= ended})
    if not times:
        return
    times = [began, *times] if times[0] - began <= _SAMPLE_SECONDS else times
    times = [*times, ended] if ended - times[-1] <= _SAMPLE_SECONDS else times
    begin = times[0]
    for at, following in pairwise(times):
        if following - at > _GONE_AFTER_SECONDS:
            yield begin, at
            begin = following
    yield begin, times[-1]


def read_run(store: MetricStore, pipeline: str, *, since: float | None = None) -> RunRecord:
    """What is kept of a pipeline, or what is kept from a time on.

    Raises:
        EmptyStoreError: No batch of it was measured in that time.
    """
    problems: list[str] = []
    samples = store.read_steps(pipeline, metrics=[*_QUERY, *_OPERATOR, *_WORKER], since=since)
    batches = [each for each in samples if each.metric == "input_rows" and each.subject == pipeline]
    if not batches:
        raise EmptyStoreError(f"no batch of '{pipeline}' was measured{'' if since is None else ' in that time'}")
    durations = [each for each in samples if each.metric == "batch_duration_ms" and each.subject == pipeline]
    began = batches[0].at - (durations[0].value / 1000.0 if durations else 0.0)
    ended = batches[-1].at
    query, operators, workers = (_of_level(samples, level) for level in (Level.QUERY, Level.OPERATOR, Level.WORKER))
    own = query.get(pipeline, {})
    setups = store.setups(pipeline, on_problem=problems.append)
    spouts = {name for setup in setups for name in setup.setup.spouts}
    spouts = spouts or {name for name, series in operators.items() if LAG in series}
    forecasts = store.forecasts(pipeline, since=began, until=ended, on_problem=problems.append)
    return RunRecord(
        pipeline,
        began,
        ended,
        own,
        operators,
        workers,
        sum_of([operators[name].get(DUE, ()) for name in sorted(spouts & operators.keys())]) or own.get(TAKEN, ()),
        tuple(each for recorded in forecasts for each in _forecast(recorded, spouts)),
        tuple(_within(setups, began, ended)),
        tuple(store.decisions(pipeline, since=began, on_problem=problems.append)),
        tuple(store.alarms(pipeline, since=began)),
        round(sum(each.mean * each.count for each in batches)),
        sum(each.count for each in batches),
        tuple(problems),
    )


def _of_level(samples: Iterable[StepSample], level: Level) -> dict[str, dict[str, Points]]:
    """The series of a level by subject and metric; of an older step, the mean."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in samples:
        if CATALOGUE[each.metric].level is level:
            found.setdefault(each.subject, {}).setdefault(each.metric, []).append((each.at, each.mean))
    return {subject: {metric: tuple(points) for metric, points in series.items()} for subject, series in found.items()}


def sum_of(series: Iterable[Points]) -> Points:
    """The sum of series at each time at which all of them have a value.

    >>> sum_of([((1.0, 5.0), (2.0, 6.0)), ((1.0, 1.0), (3.0, 1.0))])
    ((1.0, 6.0),)
    """
    values = [dict(points) for points in series]
    common = set.intersection(*(set(each) for each in values)) if values else set()
    return tuple((at, sum(each[at] for each in values)) for at in sorted(common))


def _within(setups: list[RecordedWorld], began: float, ended: float) -> Iterator[RecordedWorld]:
    """The setups of the run: the last one before it began, and those until it ended."""
    for place, setup in enumerate(setups, 1):
        if setup.at <= ended and (place == len(setups) or setups[place].at > began):
            yield setup


def _forecast(recorded: RecordedForecasts, spouts: Collection[str]) -> Iterator[Forecast]:
    """What was forecast at one time of the load of all spouts together; nothing without a forecast for each."""
    own = [each for each in recorded.series if each.metric == DUE and each.subject in spouts]
    if not own:
        return
    places = [_place(each) for each in own]
    ahead = min(each.seconds[place] for each, place in zip(own, places, strict=True))
    mean = sum(each.means[place] for each, place in zip(own, places, strict=True))
    levels = [each.quantiles.get(FORECAST_LEVEL) for each in own]
    highs = [level[place] for level, place in zip(levels, places, strict=True) if level is not None]
    high = sum(highs) if len(highs) == len(own) else None
    by = ", ".join(dict.fromkeys(each.by for each in own))
    yield Forecast(recorded.at + ahead, recorded.at, mean, high, by)


def _place(series: RecordedSeries) -> int:
    """The place of the horizon that is nearest to the one that is shown."""
    return min(range(len(series.seconds)), key=lambda place: abs(series.seconds[place] - FORECAST_SECONDS))
