"""What a pipeline's store holds: its newest metrics and its decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from foretide.control.decisions.decision import Decision
from foretide.errors import DecisionNotFoundError, StoreError
from foretide.metrics.catalogue import CATALOGUE, at_level
from foretide.metrics.metric import Level
from foretide.status.running import find_running, running_store
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord


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
        StoreError: The store does not exist, or holds nothing of the pipeline.
    """
    if store is None:
        running = find_running(app, "--store")
        store, app = running_store(running), running.name
    with MetricStore.open(store, create=False) as opened:
        yield opened, _find_pipeline(opened, app)


def _find_pipeline(store: MetricStore, app: str | None) -> str:
    pipelines = store.pipelines()
    if app in pipelines:
        return app
    if app is None and len(pipelines) == 1:
        return pipelines[0]
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
    """The last decisions of a pipeline; DecisionNotFoundError if none was ever stored."""
    if not store.last_decision_id(pipeline):
        raise DecisionNotFoundError(pipeline)
    problems: list[str] = []
    found = store.decisions(pipeline, last=last, since=since, acted=acted, on_problem=problems.append)
    return PipelineDecisions(pipeline, tuple(found), tuple(problems))
