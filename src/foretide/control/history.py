"""Recordings decided again: what was recorded of a query, the worlds in it, and what policies would have decided.

What was in force is read from samples as far as they show it: the rows of each task show a route, samples of a worker
show that it was alive. The rest is as it was recorded, or else the default: all tasks of a pool are active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import Decision
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target, Weights
from foretide.control.world.world import World
from foretide.joins.plan import JoinView
from foretide.metrics.catalogue import at_level
from foretide.metrics.metric import Level, Sample
from foretide.metrics.snapshot import Key, Smoother, Snapshot, freeze

BATCH = "batch"
"""The metric whose sample ends a batch."""

_GONE_AFTER_SECONDS = 60.0
"""Without a sample for so long, a worker counts as gone."""

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


def worlds(
    setups: Sequence[RecordedWorld],
    samples: Iterable[Sample],
    *,
    target: Target | None = None,
    smoothing: Smoothing | None = None,
) -> Iterator[World]:
    """A world for every batch of a recording.

    Args:
        setups: At least one, in order of time. Each holds until the next; the first also holds before its time.
        samples: All that was measured, in order of time.
        target: The latency to hold instead of the recorded one.
        smoothing: How to smooth metrics, by name, as the monitor did when it was live.
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
