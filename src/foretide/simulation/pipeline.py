"""Simulates a pipeline of queues: operators that run at the same time, each with its workers.

Queues have no limit, so what an operator does depends only on what reached it before. Operators are
therefore taken in the order of the flows, one window of simulated time after the other, whole arrays at a
time: by the time an operator handles a window, all that joins its queue in it is known. Operators in a
loop, and those whose workers are slow or gone at times, are taken tuple by tuple in order of time. Neither
way leaves anything out, and how long the windows are changes nothing but the memory they take.
"""

from __future__ import annotations

import math
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import numpy as np

from foretide.simulation.events import ArrayPart, EventPart, SimulatedOperator
from foretide.simulation.report import Books

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretide.queueing.network import Network
    from foretide.simulation.scenario import Scenario

_WINDOW = 50_000
"""Tuples a window at the busiest operator: enough for arrays to pay off, few enough for any memory."""


def run_pipeline(
    scenario: Scenario, rng: np.random.Generator, progress: Callable[[float], None], window: int = _WINDOW
) -> Books:
    """Run the scenario to its end and hand back the books; `progress` is told the share of time passed."""
    books = Books.of_pipeline(scenario)
    generators = rng.spawn(len(books.tuples))
    operators = [SimulatedOperator(scenario, i, each, books) for i, each in enumerate(generators)]
    parts = [_part(members, operators, books) for members in components(scenario.network)]
    for horizon in _horizons(scenario, window):
        for operator in operators:
            operator.take_in(horizon)
        for part in parts:
            part.advance(horizon)
        progress(min(horizon / scenario.duration, 1.0))
    return books


def components(network: Network) -> list[tuple[int, ...]]:
    """Operators by position, those that reach one another together, each group after all that flow into it.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> operators = tuple(Operator(name, 1.0) for name in "abc")
    >>> components(Network(operators, (Flow("b", "a"), Flow("b", "c", 0.5), Flow("c", "b", 0.5))))
    [(1, 2), (0,)]
    """
    direct = network.gains > 0
    reach = direct | np.eye(len(direct), dtype=bool)
    for middle in range(len(direct)):
        reach |= np.outer(reach[:, middle], reach[middle])
    group_of = [tuple(np.flatnonzero(row).tolist()) for row in reach & reach.T]
    sorter: TopologicalSorter[tuple[int, ...]] = TopologicalSorter({group: set() for group in group_of})
    for source, target in np.argwhere(direct).tolist():
        if group_of[source] != group_of[target]:
            sorter.add(group_of[target], group_of[source])
    return list(sorter.static_order())


def _part(members: tuple[int, ...], operators: list[SimulatedOperator], books: Books) -> ArrayPart | EventPart:
    first = operators[members[0]]
    alone = len(members) == 1 and members[0] not in first.targets
    if alone and first.serve is not None:
        return ArrayPart(first, first.serve, operators, books.ledger)
    return EventPart(members, operators, books.ledger)


def _horizons(scenario: Scenario, window: int) -> Iterator[float]:
    network = scenario.network
    peaks = np.array([scenario.curve_of(name).peak for name in network.names])
    busiest = float(np.linalg.solve(np.eye(len(peaks)) - network.gains.T, peaks).max())
    windows = math.ceil(busiest * scenario.duration / window)
    yield from (scenario.duration * (number + 1) / windows for number in range(windows))
    yield math.inf
