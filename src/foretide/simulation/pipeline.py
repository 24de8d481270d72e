"""Simulates scenarios: here pipelines of queues, operators that run at the same time; micro-batches in `rows`.

Queues have no limit, so what an operator does depends only on what reached it before. Operators are
therefore taken in the order of the flows, one window of simulated time after the other, whole arrays at a
time: by the time an operator handles a window, all that joins its queue in it is known. Operators in a
loop, and those whose workers are slow or gone at times, are taken tuple by tuple in order of time. Neither
way leaves anything out, and how long the windows are changes nothing but the memory they take.
"""

from __future__ import annotations

import math
from collections import defaultdict
from heapq import heappop, heappush
from itertools import count, repeat
from typing import TYPE_CHECKING

import numpy as np

from foretide.graphs import components
from foretide.simulation.results import Records, report
from foretide.simulation.routes import Emitter, Router
from foretide.simulation.rows import run_batches
from foretide.simulation.variation import ArrivalStream, Floats, Integers, one_by_one
from foretide.simulation.workers import RoutedStation, SharedStation, Station, UnevenStation, timelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretide.simulation.results import SimulationResult
    from foretide.simulation.scenario import Scenario
    from foretide.simulation.tally import TupleTrees

    Serve = Callable[[Floats, Floats], Floats]
    Waiting = tuple[float, int, int, int, float | None, float]

_WINDOW = 50_000
"""Tuples a window at the busiest operator: enough for arrays to pay off, few enough for any memory."""


def simulate(
    scenario: Scenario, rng: np.random.Generator, progress: Callable[[float], None] = lambda _: None
) -> SimulationResult:
    """Simulate a scenario.

    >>> from foretide.queueing.network import Network, Operator
    >>> from foretide.simulation.scenario import Scenario
    >>> network = Network((Operator("parse", service_rate=10.0),), external={"parse": 14.0})
    >>> result = simulate(Scenario(network, {"parse": 2}, duration=3000.0), np.random.default_rng(1))
    >>> result.operator("parse").utilization.covers(0.7)
    True

    The same state of the generator gives the same result. `progress` is told from time to time what share of the
    simulated time has passed, 0 to 1.
    """
    run = run_batches if scenario.batching else run_pipeline
    return report(scenario, run(scenario, rng, progress))


def run_pipeline(
    scenario: Scenario, rng: np.random.Generator, progress: Callable[[float], None], window: int = _WINDOW
) -> Records:
    """Run the scenario to its end and return its records; `progress` is called with the share of time passed."""
    records = Records.of(scenario)
    generators = rng.spawn(len(records.tuples))
    operators = [SimulatedOperator(scenario, i, each, records) for i, each in enumerate(generators)]
    parts = [_part(members, operators, records) for members in components(scenario.network.successors)]
    for horizon in _horizons(scenario, window):
        for operator in operators:
            operator.take_in(horizon)
        for part in parts:
            part.advance(horizon)
        progress(min(horizon / scenario.duration, 1.0))
    return records


def _part(members: tuple[int, ...], operators: list[SimulatedOperator], records: Records) -> ArrayPart | EventPart:
    first = operators[members[0]]
    alone = len(members) == 1 and members[0] not in first.targets
    if alone and first.serve is not None:
        return ArrayPart(first, first.serve, operators, records.trees)
    return EventPart(members, operators, records.trees)


def _horizons(scenario: Scenario, window: int) -> Iterator[float]:
    network = scenario.network
    peaks = np.array([scenario.curve_of(name).peak for name in network.names])
    busiest = float(np.linalg.solve(np.eye(len(peaks)) - network.gains.T, peaks).max())
    windows = math.ceil(busiest * scenario.duration / window)
    yield from (scenario.duration * (number + 1) / windows for number in range(windows))
    yield math.inf


class Inbox:
    """Tuples on their way to an operator: when each joins its queue, and the tree it belongs to.

    >>> inbox = Inbox()
    >>> inbox.put(np.array([4.0, 1.0, 9.0]), np.array([0, 1, 2]))
    >>> inbox.take(5.0)
    (array([1., 4.]), array([1, 0]))
    """

    def __init__(self) -> None:
        self._times: list[Floats] = []
        self._trees: list[Integers] = []

    def put(self, times: Floats, trees: Integers) -> None:
        """Add tuples, in any order."""
        if len(times):
            self._times.append(times)
            self._trees.append(trees)

    def take(self, horizon: float) -> tuple[Floats, Integers]:
        """Remove the tuples that join before the horizon, in order of time."""
        if not self._times:
            return np.empty(0), np.empty(0, dtype=np.int64)
        times, trees = np.concatenate(self._times), np.concatenate(self._trees)
        due = times < horizon
        self._times, self._trees = [times[~due]], [trees[~due]]
        times, trees = times[due], trees[due]
        order = np.argsort(times, kind="stable")
        return times[order], trees[order]


class SimulatedOperator:
    """One operator: its random streams, its workers, and what is on its way to it.

    Each of the streams is a generator of its own, so that a change in one place (a route, a gain) leaves the
    arrivals and service times of the others as they were.
    """

    def __init__(self, scenario: Scenario, index: int, rng: np.random.Generator, records: Records) -> None:
        network = scenario.network
        operator = network.operators[index]
        arrivals, self._rng, routing, emission = rng.spawn(4)
        self._stream = ArrivalStream(
            scenario.curve_of(operator.name), scenario.arrivals_of(operator.name), arrivals, scenario.duration
        )
        self._service, self._mean = scenario.service_of(operator.name), 1 / operator.service_rate
        flows = [(network.index[flow.target], flow.gain) for flow in network.flows if flow.source == operator.name]
        self.targets = {target for target, gain in flows if gain > 0}
        self.emitter = Emitter(flows, splits=operator.splits, rng=emission)
        self.station, self.serve = _station(scenario, operator.name, routing)
        self.inbox = Inbox()
        self.meter = records.tuples[index]
        self._tuple_trees = records.trees

    def works(self, size: int) -> Floats:
        """Service times at full speed."""
        return self._service.unit(self._rng, size) * self._mean

    def take_in(self, horizon: float) -> None:
        """Let in what arrives from outside before the horizon."""
        times = self._stream.until(horizon)
        self.meter.arrived += len(times)
        self.inbox.put(times, self._tuple_trees.start(times))

    def receive(self, times: Floats, trees: Integers) -> None:
        """Another operator has sent tuples."""
        self.meter.arrived += len(times)
        self._tuple_trees.add(trees)
        self.inbox.put(times, trees)


def _station(scenario: Scenario, name: str, rng: np.random.Generator) -> tuple[Station, Serve | None]:
    """The operator's station, and its way of taking whole arrays (if its workers never change)."""
    workers = scenario.workers[name]
    changes = timelines(
        (event for event in scenario.slowdowns if event.operator == name),
        (event for event in scenario.outages if event.operator == name),
    )
    routes = scenario.routes.get(name)
    if routes:
        routed = RoutedStation(workers, Router(routes, rng), changes)
        return routed, None if changes else routed.serve
    if changes:
        return UnevenStation(workers, changes), None
    shared = SharedStation(workers)
    return shared, shared.serve


class ArrayPart:
    """An operator outside any loop whose workers are always alike."""

    def __init__(
        self, operator: SimulatedOperator, serve: Serve, operators: list[SimulatedOperator], tuple_trees: TupleTrees
    ) -> None:
        self._operator, self._serve, self._operators, self._tuple_trees = operator, serve, operators, tuple_trees

    def advance(self, horizon: float) -> None:
        """Process all that joins before the horizon."""
        operator = self._operator
        times, trees = operator.inbox.take(horizon)
        works = operator.works(len(times))
        starts = self._serve(times, works)
        ends = starts + works
        operator.meter.attempt(times, starts, ends)
        operator.meter.complete(times, ends)
        self._tuple_trees.process(trees, ends, ends - times)
        for target, sent, sent_trees in operator.emitter.emit(ends, trees):
            self._operators[target].receive(sent, sent_trees)


class EventPart:
    """Operators that feed one another, or one whose workers differ: tuple by tuple, in order of joining.

    A tuple's departure is known when it joins, and lies later; so what it sends back into the part is
    queued in time. The same holds for a tuple lost with its worker, which joins again at that moment.
    """

    def __init__(self, members: tuple[int, ...], operators: list[SimulatedOperator], tuple_trees: TupleTrees) -> None:
        self._members, self._operators, self._tuple_trees = members, operators, tuple_trees
        self._runs = {member: _MemberRun(operators[member], members) for member in members}
        self._queue: list[Waiting] = []
        self._number = count()

    def advance(self, horizon: float) -> None:
        """Process all that joins before the horizon."""
        queue, number, runs = self._queue, self._number, self._runs
        for time, _, member, tree, known, arrived in self._due(horizon):
            run = runs[member]
            work = next(run.works) if known is None else known
            start, end, lost = run.admit(time, work)
            run.log += (time, start, end, tree, arrived, lost)
            if lost:
                heappush(queue, (end, next(number), member, tree, work, arrived))
            elif run.in_loop:
                for target in run.emit_one():
                    if target in runs:
                        runs[target].sent_back.append(tree)
                        heappush(queue, (end, next(number), target, tree, None, end))
                    else:
                        run.sent[target] += (tree, end)
        for member in self._members:
            self._write_down(member)

    def _due(self, horizon: float) -> Iterator[Waiting]:
        """What joins before the horizon, from outside and from within, in order of time."""
        queue = self._queue
        for fresh in self._fresh(horizon):
            while queue and queue[0] < fresh:
                yield heappop(queue)
            yield fresh
        while queue and queue[0][0] < horizon:
            yield heappop(queue)

    def _fresh(self, horizon: float) -> list[Waiting]:
        entries: list[Waiting] = []
        for member in self._members:
            arrays = self._operators[member].inbox.take(horizon)
            times, trees = arrays[0].tolist(), arrays[1].tolist()
            entries += zip(times, self._number, repeat(member), trees, repeat(None), times, strict=False)
        if len(self._members) > 1:
            entries.sort()
        return entries

    def _write_down(self, member: int) -> None:
        run, operator = self._runs[member], self._operators[member]
        joined, begun, ended, trees, arrived, lost = np.array(run.log).reshape(-1, 6).T
        operator.meter.attempt(joined, begun, ended)
        operator.meter.replayed += int(lost.sum())
        done = lost == 0
        trees, arrived, ended = trees[done].astype(np.int64), arrived[done], ended[done]
        operator.meter.complete(arrived, ended)
        operator.meter.arrived += len(run.sent_back)
        self._tuple_trees.add(np.array(run.sent_back, dtype=np.int64))
        self._tuple_trees.process(trees, ended, ended - arrived)
        for target, when, which in run.emitted(ended, trees):
            self._operators[target].receive(when, which)
        run.clear()


class _MemberRun:
    """What an event-driven part needs of an operator, and what the operator did since the last horizon."""

    def __init__(self, operator: SimulatedOperator, members: tuple[int, ...]) -> None:
        self.admit, self.emit_one = operator.station.admit, operator.emitter.emit_one
        self.works = one_by_one(operator.works)
        self.in_loop = not operator.targets.isdisjoint(members)
        self._emit = operator.emitter.emit
        self.clear()

    def clear(self) -> None:
        """Forget what was done."""
        self.log: list[float] = []
        self.sent_back: list[int] = []
        self.sent: dict[int, list[float]] = defaultdict(list)

    def emitted(self, ends: Floats, trees: Integers) -> Iterator[tuple[int, Floats, Integers]]:
        """What goes to operators elsewhere; outside a loop there was no hurry to know it."""
        if not self.in_loop:
            yield from self._emit(ends, trees)
        for target, pairs in self.sent.items():
            which, when = np.array(pairs).reshape(-1, 2).T
            yield target, when, which.astype(np.int64)
