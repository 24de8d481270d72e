"""How many processors for each operator: drs Algorithms 1 and 2.

Where we depart from the paper as printed, and why:

- Algorithm 1 loops `while sum k <= K_max` and so hands out one processor too many; here the sum stays within.
- Algorithm 2 refuses T_max by a sum of 1/mu. Unweighted, that refuses targets that can be met (visits below
  1) and loops for ever on targets that cannot (visits above 1). Here each operator is weighed by its visits.
- Algorithm 2 calls Algorithm 1 afresh for each processor. Every answer of Algorithm 1 is a prefix of the
  next, so one greedy order and a search in it give the same answer.
- An operator to which nothing comes keeps one processor. Processors that would bring nothing are left over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import BudgetTooSmallError, IdleNetworkError, LatencyOutOfReachError, OverloadError
from foretide.planning.marginal import GreedyOrder, Queues, greedy_order
from foretide.queueing.sojourn import fewest_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.queueing.network import Network

_FIRST_STEPS = 256
_UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True)
class Allocation:
    """Processors for each operator, and what they bring.

    Attributes:
        processors: By operator, in the network's order.
        expected_total_sojourn: Seconds, drs eq 4: a SUM over a tuple and its descendants.
        spare: Processors of the budget left over because they would bring nothing; 0 where none was given.
    """

    processors: Mapping[str, int]
    expected_total_sojourn: float
    spare: int = 0

    @property
    def total(self) -> int:
        """Processors handed out."""
        return sum(self.processors.values())


def assign_processors(network: Network, budget: int, pools: Mapping[str, int] | None = None) -> Allocation:
    """Split a budget of processors so that the expected total sojourn time is least (drs Algorithm 1).

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> operators = Operator("extract", 2.0), Operator("match", 30.0)
    >>> network = Network(operators, (Flow("extract", "match", 20.0),), {"extract": 13.0})
    >>> allocation = assign_processors(network, 22)
    >>> allocation.processors, round(allocation.expected_total_sojourn, 4)
    ({'extract': 10, 'match': 12}, 1.2322)

    Args:
        network: What flows where, and how much.
        budget: K_max: processors to hand out.
        pools: Most processors an operator can have; those left out are not limited.

    Raises:
        BudgetTooSmallError: The budget is below what stability needs; carries the least that would do.
        OverloadError: A pool is below what stability needs.
        IdleNetworkError: Nothing enters the network.
    """
    queues = _queues(network, pools or {})
    needed = int(np.add.reduce(queues.first))
    if budget < needed:
        raise BudgetTooSmallError(budget, needed)
    order = greedy_order(queues, budget - needed)
    steps = len(order.owners)
    return _allocation(network, queues, order, steps, spare=budget - needed - steps)


def min_processors(network: Network, latency: float, pools: Mapping[str, int] | None = None) -> Allocation:
    """Meet a bound on the expected total sojourn time with the fewest processors (drs Algorithm 2).

    >>> from foretide.queueing.network import Network, Operator
    >>> min_processors(Network((Operator("detect", 10.0),), (), {"detect": 25.0}), latency=0.105).processors
    {'detect': 6}

    Args:
        network: What flows where, and how much.
        latency: T_max in seconds.
        pools: Most processors an operator can have; those left out are not limited.

    Raises:
        LatencyOutOfReachError: No allocation meets the bound; carries the best there is.
        OverloadError: A pool is below what stability needs.
        IdleNetworkError: Nothing enters the network.
    """
    queues = _queues(network, pools or {})
    steps = _FIRST_STEPS
    order = greedy_order(queues, steps)
    best = _sojourn(network, order, len(order.owners))
    while best > latency and len(order.owners) == steps:
        steps *= 4
        order = greedy_order(queues, steps)
        best = _sojourn(network, order, len(order.owners))
    if best > latency:
        raise LatencyOutOfReachError(latency, best)
    return _allocation(network, queues, order, _fewest_steps(network, order, latency, best))


def _fewest_steps(network: Network, order: GreedyOrder, latency: float, best: float) -> int:
    """The shortest prefix of the order that meets the bound.

    Gains added up from the end, smallest first, lose no digits to the large ones at the start: that gives
    a guess. Where rounding leaves a doubt about it, the sojourn time itself decides.
    """
    excess = np.add.accumulate(order.gains[::-1]) / network.external_rate
    high = len(order.gains) - int(np.searchsorted(excess, latency - best, side="right"))
    while _sojourn(network, order, high) > latency:
        high += 1
    low = high - 1
    if high == 0 or _sojourn(network, order, low) > latency:
        return high
    low, high = 0, low
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _sojourn(network, order, middle) <= latency else (middle + 1, high)
    return low


def _queues(network: Network, pools: Mapping[str, int]) -> Queues:
    if network.external_rate == 0:
        raise IdleNetworkError
    loads = network.load_array
    first = fewest_array(network)
    limits = [pools.get(name, _UNLIMITED) for name in network.names]
    room = np.array(limits) - first.astype(np.int64)
    if np.minimum.reduce(room) < 0:
        short = np.flatnonzero(room < 0).tolist()
        busy = {network.names[i]: float(loads[i]) / limits[i] for i in short}
        raise OverloadError(busy, {network.names[i]: int(first[i]) for i in short})
    return Queues(first, loads, loads * network.variability_array, room)


def _sojourn(network: Network, order: GreedyOrder, steps: int) -> float:
    return _by_little(network, order.tuples_waiting(order.counts(steps)))


def _by_little(network: Network, waiting: float) -> float:
    """Little's law: tuples in service and waiting, over the rate at which they enter."""
    return (float(np.add.reduce(network.load_array)) + waiting) / network.external_rate


def _allocation(network: Network, queues: Queues, order: GreedyOrder, steps: int, *, spare: int = 0) -> Allocation:
    counts = order.counts(steps)
    processors = (queues.first.astype(np.int64) + counts).tolist()
    sojourn = _by_little(network, order.tuples_waiting(counts))
    return Allocation(dict(zip(network.names, processors, strict=True)), sojourn, spare)
