"""A simulated micro-batch query under control: it runs batches, takes actions, and shows what monitoring would.

Batches, stages and cores are those of `foretide.simulation.batches`. Here are the executors that bring the cores, the
actions, and the metrics.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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
from foretide.control.simulation.scenario import ControlScenario, SlowExecutor
from foretide.control.world.setup import Observed, shares
from foretide.metrics.from_batch import SLOWNESS, relative_times
from foretide.metrics.snapshot import Key, Snapshot
from foretide.simulation.batches import BatchRun, Cores, FluidRows, MicroBatches, RowLoad, RowSource
from foretide.simulation.results import Records
from foretide.simulation.routes import RouteChange
from foretide.simulation.rows import RandomRows
from foretide.simulation.scenario import Scenario
from foretide.simulation.variation import RateCurve
from foretide.simulation.workers import SharedStation, Slowdown, UnevenStation, WorkerTimeline


@dataclass(frozen=True, slots=True)
class SimulatedBatch:
    """A batch, and the replicas and executors that it ran with."""

    number: int
    run: BatchRun
    replicas: int
    executors: int

    @property
    def rows(self) -> float:
        """Rows taken in."""
        return self.run.intake.rows

    @property
    def seconds(self) -> float:
        """Seconds from start to commit."""
        return self.run.commit - self.run.start

    @property
    def latencies(self) -> tuple[float, float]:
        """Seconds from due to commit of the newest and of the oldest row."""
        return self.run.commit - self.run.intake.newest, self.run.commit - self.run.intake.oldest


class SimulatedQuery:
    """A query while it runs. With `rng`, rows are simulated one by one; without, they are amounts, nothing random."""

    def __init__(self, scenario: ControlScenario, load: RowLoad, rng: np.random.Generator | None = None) -> None:
        self.scenario, self.load = scenario, load
        self._weights = {
            name: _first(scenario.replicas.get(name, scenario.pools[name]), scenario.pools[name])
            for name in scenario.network.names
        }
        self._executors = {str(i): f"host{i % scenario.hosts}" for i in range(scenario.executors)}
        self._started_executors = scenario.executors
        self._quarantined: set[str] = set()
        self._admission: dict[str, int | None] = {}
        self._requested: list[tuple[float, int]] = []
        self._route_version = 0
        self._restart_order: str | None = None
        self._last: SimulatedBatch | None = None
        self._previous_commit = 0.0
        self._speeds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._figures: dict[Key, tuple[float, float]] = {}
        self._rows: RowSource[Any] = (
            FluidRows(scenario.network, load, scenario.costs, self._weights)
            if rng is None
            else _random_rows(scenario, load, self._weights, rng)
        )
        self._slow = {
            name: WorkerTimeline([Slowdown(0, each.start, each.end, 1 / each.factor) for each in events], ())
            for name, events in _by_executor(scenario.slow_executors).items()
        }
        self._cores: dict[int, list[str]] = {}
        self._stations: dict[int, Cores] = {}
        self._batches: MicroBatches[Any] = MicroBatches(
            scenario.network, scenario.pools, scenario.costs, self._rows, self._stations
        )

    @property
    def now(self) -> float:
        """When the last batch committed, or the last restart ended."""
        return self._batches.now

    def run(self) -> SimulatedBatch | None:
        """Run the next batch; None when the load has ended."""
        start = self._batches.next_start()
        if start >= self.load.seconds:
            return None
        self._change_executors(start)
        self._place_cores()
        self._previous_commit = self.now
        run = self._batches.run()
        if run is None:
            return None
        self._measure_cores(run)
        number = 1 if self._last is None else self._last.number + 1
        replicas = sum(self._active(name) for name in self.scenario.bolts)
        self._last = SimulatedBatch(number, run, replicas, len(self._executors))
        return self._last

    def _active(self, name: str) -> int:
        return sum(weight > 0 for weight in self._weights[name])

    # ---- executors and their cores

    @property
    def _serving(self) -> list[str]:
        return [name for name in self._executors if name not in self._quarantined] or list(self._executors)

    def _place_cores(self) -> None:
        """Give each stage the cores of the executors in service.

        Which core is first rotates from batch to batch and from stage to stage, as Spark's placement cannot be known.
        """
        cores = [name for name in self._serving for _ in range(self.scenario.cores_per_executor)]
        done = 0 if self._last is None else self._last.number
        for index in range(len(self.scenario.network.names)):
            first = (done * 7 + index * 3) % len(cores)
            self._cores[index] = cores[first:] + cores[:first]
            changes = {core: self._slow[name] for core, name in enumerate(self._cores[index]) if name in self._slow}
            self._stations[index] = UnevenStation(len(cores), changes) if changes else SharedStation(len(cores))

    def _change_executors(self, at: float) -> None:
        """Let requested executors come, and those no longer wanted go, the newest first."""
        due = [count for when, count in self._requested if when <= at]
        self._requested = [each for each in self._requested if each[0] > at]
        for count in due:
            while len(self._executors) < count:
                self._executors[str(self._started_executors)] = f"host{self._started_executors % self.scenario.hosts}"
                self._started_executors += 1
            while len(self._executors) > count:
                self._quarantined.discard(self._executors.popitem()[0])

    def _measure_cores(self, run: BatchRun) -> None:
        """Add up how much work each executor did, and how long it took."""
        for index, stage in run.stages.items():
            if stage.cores is None:
                for executor in self._serving:
                    self._add_speed(executor, 1.0, 1.0)
            else:
                columns = (stage.cores, stage.work, stage.ends - stage.starts)
                for core, work, took in zip(*(column.tolist() for column in columns), strict=True):
                    self._add_speed(self._cores[index][core], work, took)

    def _tasks(self, run: BatchRun) -> Iterator[tuple[str, str, float, float]]:
        """The tasks of a batch with work: executor, operator, how long it took (ms), and how much work it was."""
        for index, stage in run.stages.items():
            name = self.scenario.network.names[index]
            if stage.cores is None:
                done = float(stage.work.sum()) / len(self._serving)
                yield from ((executor, name, 1000 * done, done) for executor in self._serving if done > 0)
                continue
            columns = (stage.cores, stage.work, stage.ends - stage.starts)
            for core, work, took in zip(*(column.tolist() for column in columns), strict=True):
                if work > 0:
                    yield self._cores[index][core], name, 1000 * took, work

    def _add_speed(self, executor: str, work: float, took: float) -> None:
        self._speeds[executor][0] += work
        self._speeds[executor][1] += took

    # ---- actions

    def perform(self, action: Action) -> None:
        """Take an action: it is in force from the next batch on, or, for executors, after their delay."""
        match action:
            case SetSplit(edge, weights):
                self._route(edge, shares(weights))
            case SetReplicas(edge, replicas):
                self._route(edge, _first(replicas, self.scenario.pools[edge]))
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
                limits = [limit for limit in self._admission.values() if limit is not None]
                self._batches.limit = min(limits, default=math.inf)
            case SetExecutors():
                self._requested.append((self.now + self.scenario.executor_delay, action.count))
            case Restart():
                self._batches.now += self.scenario.restart_seconds
                self._restart_order = action.order

    def _route(self, edge: str, weights: Sequence[float]) -> None:
        self._weights[edge] = tuple(weights)
        self._rows.route(self.scenario.network.index[edge], weights)
        self._route_version += 1

    def _on(self, host: str) -> set[str]:
        return {name for name, where in self._executors.items() if where == host}

    def observed(self) -> Observed:
        """What is in force from the next batch on."""
        return Observed(
            routes={name: self._weights[name] for name in self.scenario.bolts},
            route_version=self._route_version,
            executors=dict(self._executors),
            quarantined=frozenset(self._quarantined),
            admission=dict(self._admission),
            pools={name: self.scenario.pools[name] for name in self.scenario.bolts},
            restart_order=self._restart_order,
        )

    # ---- metrics

    def snapshot(self) -> Snapshot:
        """What monitoring would show after the last batch."""
        if self._last is not None:
            self._figures.update({key: (value, self.now) for key, value in self._measured(self._last)})
        self._speeds.clear()
        return Snapshot(self.now, self.scenario.name, dict(self._figures))

    def _measured(self, batch: SimulatedBatch) -> Iterator[tuple[Key, float]]:
        query, network = self.scenario.name, self.scenario.network
        interval = max(batch.run.commit - self._previous_commit, 1e-9)
        low, high = batch.latencies
        yield ("batch", query), float(batch.number)
        yield ("input_rows", query), batch.rows
        yield ("input_rows_per_second", query), batch.rows / interval
        yield ("processed_rows_per_second", query), batch.rows / batch.seconds
        yield ("batch_duration_ms", query), batch.seconds * 1000
        yield ("latency_mean_ms", query), (low + high) / 2 * 1000
        for quantile in (50, 95, 99):
            yield (f"latency_p{quantile}_ms", query), (low + (high - low) * quantile / 100) * 1000
        yield ("total_lag", query), batch.run.intake.lag
        for name in network.names:
            yield from self._of_operator(name, batch, interval)
        for flow in network.flows:
            yield ("flow_fraction", f"{flow.source}->{flow.target}"), flow.gain
        mean = sum(1 / operator.service_rate for operator in network.operators) / len(network.operators)
        for executor in self._serving:
            work, took = self._speeds.get(executor, (0.0, 0.0))
            if work > 0:
                yield ("worker_tuple_execution_time_ms", executor), mean * took / work * 1000
        for executor, slowness in relative_times(list(self._tasks(batch.run))).items():
            yield (SLOWNESS, executor), slowness

    def _of_operator(self, name: str, batch: SimulatedBatch, interval: float) -> Iterator[tuple[Key, float]]:
        tuples = batch.rows * self.scenario.visits[name]
        share = self.scenario.spout_shares.get(name)
        if share is None:
            yield ("arrival_rate", name), tuples / interval
        else:
            arrived = self.load.mean(self._previous_commit, self._previous_commit + interval)
            yield ("arrival_rate", name), arrived * share
            yield ("lag", name), batch.run.intake.lag * share
        stage = batch.run.stages[self.scenario.network.index[name]]
        active = self._active(name) if share is None else self.scenario.pools[name]
        yield ("service_time_ms", name), 1000 / self.scenario.network.operator(name).service_rate
        yield ("processed", name), tuples
        yield ("active_tasks", name), float(min(active, len(stage.work)))
        yield ("utilization", name), float(stage.work.sum()) / (interval * active)
        yield ("capacity", name), float((stage.ends - stage.starts).max(initial=0.0)) / interval


def _first(replicas: int, pool: int) -> tuple[float, ...]:
    return (1.0,) * replicas + (0.0,) * (pool - replicas)


def _by_executor(slow: Sequence[SlowExecutor]) -> dict[str, list[SlowExecutor]]:
    return {name: [each for each in slow if each.executor == name] for name in {each.executor for each in slow}}


def _random_rows(
    scenario: ControlScenario, load: RowLoad, weights: Mapping[str, Sequence[float]], rng: np.random.Generator
) -> RandomRows:
    since = tuple(load.step * index for index in range(len(load.rates)))
    whole = Scenario(
        scenario.network,
        scenario.pools,
        load.seconds,
        curves={
            name: RateCurve(since, tuple(rate * share for rate in load.rates))
            for name, share in scenario.spout_shares.items()
        },
        routes={name: (RouteChange(tuple(each), spread="even"),) for name, each in weights.items()},
        batching=replace(scenario.costs, cores=scenario.executors * scenario.cores_per_executor),
    )
    return RandomRows(whole, rng, Records.of(whole))
