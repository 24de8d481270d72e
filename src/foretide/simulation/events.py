"""The parts of a simulated pipeline: one operator on whole arrays, or several tuple by tuple."""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from itertools import count, repeat
from typing import TYPE_CHECKING

import numpy as np

from foretide.simulation.flows import Emitter, Inbox
from foretide.simulation.routes import Router
from foretide.simulation.stations import RoutedStation, SharedStation, Station, UnevenStation
from foretide.simulation.variation import ArrivalStream, Floats, Integers, one_by_one
from foretide.simulation.workers import timelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretide.simulation.report import Books
    from foretide.simulation.scenario import Scenario
    from foretide.simulation.tally import Ledger

    Serve = Callable[[Floats, Floats], Floats]
    Waiting = tuple[float, int, int, int, float | None, float]


class SimulatedOperator:
    """One operator: its random streams, its workers, and what is on its way to it.

    Each of the streams is a generator of its own, so that a change in one place (a route, a gain) leaves the
    arrivals and service times of the others as they were.
    """

    def __init__(self, scenario: Scenario, index: int, rng: np.random.Generator, books: Books) -> None:
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
        self.meter = books.tuples[index]
        self._ledger = books.ledger

    def works(self, size: int) -> Floats:
        """Service times at full speed."""
        return self._service.unit(self._rng, size) * self._mean

    def take_in(self, horizon: float) -> None:
        """Let in what arrives from outside before the horizon."""
        times = self._stream.until(horizon)
        self.meter.arrived += len(times)
        self.inbox.put(times, self._ledger.plant(times))

    def receive(self, times: Floats, trees: Integers) -> None:
        """Another operator has sent tuples."""
        self.meter.arrived += len(times)
        self._ledger.grow(trees)
        self.inbox.put(times, trees)


def _station(scenario: Scenario, name: str, rng: np.random.Generator) -> tuple[Station, Serve | None]:
    """The operator's station, and its way of taking whole arrays (if nothing befalls a worker)."""
    workers = scenario.workers[name]
    befalls = timelines(
        (event for event in scenario.slowdowns if event.operator == name),
        (event for event in scenario.outages if event.operator == name),
    )
    routes = scenario.routes.get(name)
    if routes:
        routed = RoutedStation(workers, Router(routes, rng), befalls)
        return routed, None if befalls else routed.serve
    if befalls:
        return UnevenStation(workers, befalls), None
    shared = SharedStation(workers)
    return shared, shared.serve


class ArrayPart:
    """An operator outside any loop whose workers are always alike."""

    def __init__(
        self, operator: SimulatedOperator, serve: Serve, operators: list[SimulatedOperator], ledger: Ledger
    ) -> None:
        self._operator, self._serve, self._operators, self._ledger = operator, serve, operators, ledger

    def advance(self, horizon: float) -> None:
        """Process all that joins before the horizon."""
        operator = self._operator
        times, trees = operator.inbox.take(horizon)
        works = operator.works(len(times))
        starts = self._serve(times, works)
        ends = starts + works
        operator.meter.attempt(times, starts, ends)
        operator.meter.complete(times, ends)
        self._ledger.process(trees, ends, ends - times)
        for target, sent, of in operator.emitter.emit(ends, trees):
            self._operators[target].receive(sent, of)


class EventPart:
    """Operators that feed one another, or one whose workers differ: tuple by tuple, in order of joining.

    A tuple's departure is known when it joins, and lies later; so what it sends back into the part is
    queued in time. The same holds for a tuple lost with its worker, which joins again at that moment.
    """

    def __init__(self, members: tuple[int, ...], operators: list[SimulatedOperator], ledger: Ledger) -> None:
        self._members, self._operators, self._ledger = members, operators, ledger
        self._desks = {member: _Desk(operators[member], members) for member in members}
        self._queue: list[Waiting] = []
        self._number = count()

    def advance(self, horizon: float) -> None:
        """Process all that joins before the horizon."""
        queue, number, desks = self._queue, self._number, self._desks
        for time, _, member, tree, known, arrived in self._due(horizon):
            desk = desks[member]
            work = next(desk.works) if known is None else known
            start, end, lost = desk.admit(time, work)
            desk.log += (time, start, end, tree, arrived, lost)
            if lost:
                heappush(queue, (end, next(number), member, tree, work, arrived))
            elif desk.in_loop:
                for target in desk.emit_one():
                    if target in desks:
                        desks[target].sent_back.append(tree)
                        heappush(queue, (end, next(number), target, tree, None, end))
                    else:
                        desk.sent[target] += (tree, end)
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
        desk, operator = self._desks[member], self._operators[member]
        joined, begun, ended, trees, arrived, lost = np.array(desk.log).reshape(-1, 6).T
        operator.meter.attempt(joined, begun, ended)
        operator.meter.replayed += int(lost.sum())
        done = lost == 0
        trees, arrived, ended = trees[done].astype(np.int64), arrived[done], ended[done]
        operator.meter.complete(arrived, ended)
        operator.meter.arrived += len(desk.sent_back)
        self._ledger.grow(np.array(desk.sent_back, dtype=np.int64))
        self._ledger.process(trees, ended, ended - arrived)
        for target, when, which in desk.emitted(ended, trees):
            self._operators[target].receive(when, which)
        desk.clear()


class _Desk:
    """What taking tuples one by one needs at hand for an operator, and what it did since the last horizon."""

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
