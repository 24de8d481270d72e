"""One stage of a micro-batch: an operator's tasks on the cores."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from foretide.simulation.flows import Emitter
from foretide.simulation.intake import Rows
from foretide.simulation.routes import RouteChange, Router
from foretide.simulation.stations import SharedStation, UnevenStation
from foretide.simulation.workers import timelines

if TYPE_CHECKING:
    from foretide.simulation.report import Books
    from foretide.simulation.scenario import Scenario
    from foretide.simulation.variation import Floats


class SimulatedStage:
    """An operator, its pool of tasks and the cores they run on.

    The cores are idle whenever a stage starts, so that each stage may keep books of its own about them.
    """

    def __init__(self, scenario: Scenario, index: int, rng: np.random.Generator, books: Books, scale: float) -> None:
        network, batching = scenario.network, scenario.batching
        operator = network.operators[index]
        self._rng, routing, emission = rng.spawn(3)
        self._pool = scenario.workers[operator.name]
        self._launch = self._pool * (batching.task_cost if batching else 0.0)
        self._service, self._mean = scenario.service_of(operator.name), scale / operator.service_rate
        routes = scenario.routes.get(operator.name) or (RouteChange.first(self._pool, self._pool, spread="even"),)
        self._router = Router(routes, routing)
        flows = [(network.index[flow.target], flow.gain) for flow in network.flows if flow.source == operator.name]
        self._emitter = Emitter(flows, splits=operator.splits, rng=emission)
        self._cores = _cores(scenario, operator.name)
        self._tuples, self._work = books.tuples[index], books.work[index]

    def run(self, batch_start: float, start: float, rows: Rows) -> tuple[float, list[tuple[int, Rows]]]:
        """Process rows; returns when the slowest task has ended and what goes along each flow."""
        count = len(rows.times)
        tasks = self._router.assign(np.full(count, batch_start))
        works = self._service.unit(self._rng, count) * self._mean
        loads: Floats = np.bincount(tasks, works, minlength=self._pool).astype(np.float64)
        end = self._run_tasks(start + self._launch, loads[loads > 0])
        ends = np.full(count, end)
        self._tuples.attempt(rows.times, np.full(count, start), ends)
        self._tuples.complete(rows.times, ends)
        sent = self._emitter.emit(ends, rows.trees)
        return end, [(to, Rows(times, trees, np.full(len(trees), to))) for to, times, trees in sent]

    def _run_tasks(self, launch: float, loads: Floats) -> float:
        if isinstance(self._cores, SharedStation):
            starts = self._cores.serve(np.full(len(loads), launch), loads)
            ends = starts + loads
        else:
            starts, ends = self._with_replays(self._cores, launch, loads)
        self._work.attempt(starts, starts, ends)
        return float(ends.max(initial=launch))

    def _with_replays(self, cores: UnevenStation, launch: float, loads: Floats) -> tuple[Floats, Floats]:
        queue = [(launch, task, load) for task, load in enumerate(loads.tolist())]
        heapify(queue)
        attempts: list[tuple[float, float]] = []
        while queue:
            time, task, load = heappop(queue)
            start, end, lost = cores.admit(time, load)
            attempts.append((start, end))
            if lost:
                self._work.replayed += 1
                heappush(queue, (end, task, load))
        starts, ends = np.array(attempts).reshape(-1, 2).T
        return starts, ends


def _cores(scenario: Scenario, name: str) -> SharedStation | UnevenStation:
    """The cores as this stage meets them: what befalls all stages, or this one."""
    count = scenario.batching.cores if scenario.batching else scenario.workers[name]
    befalls = timelines(
        (event for event in scenario.slowdowns if event.operator in (None, name)),
        (event for event in scenario.outages if event.operator in (None, name)),
    )
    return UnevenStation(count, befalls) if befalls else SharedStation(count)
