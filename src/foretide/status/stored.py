"""What a pipeline's store holds: its newest metrics, its decisions, and its history as a control loop would see it."""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from foretide.control.decisions.decision import Decision
from foretide.control.history import BATCH, RecordedForecasts, RecordedWorld, Smoothing, worlds
from foretide.control.world.world import World
from foretide.errors import EmptyStoreError, ReplayError, StoreError
from foretide.metrics.catalogue import CATALOGUE, at_level
from foretide.metrics.metric import Level, Sample
from foretide.metrics.steps import StepSample
from foretide.status.pipelines import find_running, running_store
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord, OnProblem

_LEAD_SECONDS = 60.0
"""Samples count from this long before the end of the first batch."""

_BATCHES_IN_MEMORY = 100

_SOON_SECONDS = 20.0
"""Workers and machines are read more often than this by default."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The newest value of a metric, `age` seconds old. Unit and level are None for a metric unknown to this release."""

    metric: str
    unit: str | None
    level: Level | None
    subject: str
    value: float
    at: float
    age: float


@dataclass(frozen=True, slots=True)
class PipelineMetrics:
    """The newest value of every metric, and the alarms, the newest last."""

    pipeline: str
    at: float
    figures: tuple[Figure, ...]
    alarms: tuple[AlarmRecord, ...]


@dataclass(frozen=True, slots=True)
class PipelineDecisions:
    """Decisions, the newest last, and why some could not be read."""

    pipeline: str
    decisions: tuple[Decision, ...]
    problems: tuple[str, ...]


@contextmanager
def open_store(app: str | None, store: str | None) -> Iterator[tuple[MetricStore, str]]:
    """The store given, or that of the running pipeline, and the name of the pipeline in it.

    Raises:
        PipelineNotFoundError: No store was given, and no such pipeline runs, or several do.
        StoreError: The store does not exist, or holds nothing of the pipeline; EmptyStoreError if it holds nothing.
    """
    if store is None:
        running = find_running(app, "--store")
        store, app = running_store(running), running.name
        with MetricStore.open(store, create=False) as opened:
            yield opened, app
        return
    with MetricStore.open(store, create=False) as opened:
        yield opened, _find_pipeline(opened, app)


def _find_pipeline(store: MetricStore, app: str | None) -> str:
    pipelines = store.pipelines()
    if app in pipelines:
        return app
    if app is None and len(pipelines) == 1:
        return pipelines[0]
    if app is None and not pipelines:
        raise EmptyStoreError("the store is empty: no pipeline has written to it yet")
    problem = "several pipelines share the store; choose one with --app" if app is None else f"no metrics of '{app}'"
    raise StoreError(f"{problem}; the store has: {', '.join(pipelines) or 'none'}")


def read_metrics(store: MetricStore, pipeline: str, now: float, level: Level | None = None) -> PipelineMetrics:
    """The newest metrics of a pipeline, of one level or of all."""
    names = None if level is None else [metric.name for metric in at_level(level)]
    figures = []
    for sample in store.latest(pipeline, names):
        metric = CATALOGUE.get(sample.metric)
        unit, kind = (metric.unit, metric.level) if metric else (None, None)
        age = max(0.0, now - sample.at)
        figures.append(Figure(sample.metric, unit, kind, sample.subject, sample.value, sample.at, age))
    return PipelineMetrics(pipeline, now, tuple(figures), tuple(store.alarms(pipeline)))


def read_decisions(
    store: MetricStore, pipeline: str, *, last: int, since: float | None = None, acted: bool = False
) -> PipelineDecisions:
    """The last decisions of a pipeline."""
    problems: list[str] = []
    found = store.decisions(pipeline, last=last, since=since, acted=acted, on_problem=problems.append)
    return PipelineDecisions(pipeline, tuple(found), tuple(problems))


def read_history(store: MetricStore, pipeline: str, metric: str, step: float) -> list[tuple[float, float]]:
    """A metric of the whole pipeline as pairs of time and value, at least one for each step that has any.

    An older sample stands for all since the one before it: their mean is given for each step between them.
    """
    history: list[tuple[float, float]] = []
    for sample in store.read_steps(pipeline, metrics=[metric], subjects=[pipeline]):
        since = history[-1][0] if history and sample.count > 1 else sample.at
        missing = int(min((sample.at - since) / step, sample.count))
        history += [(sample.at - back * step, sample.mean) for back in range(missing - 1, 0, -1)]
        history.append((sample.at, sample.mean))
    return history


log = logging.getLogger("foretide")


@dataclass(frozen=True)
class Recording:
    """What was recorded of a pipeline: its setups, and when its batches ended."""

    store: MetricStore
    pipeline: str
    setups: tuple[RecordedWorld, ...]
    ends: tuple[float, ...]
    on_problem: OnProblem = log.warning

    @classmethod
    def of(
        cls, store: MetricStore, pipeline: str, *, since: float | None = None, on_problem: OnProblem = log.warning
    ) -> Self:
        """All that is kept of a pipeline, or what is kept from a time on. A damaged setup is reported and left out.

        Raises:
            ReplayError: The store has no setup of it, or no batch.
        """
        setups = tuple(store.setups(pipeline, on_problem=on_problem))
        if not setups:
            raise ReplayError(
                f"the store has no setup of '{pipeline}'; its control loop writes one while it runs, acting or advising"
            )
        ends = tuple(each.at for each in store.read(pipeline, metrics=[BATCH], subjects=[pipeline], since=since))
        if not ends:
            raise ReplayError(f"no batch of '{pipeline}' was recorded{'' if since is None else ' in that time'}")
        return cls(store, pipeline, setups, ends, on_problem)

    def worlds(self, *, latency: float | None = None, smoothing: Smoothing | None = None) -> Iterator[World]:
        """A world for every batch. With `latency`, that is T_max in seconds instead of the recorded one."""
        target = None
        if latency is not None:
            recorded = self.setups[-1].target
            target = replace(recorded, latency=latency, relaxed=recorded.relaxed if recorded.relaxed < latency else 0.0)
        return worlds(self.setups, self._samples(), self._forecasts(), target=target, smoothing=smoothing)

    def _samples(self) -> Iterator[Sample]:
        """In order of time, some batches at once: a week of them may not fit into memory."""
        since = self.ends[0] - _LEAD_SECONDS
        for start in range(0, len(self.ends), _BATCHES_IN_MEMORY):
            until = math.nextafter(self.ends[start : start + _BATCHES_IN_MEMORY][-1], math.inf)
            for sample in self.store.read_steps(self.pipeline, since=since, until=until):
                yield Sample(sample.metric, sample.subject, self._time(sample), sample.value)
            since = until

    def _forecasts(self) -> Iterator[RecordedForecasts]:
        """In order of time, those of some batches at once."""
        since = self.ends[0] - _LEAD_SECONDS
        for start in range(0, len(self.ends), _BATCHES_IN_MEMORY):
            is_last = start + _BATCHES_IN_MEMORY >= len(self.ends)
            until = None if is_last else self.ends[start + _BATCHES_IN_MEMORY]
            yield from self.store.forecasts(self.pipeline, since=since, until=until, on_problem=self.on_problem)
            since = since if until is None else until

    def _time(self, sample: StepSample) -> float:
        """When a sample counts.

        Of an older step, the last batch and the last sample of each worker are kept. If that sample came just after the
        batch, it counts as part of it: otherwise the newest sample of the worker would be a step older.
        """
        place = bisect_right(self.ends, sample.at)
        if sample.count > 1 and place > 0 and sample.at - self.ends[place - 1] <= _SOON_SECONDS:
            return self.ends[place - 1]
        return sample.at
