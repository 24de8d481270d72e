"""Simulates a pipeline of queues: operators that run at the same time, each with its workers.

Queues have no limit, so what an operator does depends only on what reached it before. Operators are
therefore taken in the order of the flows, one window of simulated time after the other, whole arrays at a
time: by the time an operator handles a window, all that joins its queue in it is known. Operators in a
loop, and those whose workers are slow or gone at times, are taken tuple by tuple in order of time. Neither
way leaves anything out, and how long the windows are changes nothing but the memory they take.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from foretide.graphs import components
from foretide.simulation.events import ArrayPart, EventPart, SimulatedOperator
from foretide.simulation.report import Books

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    parts = [_part(members, operators, books) for members in components(scenario.network.successors)]
    for horizon in _horizons(scenario, window):
        for operator in operators:
            operator.take_in(horizon)
        for part in parts:
            part.advance(horizon)
        progress(min(horizon / scenario.duration, 1.0))
    return books


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
