"""Erlang's formulas and the M/M/k queue, stable for any number of servers.

Everything here is vectorised and in units of its arguments: a load is offered work in servers (lambda / mu),
a wait is in mean service times unless a rate is given. No factorial is ever formed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

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
