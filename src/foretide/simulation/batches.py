"""Simulates micro-batches: a driver takes what has arrived; stages run one after the other on shared cores.

A batch starts when the one before has committed and the trigger allows, and takes the rows that have
arrived by then, oldest first, up to the limit. It first pays its fixed cost; then each stage pays for every
task of its pool, active or not, and runs: a row's work falls to a task by the route in force when the batch
started, the next task goes to the first free core, and the stage ends when its slowest task has. A task
lost with its core is run again. Rows that flow back (a loop) are read by the next batch. All rows commit
when the last stage has ended.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from foretide.graphs import in_order
from foretide.simulation.intake import Intake, Rows
from foretide.simulation.report import Books
from foretide.simulation.stages import SimulatedStage

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network
    from foretide.simulation.scenario import Scenario


def run_batches(scenario: Scenario, rng: np.random.Generator, progress: Callable[[float], None]) -> Books:
    """Run the scenario to its end and hand back the books; `progress` is told the share of time passed."""
    costs = _costs(scenario)
    books = Books.of_batches(scenario)
    arrivals, stages = rng.spawn(2)
    intake = Intake(scenario, arrivals.spawn(len(books.tuples)), books)
    driver = _Driver(scenario, stages, books)
    now, allowed, fed_back = 0.0, 0.0, Rows.joined([])
    while True:
        if not len(fed_back.times):
            now = max(now, intake.next_arrival())
        now = max(now, allowed)
        if math.isinf(now):
            break
        fresh = intake.take(now)
        commit, fed_back = driver.run(now, Rows.joined([fed_back, fresh]))
        books.batches.append((now, commit, len(fresh.times)))
        now, allowed = commit, now + costs.trigger
        progress(min(now / scenario.duration, 1.0))
    return books


class _Driver:
    """Runs one batch after the other through the stages."""

    def __init__(self, scenario: Scenario, rng: np.random.Generator, books: Books) -> None:
        self._costs, self._books = _costs(scenario), books
        scale = _work_scale(scenario)
        order, self._feedback = _stage_order(scenario.network)
        generators = rng.spawn(len(order))
        self._stages = {i: SimulatedStage(scenario, i, generators[i], books, scale) for i in order}

    def run(self, start: float, rows: Rows) -> tuple[float, Rows]:
        """Run a batch that starts with these rows; returns when it commits and what flows back."""
        now = start + self._costs.fixed_cost
        pieces: dict[int, list[Rows]] = {index: [_only(rows, index)] for index in self._stages}
        done: list[tuple[Rows, float]] = []
        back: list[Rows] = []
        for index, stage in self._stages.items():
            mine = Rows.joined(pieces[index])
            now, sent = stage.run(start, now, mine)
            done.append((mine, now))
            for target, emitted in sent:
                self._books.ledger.grow(emitted.trees)
                self._books.tuples[target].arrived += len(emitted.trees)
                if (index, target) in self._feedback:
                    back.append(emitted)
                else:
                    pieces[target].append(emitted)
        for mine, ended in done:
            self._books.ledger.process(mine.trees, np.full(len(mine.trees), now), ended - mine.times)
        returned = [each._replace(times=np.full(len(each.times), now)) for each in back]
        return now, Rows.joined(returned)


def _only(rows: Rows, index: int) -> Rows:
    mine = rows.operators == index
    return Rows(rows.times[mine], rows.trees[mine], rows.operators[mine])


def _costs(scenario: Scenario) -> BatchCosts:
    if scenario.batching is None:
        raise ValueError("a scenario without batching is a pipeline")
    return scenario.batching


def _work_scale(scenario: Scenario) -> float:
    """What service times are multiplied by so that a row costs, over all its visits, what the model says."""
    wanted, network = _costs(scenario).work_per_row, scenario.network
    entering = np.array([scenario.curve_of(name).expected(scenario.duration) for name in network.names])
    if wanted is None or not entering.sum():
        return 1.0
    visits = np.linalg.solve(np.eye(len(entering)) - network.gains.T, entering) / entering.sum()
    return wanted / float((visits / network.service_array).sum())


def _stage_order(network: Network) -> tuple[list[int], set[tuple[int, int]]]:
    """The order of the stages, and the flows that go back to the next batch.

    Those are the flows of a loop that lead to an operator listed earlier, or to the same one.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> operators = tuple(Operator(name, 1.0) for name in "abc")
    >>> _stage_order(Network(operators, (Flow("b", "a"), Flow("b", "c", 0.5), Flow("c", "b", 0.5))))
    ([1, 0, 2], {(2, 1)})
    """
    together = [set(loop) for loop in network.loops]
    flows = [(source, target) for source, targets in network.successors.items() for target in targets]
    feedback = {flow for flow in flows if flow[1] <= flow[0] and any(loop.issuperset(flow) for loop in together)}
    inputs = {
        index: [source for source, target in flows if target == index and (source, target) not in feedback]
        for index in network.successors
    }
    return in_order(inputs), feedback
