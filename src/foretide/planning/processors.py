"""How many processors for each operator: drs Algorithms 1 and 2.

Where we depart from the paper as printed, and why:

- Algorithm 1 loops `while sum k <= K_max` and so hands out one processor too many; here the sum stays within.
- Algorithm 2 refuses T_max by a sum of 1/mu. Unweighted, that refuses targets that can be met (visits below
  1) and loops for ever on targets that cannot (visits above 1). Here each operator is weighed by its visits.
- Algorithm 2 calls Algorithm 1 afresh for each processor. Every answer of Algorithm 1 is a prefix of the
  next, so one greedy order and a search in it give the same answer.
- Where each processor has a queue of its own (`Operator.own_queues`), waits are those of such queues.
- An operator to which nothing comes keeps one processor. Processors that would bring nothing are left over.

drs proves that the gain of one more processor shrinks with each one an operator has. So the greedy choice is a merge of
sorted lists, and the first n steps of it are the n largest gains of all operators. That is how it is done here, whole
curves of gains at a time; a million processors take a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import BudgetTooSmallError, IdleNetworkError, LatencyOutOfReachError, OverloadError
from foretide.queueing.sojourn import fewest_array, mmk_wait_curves, own_queue_wait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from foretide.queueing.network import Floats, Network

    Ints = NDArray[np.int64]
    Chosen = slice | NDArray[np.bool_]


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
        """Processors in all."""
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
        budget: K_max.
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
    scvs = np.where(network.own_queue_array, network.scv_arrays, np.nan)
    return Queues(first, loads, loads * network.variability_array, room, scvs)


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


_MIN_CURVE, _MAX_CURVE = 64, 4096


@dataclass(frozen=True, slots=True)
class Queues:
    """Operators as queues, by position.

    Attributes:
        first: Processors each starts with: enough to keep up.
        loads: Offered work in processors, lambda / mu.
        weights: Tuples waiting for each unit of M/M/k wait: lambda / mu * (a + s) / 2.
        room: Processors each may still get; where there is no limit, a very large number.
        own: For operators with a queue for each processor the squared variation coefficients of arrivals (first row)
            and services; nan for the others. None if there are no such operators.
    """

    first: Floats
    loads: Floats
    weights: Floats
    room: Ints
    own: Floats | None = None


@dataclass(frozen=True, slots=True)
class GreedyOrder:
    """The processors in the order in which they are assigned.

    Attributes:
        owners: Position of the operator that gets the n-th processor. Shorter than asked for if more
            processors would bring nothing: no room, or gains below the smallest double.
        gains: Tuples that the n-th processor takes out of the queues; falling.
        waiting: For each operator the mean number of tuples waiting, by processors got so far.
    """

    owners: Ints
    gains: Floats
    waiting: Sequence[Floats]

    def counts(self, steps: int) -> Ints:
        """Processors each operator has got after a number of steps."""
        return np.bincount(self.owners[:steps], minlength=len(self.waiting))

    def tuples_waiting(self, counts: Ints) -> float:
        """Tuples waiting in the whole network when the operators have got these counts."""
        return float(sum(row[n] for row, n in zip(self.waiting, counts.tolist(), strict=True)))


def greedy_order(queues: Queues, steps: int) -> GreedyOrder:
    """Assign `steps` processors one by one, each to the operator that gains most; ties go to the first.

    >>> two = np.array([1.0, 1.0])
    >>> queues = Queues(two, np.array([0.9, 0.5]), np.array([0.9, 0.5]), np.array([9, 9]))
    >>> greedy_order(queues, 4).owners.tolist()
    [0, 1, 0, 1]
    """
    room = np.minimum(queues.room, steps)
    length = min(steps, max(_MIN_CURVE, min(_MAX_CURVE, 2 * steps // len(room))))
    lengths = np.minimum(room, length)
    waiting, gains = _curves(queues, slice(None), lengths)
    while True:
        owners, largest = _largest(gains, steps)
        short = (np.bincount(owners, minlength=len(room)) == lengths) & (lengths < room)
        if not short.any():
            return GreedyOrder(owners, largest, waiting)
        lengths[short] = np.minimum(room[short], 4 * lengths[short])
        for i, *rows in zip(np.flatnonzero(short), *_curves(queues, short, lengths[short]), strict=True):
            waiting[i], gains[i] = rows


def _curves(queues: Queues, chosen: Chosen, lengths: Ints) -> tuple[list[Floats], list[Floats]]:
    """Tuples waiting at each chosen operator with 0, 1, ... more processors, and what each of these gains.

    Rounding may let a gain exceed the one before by its last digit; they are made to fall, as they do in
    truth.
    """
    curves = mmk_wait_curves(queues.first[chosen], queues.loads[chosen], int(lengths.max()) + 1)
    curves *= queues.weights[chosen, None]
    if queues.own is not None and not np.isnan(queues.own).all():
        arrivals, services = queues.own[:, chosen, None]
        loads, servers = queues.loads[chosen, None], queues.first[chosen, None] + np.arange(curves.shape[1])
        waits = loads * own_queue_wait(servers, loads, arrivals, services)
        curves = np.where(np.isnan(arrivals), curves, waits)
    gains = np.minimum.accumulate(curves[:, :-1] - curves[:, 1:], axis=1)
    ends = lengths.tolist()
    waiting = [row[: end + 1] for row, end in zip(curves, ends, strict=True)]
    return waiting, [row[:end] for row, end in zip(gains, ends, strict=True)]


def _largest(gains: Sequence[Floats], steps: int) -> tuple[Ints, Floats]:
    """The largest gains above 0 and who has them, largest first."""
    flat = np.concatenate(gains)
    owners = np.repeat(np.arange(len(gains)), [len(row) for row in gains])
    order = np.argsort(-flat, kind="stable")[:steps]
    largest = flat[order]
    if len(order) and largest[-1] <= 0:
        useful = np.count_nonzero(largest > 0)
        order, largest = order[:useful], largest[:useful]
    return owners[order], largest
