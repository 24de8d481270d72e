"""Rows of micro-batches simulated one by one: random arrivals, service times, routes and emissions."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foretide.simulation.batches import Cores, Intake, MicroBatches, StageRun, stage_order, work_scale
from foretide.simulation.results import Records
from foretide.simulation.routes import Emitter, RouteChange, Router
from foretide.simulation.variation import ArrivalStream, Floats, Integers
from foretide.simulation.workers import SharedStation, UnevenStation, timelines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretide.queueing.model import BatchCosts
    from foretide.simulation.scenario import Scenario


def run_batches(scenario: Scenario, rng: np.random.Generator, progress: Callable[[float], None]) -> Records:
    """Run the scenario to its end and return its records; `progress` is called with the share of time passed."""
    records = Records.of(scenario)
    rows, costs = RandomRows(scenario, rng, records), _costs(scenario)
    cores = {index: _cores(scenario, name) for index, name in enumerate(scenario.network.names)}
    batches = MicroBatches(scenario.network, scenario.workers, costs, rows, cores)
    batches.limit = math.inf if scenario.limit is None else scenario.limit
    while (run := batches.run()) is not None:
        records.batches.append((run.start, run.commit, int(run.intake.rows)))
        progress(min(run.commit / scenario.duration, 1.0))
    return records


class RowSet(NamedTuple):
    """Rows for operators: since when each can be read, its tuple tree, and the operator's position."""

    times: Floats
    trees: Integers
    operators: Integers

    @classmethod
    def joined(cls, pieces: Sequence[RowSet]) -> RowSet:
        """All of them in one."""
        if not pieces:
            return cls(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        times, trees, operators = zip(*pieces, strict=True)
        return cls(np.concatenate(times), np.concatenate(trees), np.concatenate(operators))

    def split(self, at: int) -> tuple[RowSet, RowSet]:
        """The first `at` rows, and the rest."""
        first, rest = zip(*((column[:at], column[at:]) for column in self), strict=True)
        return RowSet(*first), RowSet(*rest)

    def only(self, operator: int) -> RowSet:
        """Those for one operator."""
        chosen = self.operators == operator
        return RowSet(self.times[chosen], self.trees[chosen], self.operators[chosen])


@dataclass(slots=True)
class RowBatch:
    """The rows of a batch while it runs.

    Attributes:
        waiting: Rows for each operator, by position, in the pieces they came in.
        processed: Rows of each stage that has ended, and when it did.
        returned: Rows for the next batch.
    """

    start: float
    waiting: dict[int, list[RowSet]]
    processed: list[tuple[RowSet, float]] = field(default_factory=list)
    returned: list[RowSet] = field(default_factory=list)


class RandomRows:
    """Rows one by one. What each operator does is written to the records."""

    def __init__(self, scenario: Scenario, rng: np.random.Generator, records: Records) -> None:
        network, costs = scenario.network, _costs(scenario)
        arrivals, stages = rng.spawn(2)
        self._intake = _Arrivals(scenario, arrivals.spawn(len(network.names)), records)
        self._records, self._returned = records, RowSet.joined([])
        _, self._feedback = stage_order(network)
        entering = np.array([scenario.curve_of(name).expected(scenario.duration) for name in network.names])
        scale = work_scale(network, costs, entering)
        self._stages = [_Stage(scenario, i, each, scale) for i, each in enumerate(stages.spawn(len(network.names)))]

    def ready(self, earliest: float) -> float:
        """At once if rows have flowed back, else when one has arrived."""
        return earliest if len(self._returned.times) else max(earliest, self._intake.next_arrival())

    def take(self, start: float, limit: float) -> tuple[RowBatch, Intake]:
        """Rows that flowed back, and the oldest of those that have arrived."""
        arrived, lag = self._intake.take(start, limit)
        rows = RowSet.joined([self._returned, arrived])
        batch = RowBatch(start, {index: [rows.only(index)] for index in range(len(self._stages))})
        first, last = (arrived.times[0], arrived.times[-1]) if len(arrived.times) else (start, start)
        return batch, Intake(len(arrived.times), lag, float(first), float(last))

    def work(self, operator: int, batch: RowBatch) -> Floats:
        """Every row's service time, added up by task."""
        batch.waiting[operator] = [RowSet.joined(batch.waiting[operator])]
        return self._stages[operator].work(batch.start, len(batch.waiting[operator][0].times))

    def stage_ended(self, operator: int, batch: RowBatch, run: StageRun) -> None:
        """Record the tasks and the rows, and emit what goes to other operators."""
        [rows] = batch.waiting[operator]
        count = len(rows.times)
        tuples, tasks, ends = self._records.tuples[operator], self._records.work[operator], np.full(count, run.end)
        tasks.attempt(run.starts, run.starts, run.ends)
        tasks.replayed += run.lost
        tuples.attempt(rows.times, np.full(count, run.start), ends)
        tuples.complete(rows.times, ends)
        batch.processed.append((rows, run.end))
        for target, times, trees in self._stages[operator].emitter.emit(ends, rows.trees):
            self._records.trees.add(trees)
            self._records.tuples[target].arrived += len(trees)
            sent = RowSet(times, trees, np.full(len(trees), target))
            (batch.returned if (operator, target) in self._feedback else batch.waiting[target]).append(sent)

    def committed(self, batch: RowBatch, commit: float) -> None:
        """All rows are processed; those that flow back can be read from now on."""
        for rows, ended in batch.processed:
            self._records.trees.process(rows.trees, np.full(len(rows.trees), commit), ended - rows.times)
        self._returned = RowSet.joined(
            [rows._replace(times=np.full(len(rows.times), commit)) for rows in batch.returned]
        )

    def route(self, operator: int, weights: Sequence[float]) -> None:
        """Take turns in proportion to the weights."""
        self._stages[operator].route((RouteChange(tuple(weights), spread="even"),))


class _Stage:
    """An operator's random streams: one for service times, one for routes and one for what it emits."""

    def __init__(self, scenario: Scenario, index: int, rng: np.random.Generator, scale: float) -> None:
        network = scenario.network
        operator = network.operators[index]
        self._rng, self._routing, emission = rng.spawn(3)
        self._pool = scenario.workers[operator.name]
        self._service, self._mean = scenario.service_of(operator.name), scale / operator.service_rate
        flows = [(network.index[flow.target], flow.gain) for flow in network.flows if flow.source == operator.name]
        self.emitter = Emitter(flows, splits=operator.splits, rng=emission)
        self.route(scenario.routes.get(operator.name) or (RouteChange.first(self._pool, self._pool, spread="even"),))

    def route(self, routes: Sequence[RouteChange]) -> None:
        self._router = Router(routes, self._routing)

    def work(self, batch_start: float, count: int) -> Floats:
        tasks = self._router.assign(np.full(count, batch_start))
        seconds = self._service.unit(self._rng, count) * self._mean
        by_task: Floats = np.bincount(tasks, seconds, minlength=self._pool).astype(np.float64)
        return by_task[by_task > 0]


class _Arrivals:
    """Rows that arrive from outside and wait for a batch, oldest first."""

    def __init__(self, scenario: Scenario, rngs: Sequence[np.random.Generator], records: Records) -> None:
        self._streams = [
            ArrivalStream(scenario.curve_of(name), scenario.arrivals_of(name), rng, scenario.duration)
            for name, rng in zip(scenario.network.names, rngs, strict=True)
        ]
        self._trees, self._tuples = records.trees, records.tuples
        self._backlog: deque[RowSet] = deque()

    def next_arrival(self) -> float:
        """When the oldest row that no batch has taken arrives, or did; infinite if there is none."""
        if self._backlog:
            return float(self._backlog[0].times[0])
        return min(stream.peek() for stream in self._streams)

    def take(self, now: float, room: float) -> tuple[RowSet, int]:
        """All that has arrived by now, or as much of it as there is room for; and how many rows are left."""
        self._receive(now)
        taken: list[RowSet] = []
        while self._backlog and room > 0:
            rows = self._backlog.popleft()
            if len(rows.times) > room:
                rows, rest = rows.split(int(room))
                self._backlog.appendleft(rest)
            taken.append(rows)
            room -= len(rows.times)
        return RowSet.joined(taken), sum(len(rows.times) for rows in self._backlog)

    def _receive(self, now: float) -> None:
        arrived = [stream.until(math.nextafter(now, math.inf)) for stream in self._streams]
        times = np.concatenate(arrived)
        if len(times):
            order = np.argsort(times, kind="stable")
            operators = np.repeat(np.arange(len(arrived)), [len(each) for each in arrived])
            times = times[order]
            for meter, each in zip(self._tuples, arrived, strict=True):
                meter.arrived += len(each)
            self._backlog.append(RowSet(times, self._trees.start(times), operators[order]))


def _costs(scenario: Scenario) -> BatchCosts:
    if scenario.batching is None:
        raise ValueError("a scenario without batching is a pipeline")
    return scenario.batching


def _cores(scenario: Scenario, name: str) -> Cores:
    """The cores as a stage meets them: what happens to them for all stages, or for this one."""
    changes = timelines(
        (event for event in scenario.slowdowns if event.operator in (None, name)),
        (event for event in scenario.outages if event.operator in (None, name)),
    )
    count = _costs(scenario).cores
    return UnevenStation(count, changes) if changes else SharedStation(count)
