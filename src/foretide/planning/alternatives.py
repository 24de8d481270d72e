"""The next best allocations after the best one, for as many processors."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.queueing.sojourn import mmk_wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from foretide.queueing.network import Floats, Network

VISIBLE = 5e-5
"""A smaller share prints as 0.00%."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another allocation of as many processors, and its expected total sojourn time in seconds."""

    processors: Mapping[str, int]
    expected_total_sojourn: float


def next_best(
    network: Network, best: Mapping[str, int], pools: Mapping[str, int] | None = None, count: int = 3
) -> list[Alternative]:
    """The `count` best allocations after `best` with the same total, best first.

    Every allocation that is not the best gets no worse by moving some one processor, so walking from the best
    along such moves, always on from the best seen, meets them in order.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> network = Network((Operator("a", 2.0), Operator("b", 2.5)), (Flow("a", "b"),), {"a": 5.0})
    >>> [alternative.processors for alternative in next_best(network, {"a": 5, "b": 4}, count=2)]
    [{'a': 4, 'b': 5}, {'a': 6, 'b': 3}]
    """
    limits = np.array([(pools or {}).get(name, 1 << 40) for name in network.names])
    start = tuple(best[name] for name in network.names)
    queue = [(_tuples(network, np.array(start)), start)]
    seen = {start}
    found: list[tuple[float, tuple[int, ...]]] = []
    while queue and len(found) <= count:
        tuples, counts = heapq.heappop(queue)
        found.append((tuples, counts))
        for move in _moves(network, np.array(counts), tuples, limits):
            if move[1] not in seen:
                seen.add(move[1])
                heapq.heappush(queue, move)
    return [
        Alternative(dict(zip(network.names, counts, strict=True)), tuples / network.external_rate)
        for tuples, counts in found[1:]
    ]


def _tuples(network: Network, counts: NDArray[np.int64]) -> float:
    """Mean tuples in the network, waiting and in service."""
    return float((_waiting(network, counts) + network.load_array).sum())


def _waiting(network: Network, counts: NDArray[np.int64]) -> Floats:
    waits: Floats = network.variability_array * network.load_array * mmk_wait(counts, network.load_array)
    return waits


def _moves(
    network: Network, counts: NDArray[np.int64], tuples: float, limits: NDArray[np.int64]
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Every way to move one processor that leaves the network stable."""
    now = _waiting(network, counts)
    givers = np.flatnonzero(counts - 1 > network.load_array)
    losses = _waiting(network, np.maximum(counts - 1, np.floor(network.load_array) + 1)) - now
    gains = now - _waiting(network, counts + 1)
    for giver in givers.tolist():
        for taker in np.flatnonzero(counts < limits).tolist():
            if giver != taker:
                moved = counts.copy()
                moved[giver] -= 1
                moved[taker] += 1
                yield float(tuples + losses[giver] - gains[taker]), tuple(moved.tolist())


def slower(alternative: Alternative, best: float) -> str:
    """How much longer an alternative takes than the best allocation.

    >>> slower(Alternative({"a": 1}, 3.0), 2.0), slower(Alternative({"a": 1}, 2.0), 2.0)
    ('50.00% longer', 'as long')
    """
    more = alternative.expected_total_sojourn / best - 1
    return "as long" if more < VISIBLE else f"{100 * more:,.2f}% longer"
