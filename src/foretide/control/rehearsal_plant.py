"""A micro-batch query that exists in numbers only: it runs batches, takes actions, and shows what monitoring would.

A batch takes what is due, pays its fixed cost and one for each task of every pool, and goes through the operators one
after another. The tasks of a stage go to the cores in service, the next one to the first that is free; the stage ends
with its slowest task. Which core is first rotates from batch to batch, as Spark's placement is none that can be known.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from foretide.control.actions.registry import (
    Action,
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetAdmission,
    SetExecutors,
    SetReplicas,
    SetSplit,
)
from foretide.control.rehearsal_rig import Load, Rig
from foretide.control.world.observed import Observed, shares
from foretide.metrics.snapshot import Key, Snapshot


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One batch: when it ran, what it took, and how long each operator's stage and slowest task were at work."""

    number: int
    started: float
    committed: float
    rows: float
    left: float
    oldest: float
    newest: float
    replicas: int
    executors: int
    busy: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    @property
    def latencies(self) -> tuple[float, float]:
        """Seconds from due to commit of the newest and of the oldest row."""
        return self.committed - self.newest, self.committed - self.oldest


@dataclass(frozen=True, slots=True)
class _Layout:
    slots: list[str]
    serving: frozenset[str]
    parts: dict[str, list[float]]
    even: dict[str, bool]


class Plant:
    """The query while it runs. The only thing in a rehearsal that changes."""

    def __init__(self, rig: Rig, load: Load) -> None:
        self.rig, self.load = rig, load
        self.now, self.taken, self.batches = 0.0, 0.0, 0
        self.last: BatchRun | None = None
        self.previous_commit = 0.0
        self._weights = {name: _even(rig.replicas.get(name, rig.pools[name]), rig.pools[name]) for name in rig.steered}
        self._version = 0
        self._named = rig.executors
        self._workers = {str(i): f"host{i % rig.hosts}" for i in range(rig.executors)}
        self._quarantined: set[str] = set()
        self._admission: dict[str, int | None] = {}
        self._later: list[tuple[float, Action]] = []
        self._started = 0.0
        self._worked: dict[str, list[float]] = {}
        self._evenly = 0.0
        self._layout: _Layout | None = None
        self._figures: dict[Key, tuple[float, float]] = {}
        self._overhead = rig.costs.fixed_cost + rig.costs.task_cost * sum(rig.pools.values())

    # ---- running

    def run(self) -> BatchRun | None:
        """Run the next batch; None when the load has ended."""
        start = self._next_start()
        if start >= self.load.seconds:
            return None
        self._arrive(start)
        due = self.load.due(start)
        limit = min((rows for rows in self._admission.values() if rows is not None), default=math.inf)
        rows = min(due - self.taken, limit)
        busy, longest = {}, {}
        seconds = self._overhead
        for place, name in enumerate(self.rig.network.names):
            work = rows * self.rig.work[name]
            busy[name] = work
            longest[name], stage = self._stage(name, work, start, place)
            seconds += stage
        committed = start + seconds
        taken = min(self.taken + rows, due)  # sums of floats may go past what was due
        oldest, newest = self.load.after(self.taken), self.load.when(taken)
        self.taken = taken
        self.batches += 1
        self.previous_commit, self.now = self.now, committed
        replicas = sum(self._active(name) for name in self.rig.steered)
        self.last = BatchRun(
            self.batches, start, committed, rows, due - self.taken, oldest, newest, replicas, len(self._workers),
            busy, longest,
        )  # fmt: skip
        return self.last

    def _next_start(self) -> float:
        """When there is something to do: after the last batch, after the trigger, and not before a row is due."""
        earliest = self.now
        if self.last is not None:
            earliest = max(earliest, self.last.started + self.rig.costs.trigger)
        if self.load.due(earliest) - self.taken >= 1:
            return earliest
        if self.taken + 1 > self.load.rows:
            return math.inf
        return max(earliest, self.load.when(self.taken + 1) + 1e-6)

    def _stage(self, name: str, work: float, at: float, place: int) -> tuple[float, float]:
        """Seconds of the slowest task, and of the whole stage."""
        layout = self._laid_out()
        slots, parts = layout.slots, layout.parts[name]
        factors = {hog.worker: hog.factor for hog in self.rig.hogs if hog.start <= at < hog.end}
        if layout.even[name] and not factors.keys() & layout.serving:
            each = work / len(parts)
            self._evenly += work / len(slots)
            return each, each * math.ceil(len(parts) / len(slots))
        turn = (self.batches * 7 + place * 3) % len(slots)
        order = slots[turn:] + slots[:turn]
        free = [(0.0, index) for index in range(len(order))]
        total, slowest = sum(parts), 0.0
        for part in parts:
            began, index = heapq.heappop(free)
            takes = work * part / total * factors.get(order[index], 1.0)
            done = self._worked.setdefault(order[index], [0.0, 0.0])
            done[0] += work * part / total
            done[1] += takes
            slowest = max(slowest, takes)
            heapq.heappush(free, (began + takes, index))
        return slowest, max(end for end, _ in free)

    def _laid_out(self) -> _Layout:
        """Which cores serve and how stages are split: the same until something is changed."""
        if self._layout is None:
            serving = [worker for worker in self._workers if worker not in self._quarantined] or list(self._workers)
            slots = [worker for worker in serving for _ in range(self.rig.cores_per_executor)]
            parts = {
                name: [weight for weight in self._weights.get(name, (1.0,) * self.rig.pools[name]) if weight > 0]
                for name in self.rig.network.names
            }
            even = {name: min(each) == max(each) for name, each in parts.items()}
            self._layout = _Layout(slots, frozenset(serving), parts, even)
        return self._layout

    def _active(self, name: str) -> int:
        return len(self._laid_out().parts[name])

    # ---- acting

    def perform(self, action: Action) -> None:
        """Do what can be done at once; let the rest happen later."""
        self._layout = None
        match action:
            case SetSplit(edge, weights):
                self._weights[edge] = shares(weights)
                self._version += 1
            case SetReplicas(edge, replicas):
                self._weights[edge] = _even(replicas, self.rig.pools[edge])
                self._version += 1
            case Quarantine(worker):
                self._quarantined.add(worker)
            case Release(worker):
                self._quarantined.discard(worker)
            case QuarantineHost(host):
                self._quarantined |= self._on(host)
            case ReleaseHost(host):
                self._quarantined -= self._on(host)
            case SetAdmission(spout, rows):
                self._admission[spout] = rows
            case SetExecutors():
                self._later.append((self.now + self.rig.executor_delay, action))
            case Restart():
                self.now += self.rig.restart_seconds
                self._started = self.now

    def _on(self, host: str) -> set[str]:
        return {worker for worker, where in self._workers.items() if where == host}

    def _arrive(self, at: float) -> None:
        """Executors that were asked for come, those given back go: the newest first."""
        for due, action in [each for each in self._later if each[0] <= at]:
            self._later.remove((due, action))
            self._layout = None
            while isinstance(action, SetExecutors) and len(self._workers) < action.count:
                self._workers[str(self._named)] = f"host{self._named % self.rig.hosts}"
                self._named += 1
            while isinstance(action, SetExecutors) and len(self._workers) > action.count:
                gone = next(reversed(self._workers))
                del self._workers[gone]
                self._quarantined.discard(gone)

    def observed(self) -> Observed:
        """What is in force from the next batch on."""
        return Observed(
            routes=dict(self._weights),
            route_version=self._version,
            executors=dict(self._workers),
            quarantined=frozenset(self._quarantined),
            admission=dict(self._admission),
            pools={name: self.rig.pools[name] for name in self.rig.steered},
            started=self._started,
        )

    # ---- showing

    def snapshot(self) -> Snapshot:
        """What monitoring would show after the last batch."""
        if self.last is not None:
            self._figures.update({key: (value, self.now) for key, value in self._measured(self.last)})
        self._worked, self._evenly = {}, 0.0
        return Snapshot(self.now, self.rig.name, dict(self._figures))

    def _measured(self, run: BatchRun) -> Iterator[tuple[Key, float]]:
        query = self.rig.name
        interval = max(run.committed - self.previous_commit, 1e-9)
        length, (low, high) = run.committed - run.started, run.latencies
        yield ("batch", query), float(run.number)
        yield ("input_rows", query), run.rows
        yield ("input_rows_per_second", query), run.rows / interval
        yield ("processed_rows_per_second", query), run.rows / length
        yield ("batch_duration_ms", query), length * 1000
        yield ("latency_mean_ms", query), (low + high) / 2 * 1000
        for quantile in (50, 95, 99):
            yield (f"latency_p{quantile}_ms", query), (low + (high - low) * quantile / 100) * 1000
        yield ("total_lag", query), run.left
        yield from self._of_operators(run, interval)
        mean = sum(1 / part.service_rate for part in self.rig.network.operators) / len(self.rig.network.operators)
        for worker in self._laid_out().serving:
            work, took = (each + self._evenly for each in self._worked.get(worker, (0.0, 0.0)))
            if work > 0:
                yield ("worker_tuple_execution_time_ms", worker), mean * took / work * 1000

    def _of_operators(self, run: BatchRun, interval: float) -> Iterator[tuple[Key, float]]:
        visits, entering = self.rig.visits, self.rig.network.external_rate
        arrived = self.load.mean(self.previous_commit, self.previous_commit + interval)
        for part in self.rig.network.operators:
            name = part.name
            share = self.rig.network.external.get(name, 0.0) / entering
            spout = name in self.rig.spouts
            active = self.rig.pools[name] if spout else self._active(name)
            yield ("arrival_rate", name), arrived * share if spout else run.rows * visits[name] / interval
            if spout:
                yield ("lag", name), run.left * share
            yield ("service_time_ms", name), 1000 / part.service_rate
            yield ("processed", name), run.rows * visits[name]
            yield ("utilization", name), run.busy[name] / (interval * active)
            yield ("capacity", name), run.longest[name] / interval
        for flow in self.rig.network.flows:
            yield ("flow_fraction", f"{flow.source}->{flow.target}"), flow.gain


def _even(replicas: int, pool: int) -> tuple[float, ...]:
    return (1.0,) * replicas + (0.0,) * (pool - replicas)
