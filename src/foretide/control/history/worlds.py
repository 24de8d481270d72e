"""Worlds out of recorded samples: the newest figure of everything at the end of each batch.

What was in force is read from figures where they tell: the rows of each task show a route, samples of a worker show
that it was alive. What they cannot tell is as it was recorded, and else as by default: all tasks of a pool at work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from foretide.control.history.recorded import RecordedWorld
from foretide.control.world.observed import Observed, Weights
from foretide.control.world.setup import OperatorSetup, Target
from foretide.control.world.world import World
from foretide.metrics.catalogue.registry import at_level
from foretide.metrics.metric import Level, Sample
from foretide.metrics.smoothing import Smoother
from foretide.metrics.snapshot import Key, Snapshot, freeze

BATCH = "batch"
ALIVE = 60.0
"""Seconds without a sample after which a worker counts as gone."""

Smoothing = Mapping[str, Callable[[], Smoother]]
_OF_WORKERS = frozenset(metric.name for metric in at_level(Level.WORKER))


def worlds(
    setups: Sequence[RecordedWorld],
    samples: Iterable[Sample],
    *,
    target: Target | None = None,
    smoothing: Smoothing | None = None,
) -> Iterator[World]:
    """A world for every batch of a recording.

    Args:
        setups: At least one, in order of time. Each holds until the next; the first also for what came before it.
        samples: All that was measured, in order of time.
        target: What is to be held, instead of what was.
        smoothing: How to smooth which metrics, by name: as the monitor did when it was live.
    """
    recording = _Recording(setups, smoothing or {})
    ended: float | None = None
    for sample in samples:
        if ended is not None and sample.at > ended:
            yield recording.world(ended, target)
            ended = None
        recording.take(sample)
        if sample.metric == BATCH:
            ended = sample.at
    if ended is not None:
        yield recording.world(ended, target)


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
        if sample.metric in _OF_WORKERS:
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
        alive = [worker for worker, seen in self._workers.items() if seen >= snapshot.at - ALIVE]
        executors = {worker: known.executors.get(worker, worker) for worker in alive} if self._workers else None
        return replace(
            known,
            routes=routes,
            route_version=None if version is None else int(version),
            executors=known.executors if executors is None else executors,
            pools=known.pools or {edge: part.pool for edge, part in parts.items()},
        )

    def _route(self, part: OperatorSetup) -> Weights:
        """The rows that each task got in the last batch that tells; all alike where none does."""
        seen = self._tasks.get(part.name, {})
        last = max((at for rows, at in seen.values() if rows > 0), default=None)
        rows = {task: rows for task, (rows, at) in seen.items() if at == last}
        weights = tuple(rows.get(task, 0.0) for task in range(part.pool))
        return weights if any(weights) else (1.0,) * part.pool
