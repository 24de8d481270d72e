"""The control loop on a simulated query in real time: all operators at once, a report each second.

Every task has a queue of its own and stays with its executor for a batch. A split is in force from the next tuple on;
executors go in and out of service at the next batch. Tuples are simulated one by one.

```python
report = simulate_pipeline(control, scenario, RowLoad(rates), rng=np.random.default_rng(1), target=Latency(p99="50 ms"))
report.latency(0.99, start=30), report.decisions
```
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from foretide.control.actions.registry import Action, Quarantine, Release, SetReplicas, SetSplit
from foretide.control.decisions.decision import Decision
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.step import Control, step
from foretide.control.world.setup import Observed, Target, shares
from foretide.control.world.world import Forecasts, World
from foretide.errors import ControlError
from foretide.graphs import in_order
from foretide.metrics.snapshot import Fading, Key, Snapshot
from foretide.queueing.network import Operator
from foretide.simulation.batches import RowLoad

Floats = NDArray[np.float64]
SECOND = 1.0
_SMOOTHED = frozenset({"service_time_ms", "service_scv", "arrival_scv", "flow_fraction"})


@dataclass(frozen=True)
class SimulatedSecond:
    """What one second showed: latencies of the tuples that left, in seconds, and the shares of tasks at its end."""

    at: float
    latencies: Floats
    shares: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class PipelineReport:
    """The result of a simulation under control; of the decisions, those with an action or a problem."""

    seconds: tuple[SimulatedSecond, ...]
    decisions: tuple[Decision, ...]

    def latencies(self, start: float = 0.0, end: float = math.inf) -> Floats:
        """Latencies of tuples that left within a time, in seconds."""
        return np.concatenate([np.zeros(0), *(each.latencies for each in self.seconds if start < each.at <= end)])

    def latency(self, quantile: float, start: float = 0.0, end: float = math.inf) -> float:
        """The latency that this share of the tuples kept."""
        return float(np.quantile(self.latencies(start, end), quantile))

    def mean_latency(self, start: float = 0.0, end: float = math.inf) -> float:
        """Their mean."""
        return float(self.latencies(start, end).mean())

    def chosen(self, kind: type[Action]) -> list[tuple[float, Action]]:
        """Actions of a kind, and when they were decided."""
        return [(each.at, action) for each in self.decisions for action in each.actions if isinstance(action, kind)]


class _Tasks:
    """The tasks of an operator: their queues, and what they do in a second."""

    def __init__(self, operator: Operator, weights: Sequence[float], rng: np.random.Generator) -> None:
        self.operator, self.rng = operator, rng
        self.weights = tuple(weights)
        self.free = [0.0] * len(weights)
        self.inbox: list[tuple[Floats, Floats]] = []
        self.arrived = np.zeros(0)
        self.running = np.zeros((4, 0))  # end, birth, task, work of tuples that have not left yet
        self.done = np.zeros((4, 0))

    def put(self, times: Floats, births: Floats) -> None:
        if len(times):
            self.inbox.append((times, births))

    def advance(self, end: float, slow: Callable[[int, float], float]) -> None:
        """Take in all that arrives before `end`; `done` are the tuples that leave before it."""
        times = np.concatenate([np.zeros(0), *(each for each, _ in self.inbox)])
        births = np.concatenate([np.zeros(0), *(each for _, each in self.inbox)])
        order = np.argsort(times, kind="stable")
        now = int(np.searchsorted(times[order], end))
        later = order[now:]
        self.inbox = [(times[later], births[later])]
        times, births = times[order[:now]], births[order[:now]]
        self.arrived = times
        tasks = self.rng.choice(len(self.weights), size=now, p=shares(self.weights))
        works = self._works(now)
        ends = np.zeros(now)
        for index, (time, task, work) in enumerate(zip(times.tolist(), tasks.tolist(), works.tolist(), strict=True)):
            start = max(time, self.free[task])
            works[index] = work * slow(task, start)
            ends[index] = self.free[task] = start + works[index]
        everything = np.concatenate([self.running, np.array([ends, births, tasks.astype(float), works])], axis=1)
        left = everything[0] < end
        self.done, self.running = everything[:, left], everything[:, ~left]

    def begin_again(self, now: float) -> None:
        """Put what has not left yet back into the queues."""
        self.put(np.full(self.running.shape[1], now), self.running[1])
        self.running = self.running[:, :0]
        self.free = [now] * len(self.free)

    def _works(self, count: int) -> Floats:
        mean, scv = 1 / self.operator.service_rate, self.operator.service_scv
        if scv == 0:
            return np.full(count, mean)
        return self.rng.gamma(1 / scv, mean * scv, count)

    def emitted(self, gain: float) -> tuple[Floats, Floats]:
        """Times and births of the tuples sent along a flow for those that are done."""
        each = math.floor(gain) + (self.rng.random(self.done.shape[1]) < gain % 1)
        return np.repeat(self.done[0], each), np.repeat(self.done[1], each)


class SimulatedPipeline:
    """A query in real time while it runs."""

    def __init__(self, scenario: ControlScenario, load: RowLoad, rng: np.random.Generator) -> None:
        if scenario.network.loops:
            raise ControlError("a pipeline with loops cannot be simulated under control")
        self.scenario, self.load, self.rng, self.now = scenario, load, rng, 0.0
        self._order = in_order(
            {
                name: [flow.source for flow in scenario.network.flows if flow.target == name]
                for name in scenario.network.names
            }
        )
        self._tasks = {
            name: _Tasks(scenario.network.operator(name), self._first(name, scenario.replicas.get(name)), rng)
            for name in self._order
        }
        self._executors = {str(i): f"host{i % scenario.hosts}" for i in range(scenario.executors)}
        self._quarantined: frozenset[str] = frozenset()
        self._asked: set[str] = set()
        self._places = self._placed()
        self._figures: dict[Key, tuple[float, float]] = {}
        self._smoothers: dict[Key, Fading] = {}

    def _first(self, name: str, replicas: int | None) -> tuple[float, ...]:
        pool = self.scenario.pools[name]
        active = pool if replicas is None else replicas
        return (1.0,) * active + (0.0,) * (pool - active)

    def _placed(self) -> dict[str, tuple[str, ...]]:
        serving = [name for name in self._executors if name not in self._quarantined]
        return {
            name: tuple(serving[(task + index) % len(serving)] for task in range(self.scenario.pools[name]))
            for index, name in enumerate(self._order)
        }

    def run(self) -> SimulatedSecond | None:
        """Run the next second; None when the load has ended."""
        start, end = self.now, self.now + SECOND
        if end > self.load.seconds:
            return None
        if start % self.scenario.batch_seconds == 0:
            self._begin_batch()
        for spout, share in self.scenario.spout_shares.items():
            due = self.rng.poisson(share * (self.load.due(end) - self.load.due(start)))
            times = np.sort(self.rng.uniform(start, end, due))
            self._tasks[spout].put(times, times)
        left = [np.zeros(0)]
        for name in self._order:
            tasks = self._tasks[name]
            tasks.advance(end, partial(self._slowness, self._places[name]))
            flows = [flow for flow in self.scenario.network.flows if flow.source == name]
            for flow in flows:
                self._tasks[flow.target].put(*tasks.emitted(flow.gain))
            if not flows:
                left.append(tasks.done[0] - tasks.done[1])
        self.now = end
        latencies = np.concatenate(left)
        for key, value in self._measured(latencies):
            self._figures[key] = (self._smoothed(key, value), end)
        return SimulatedSecond(
            end, latencies, {name: shares(self._tasks[name].weights) for name in self.scenario.bolts}
        )

    def _begin_batch(self) -> None:
        """Let executors go and come; what tasks have not done is done where they are now."""
        self._quarantined = frozenset(self._asked)
        places = self._placed()
        for name, tasks in self._tasks.items():
            if places[name] != self._places[name]:
                tasks.begin_again(self.now)
        self._places = places

    def _slowness(self, places: Sequence[str], task: int, at: float) -> float:
        factor = 1.0
        for slow in self.scenario.slow_executors:
            if slow.executor == places[task] and slow.start <= at < slow.end:
                factor *= slow.factor
        return factor

    def perform(self, action: Action) -> None:
        """Take an action: splits at once, executors at the next batch."""
        match action:
            case SetSplit(edge, weights):
                self._tasks[edge].weights = tuple(weights)
            case SetReplicas(edge, replicas):
                self._tasks[edge].weights = self._first(edge, replicas)
            case Quarantine(worker):
                self._asked.add(worker)
            case Release(worker):
                self._asked.discard(worker)
            case _:
                raise ControlError(f"a simulated pipeline cannot {action.describe()}")

    def observed(self) -> Observed:
        """What is in force."""
        return Observed(
            routes={name: self._tasks[name].weights for name in self.scenario.bolts},
            executors=dict(self._executors),
            quarantined=self._quarantined,
            placements={name: self._places[name] for name in self.scenario.bolts},
            pools={name: self.scenario.pools[name] for name in self.scenario.bolts},
        )

    # ---- metrics

    def snapshot(self) -> Snapshot:
        """What monitoring would show."""
        return Snapshot(self.now, self.scenario.name, dict(self._figures))

    def _smoothed(self, key: Key, value: float) -> float:
        return self._smoothers.setdefault(key, Fading()).add(value) if key[0] in _SMOOTHED else value

    def _measured(self, latencies: Floats) -> Iterator[tuple[Key, float]]:
        query = self.scenario.name
        yield ("batch", query), self.now
        rows = sum(len(self._tasks[spout].arrived) for spout in self.scenario.spouts)
        for metric in ("input_rows", "input_rows_per_second", "processed_rows_per_second"):
            yield (metric, query), float(rows)
        if len(latencies):
            yield ("latency_mean_ms", query), float(latencies.mean()) * 1000
            for level in (50, 95, 99):
                yield (f"latency_p{level}_ms", query), float(np.quantile(latencies, level / 100)) * 1000
        for name, tasks in self._tasks.items():
            yield from self._of_operator(name, tasks)
        for flow in self.scenario.network.flows:
            yield ("flow_fraction", f"{flow.source}->{flow.target}"), flow.gain

    def _of_operator(self, name: str, tasks: _Tasks) -> Iterator[tuple[Key, float]]:
        works, owners = tasks.done[3], tasks.done[2].astype(int)
        gaps = np.diff(tasks.arrived)
        yield ("arrival_rate", name), float(len(tasks.arrived))
        yield ("processed", name), float(len(works))
        if len(gaps) > 1 and gaps.mean() > 0:
            yield ("arrival_scv", name), float(gaps.var() / gaps.mean() ** 2)
        if len(works) > 1:
            yield ("service_time_ms", name), float(works.mean()) * 1000
            yield ("service_scv", name), float(works.var() / works.mean() ** 2)
        rows = np.bincount(owners, minlength=len(tasks.weights))
        busy = np.bincount(owners, works, minlength=len(tasks.weights))
        yield ("utilization", name), float(busy.sum() / max((rows > 0).sum(), 1) / SECOND)
        for task, (count, seconds) in enumerate(zip(rows.tolist(), busy.tolist(), strict=True)):
            yield ("task_rows", f"{name}/{task}"), float(count)
            yield ("task_busy_ms", f"{name}/{task}"), seconds * 1000
        if name in self.scenario.bolts:
            yield ("in_flight", name), float(tasks.running.shape[1])
        else:
            yield ("lag", name), float(tasks.running.shape[1])


def simulate_pipeline(
    control: Control,
    scenario: ControlScenario,
    load: RowLoad,
    *,
    rng: np.random.Generator,
    target: Target | None = None,
    forecast: Callable[[World], Forecasts] | None = None,
) -> PipelineReport:
    """Run a load through a simulated query in real time, with a control cycle each second."""
    scenario = replace(scenario, mode="pipeline")
    query, state, setup = SimulatedPipeline(scenario, load, rng), control.start(), scenario.setup()
    seconds: list[SimulatedSecond] = []
    decisions: list[Decision] = []
    while (second := query.run()) is not None:
        seconds.append(second)
        world = World(setup, query.snapshot(), query.observed(), target=target or Target())
        if forecast is not None:
            world = replace(world, forecasts=forecast(world))
        state, decision = step(control, state, world)
        if decision.chosen or decision.problems:
            decisions.append(decision)
        if control.mode == "act":
            for action in decision.actions:
                query.perform(action)
    return PipelineReport(tuple(seconds), tuple(decisions))
