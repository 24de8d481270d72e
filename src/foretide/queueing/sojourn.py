"""How long tuples stay: the M/M/k queue, and the sojourn times in a network of operators (drs eqs 1-5).

Erlang's formulas are vectorised, stable for any number of servers, and in units of their arguments: a load is offered
work in servers (lambda / mu), a wait is in mean service times. No factorial is ever formed.

The sum over a network answers "how much time do a tuple and all its descendants spend in the operators, added up". With
forks that is NOT the time until the last descendant is processed: for that see `completion`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import IdleNetworkError, ModelError, OverloadError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from foretide.queueing.network import Floats, Network

_MAX_LOOP_SERVERS, _FIRST_BLOCK, _BLOCK = 200, 64, 512
_NEGLIGIBLE = 1e-17


def erlang_c(servers: ArrayLike, load: ArrayLike) -> Floats:
    """Probability that an arrival has to wait (M/M/k); 1 when the load reaches the servers.

    >>> erlang_c([1, 2, 5], 0.5).round(6).tolist()
    [0.5, 0.1, 0.000176]
    """
    k, a = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(load, dtype=float))
    inverse = _inverse_erlang_b(k.ravel(), a.ravel()).reshape(k.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = 1.0 / (inverse * ((k - a) / k) + a / k)
    chance: Floats = np.where(a < k, waits, 1.0)
    return chance


def mmk_wait(servers: ArrayLike, load: ArrayLike) -> Floats:
    """Expected wait before service of M/M/k (drs eq 2), in mean service times; infinite when overloaded.

    >>> mmk_wait(1, [0.5, 0.9, 1.0]).round(6).tolist()
    [1.0, 9.0, inf]
    """
    k, a = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(load, dtype=float))
    with np.errstate(divide="ignore"):
        wait: Floats = np.where(a < k, erlang_c(k, a) / np.maximum(k - a, 0.0), np.inf)
    return wait


def own_queue_wait(servers: Floats, load: Floats, arrival_scv: Floats, service_scv: Floats) -> Floats:
    """Expected wait where each server has a queue of its own, in mean service times; infinite when overloaded.

    Each tuple goes to one of k queues at random, as by a hash of its content, so that the arrivals of a queue vary by
    1 + (a - 1) / k; the wait there is drs eq 5 for one server. Tuples in turn would vary by a / k, and wait less.

    >>> ones = np.ones(2)
    >>> own_queue_wait(np.array([1.0, 2.0]), np.array([0.5, 1.0]), ones, ones).tolist()
    [1.0, 1.0]
    """
    busy = load / servers
    vary = (1 + (arrival_scv - 1) / servers + service_scv) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        wait: Floats = np.where(busy < 1, vary * busy / (1 - busy), np.inf)
    return wait


def mmk_wait_curves(first: Floats, load: Floats, length: int) -> Floats:
    """Expected waits of M/M/k for `length` successive numbers of servers, a row for each load.

    Row i starts at first[i] servers, which must exceed load[i]. One pass of cumulative products and sums does
    what `mmk_wait` would do one number at a time; waits below the smallest double come out as 0.

    >>> mmk_wait_curves(np.array([1.0]), np.array([0.5]), 3).round(6).tolist()
    [[1.0, 0.066667, 0.006061]]
    """
    servers = first[:, None] + np.arange(length)
    with np.errstate(divide="ignore", under="ignore", over="ignore"):
        # Poisson probabilities of `servers`, and of at most that many, both as ratios to that of the first.
        ratios = load[:, None] / servers
        ratios[:, 0] = 1.0
        np.multiply.accumulate(ratios, axis=1, out=ratios)
        up_to = ratios.copy()
        up_to[:, 0] = _inverse_erlang_b(first, load)
        np.add.accumulate(up_to, axis=1, out=up_to)
        up_to /= ratios
        spare = servers - load[:, None]
        up_to *= spare
        up_to += load[:, None]
        up_to *= spare
        waits: Floats = servers / up_to
    return waits


def _inverse_erlang_b(servers: Floats, load: Floats) -> Floats:
    """1 / B of flat arrays, B being the probability that all servers are busy when nobody can wait (M/M/k/k).

    The recurrence 1/B(k) = 1 + (k/load) / B(k-1), unrolled from the top, is 1 + k/load + k(k-1)/load^2 + ... All terms
    are positive, so nothing cancels, and the sum ends as soon as what remains cannot be seen. It is infinite where B is
    below the smallest double.
    """
    if np.add.reduce(servers) <= _MAX_LOOP_SERVERS:
        return np.array([_by_recurrence(k, a) for k, a in zip(servers.tolist(), load.tolist(), strict=True)])
    terms = _descending(servers, load, 0, _FIRST_BLOCK)
    total: Floats = 1.0 + np.add.reduce(terms, axis=1)
    active = np.flatnonzero((servers > _FIRST_BLOCK) & np.isfinite(total))
    term, start = terms[active, -1], _FIRST_BLOCK
    while len(active):
        k, a = servers[active], load[active]
        terms = _descending(k, a, start, _BLOCK)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            terms *= term[:, None]
            total[active] += terms.sum(axis=1)
        start, term = start + _BLOCK, terms[:, -1]
        more = _unfinished(term, (k - start) / a, total[active])
        active, term = active[more], term[more]
    return total


def _by_recurrence(servers: float, load: float) -> float:
    """1 / B by the recurrence as it stands: for a handful of servers quicker than any array."""
    inverse = 1.0
    for k in range(1, int(servers) + 1):
        inverse = 1.0 + inverse * k / load if load else math.inf
    return inverse


def _descending(servers: Floats, load: Floats, start: int, count: int) -> Floats:
    """The next terms of the descending sum, as multiples of the last one; 0 after the end."""
    left = servers[:, None] - np.arange(start, start + count)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        terms = np.multiply.accumulate(left / load[:, None], axis=1)
    terms[left <= 0] = 0.0
    return terms


def _unfinished(term: Floats, ratio: Floats, total: Floats) -> NDArray[np.bool_]:
    """Where what remains may still be seen: each further term is less than `ratio` times the one before."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rest = np.where(ratio < 1, term * ratio / (1 - ratio), np.inf)
    visible: NDArray[np.bool_] = (term > 0) & (rest >= _NEGLIGIBLE * total) & np.isfinite(total)
    return visible


def fewest_processors(network: Network) -> dict[str, int]:
    """Processors below which an operator cannot keep up: floor(lambda/mu) + 1, so 1 where nothing arrives."""
    return dict(zip(network.names, fewest_array(network).astype(int).tolist(), strict=True))


def fewest_array(network: Network) -> Floats:
    """`fewest_processors` by position."""
    fewest: Floats = np.floor(network.load_array) + 1
    return fewest


def utilization(network: Network, processors: Mapping[str, int]) -> dict[str, float]:
    """Share of its processors that each operator keeps busy (rho in drs); 1 or more means a growing queue."""
    busy = network.load_array / processor_array(network, processors)
    return dict(zip(network.names, busy.tolist(), strict=True))


def expected_sojourns(network: Network, processors: Mapping[str, int]) -> dict[str, float]:
    """Expected seconds a tuple spends at each operator, waiting and being processed (drs eq 5).

    Raises:
        OverloadError: Some operators cannot keep up; names them, with the processors they need.
    """
    _refuse_overload(network, processors)
    sojourns = _sojourn_array(network, processor_array(network, processors))
    return dict(zip(network.names, sojourns.tolist(), strict=True))


def expected_total_sojourn(network: Network, processors: Mapping[str, int]) -> float:
    """Expected sum of the sojourn times of a tuple and all its descendants, in seconds (drs eq 4).

    Exact for Jackson networks (`Network.is_jackson`); with other variation coefficients as good as drs eq 5.
    It adds up times that forked branches spend side by side, see `expected_completion_time`.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> chain = Network((Operator("a", 10.0), Operator("b", 10.0)), (Flow("a", "b"),), {"a": 5.0})
    >>> round(expected_total_sojourn(chain, {"a": 1, "b": 1}), 6)
    0.4

    Raises:
        IdleNetworkError: Nothing enters the network.
        OverloadError: Some operators cannot keep up.
    """
    entering = network.external_rate
    if entering == 0:
        raise IdleNetworkError
    _refuse_overload(network, processors)
    sojourns = _sojourn_array(network, processor_array(network, processors))
    return float(network.arrival_array @ sojourns) / entering


def expected_tuple_latency(network: Network, processors: Mapping[str, int] | None = None) -> float:
    """Expected seconds from the entry of a tuple until one that was made of it leaves the network.

    This is what is measured at the sinks. It is the sum of drs eq 4 only where every tuple makes exactly one: that sum
    counts each of ten copies, and a filter's rest for a tenth. Without processors, nobody waits.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> fork = Network((Operator("a", 10.0), Operator("b", 100.0)), (Flow("a", "b", 10.0),), {"a": 1.0})
    >>> round(expected_tuple_latency(fork), 6)
    0.11

    Raises:
        IdleNetworkError: Nothing enters the network.
        OverloadError: Some operators cannot keep up.
    """
    if network.external_rate == 0:
        raise IdleNetworkError
    sojourns = 1.0 / network.service_array
    if processors is not None:
        _refuse_overload(network, processors)
        sojourns = _sojourn_array(network, processor_array(network, processors))
    rates = network.arrival_array
    sent = (network.gains * rates[:, None]).T
    origins = np.divide(sent, rates[:, None], out=np.zeros_like(sent), where=rates[:, None] > 0)
    elapsed = np.linalg.solve(np.eye(len(rates)) - origins, sojourns)
    leaving = np.where(network.gains.any(axis=1), 0.0, rates)
    return float(np.average(elapsed, weights=leaving if leaving.any() else rates))


def processor_array(network: Network, processors: Mapping[str, int]) -> Floats:
    """Processors by position; every operator must have at least one."""
    problems = [
        Problem(f"operator '{name}'", f"has {processors.get(name, 0)} processors", "Give it at least 1.")
        for name in network.names
        if processors.get(name, 0) < 1
    ]
    if problems:
        raise ModelError(problems)
    return np.array([processors[name] for name in network.names], dtype=float)


def _sojourn_array(network: Network, processors: Floats) -> Floats:
    waits = network.variability_array * mmk_wait(processors, network.load_array)
    if network.own_queue_array.any():
        own = own_queue_wait(processors, network.load_array, *network.scv_arrays)
        waits = np.where(network.own_queue_array, own, waits)
    sojourns: Floats = (waits + 1.0) / network.service_array
    return sojourns


def _refuse_overload(network: Network, processors: Mapping[str, int]) -> None:
    over = {name: busy for name, busy in utilization(network, processors).items() if busy >= 1}
    if over:
        needed = fewest_processors(network)
        raise OverloadError(over, {name: needed[name] for name in over})
