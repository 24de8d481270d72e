"""The time until a tuple tree is fully processed: from the input's arrival to its last descendant's end.

Without forks this is the sum of drs eq 4. With forks branches run side by side, and the time is
C_i = S_i + max over the tuples emitted of C_target, whose distribution is worked out on a lattice of times.

What is exact and what is not:

- No forks, exponential everywhere (`Network.is_jackson`): exact; loops and splits included.
- No forks, other variation: the sum is as good as drs eq 5.
- Forks: the mean of each sojourn is that of drs eq 5 and its shape that of M/M/k (two-moment fits for other
  services), and the sojourns of a tree are taken as independent. They are when nobody waits. When they do
  wait, branches forked from one tuple see similar queues, so their maximum tends to be a little smaller than
  this says (two M/M/1 branches: at most 9 % smaller). An operator that emits many tuples at once makes its
  successor's arrivals bursty; only a measured `arrival_scv` knows about that.
- `at_least` and `at_most` hold whatever the dependence, given the mean sojourn of each operator.

On the lattice 0, h, 2h, ... a time is known by the integral of its tail, I(t) = E[max(X - t, 0)]. Spreading each time
over its two neighbours turns that into probabilities, by second differences, that keep the mean exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.graphs import components
from foretide.queueing.sojourn import erlang_c, expected_sojourns, expected_total_sojourn, processor_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.queueing.network import Floats, Network

_POINTS = 4096
_TAIL = 1e-9
_SETTLED = 1e-12
_MAX_ROUNDS = 20_000
_MAX_UPDATES, _MIN_ROUNDS, _MAX_LATTICES = 8_000, 50, 40
_MAX_PHASES = 50


@dataclass(frozen=True, slots=True)
class CompletionTime:
    """Seconds until a tuple tree is fully processed.

    Attributes:
        expected: The mean.
        at_least: No dependence between branches gives less: the longest branch on average.
        at_most: Nor more: all branches one after the other, which is drs eq 4.
        exact: Whether `expected` is exact for the network as described.
    """

    expected: float
    at_least: float
    at_most: float
    exact: bool


def expected_completion_time(network: Network, processors: Mapping[str, int]) -> CompletionTime:
    """Expected time until an input and all its descendants are processed. The module says how exact it is.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> operators = Operator("read", 1000.0), Operator("left", 1.0), Operator("right", 1.0)
    >>> fork = Network(operators, (Flow("read", "left"), Flow("read", "right")), {"read": 0.01})
    >>> idle_enough = {"read": 1, "left": 5, "right": 5}
    >>> round(expected_completion_time(fork, idle_enough).expected, 3)  # 0.001 + max of two exponentials
    1.501
    >>> round(expected_total_sojourn(fork, idle_enough), 3)  # 0.001 + 1 + 1
    2.001

    Raises:
        IdleNetworkError: Nothing enters the network.
        OverloadError: Some operators cannot keep up.
    """
    total = expected_total_sojourn(network, processors)
    if not network.has_forks:
        return CompletionTime(total, total, total, exact=network.is_jackson)
    least = _longest_branch(network, np.array(list(expected_sojourns(network, processors).values())))
    expected = _expected_maximum(network, processors, horizon=2 * total)
    return CompletionTime(min(max(expected, least), total), least, total, exact=False)


def _longest_branch(network: Network, sojourns: Floats) -> float:
    """A bound from below: the mean of a maximum is no less than the maximum of the means."""
    chances = np.minimum(network.gains, 1.0)
    splits = np.array([operator.splits for operator in network.operators])
    longest = sojourns
    for _ in range(_MAX_ROUNDS):
        branches = chances * longest
        after = sojourns + np.where(splits, branches.sum(axis=1), branches.max(axis=1))
        if np.allclose(after, longest, rtol=_SETTLED, atol=0):
            break
        longest = after
    return float(network.external_array @ longest) / network.external_rate


def _expected_maximum(network: Network, processors: Mapping[str, int], horizon: float) -> float:
    """Refine the lattice until it spans all that matters and not much more."""
    for _ in range(_MAX_LATTICES):
        step = horizon / _POINTS
        tails = _tails(network, _sojourn_probabilities(network, processors, step))
        reach = int(np.count_nonzero((tails > _TAIL).any(axis=0)))
        if _POINTS // 4 <= reach < _POINTS:
            break
        horizon = 2 * max(reach, 1) * step if reach < _POINTS else 2 * horizon
    return float(network.external_array @ tails.sum(axis=1)) * step / network.external_rate


def _sojourn_probabilities(network: Network, processors: Mapping[str, int], step: float) -> Floats:
    """Each operator's sojourn time on the lattice: a wait and a service, one after the other."""
    servers = processor_array(network, processors)
    chances = erlang_c(servers, network.load_array)
    waits = np.array(list(expected_sojourns(network, processors).values())) - 1 / network.service_array
    times: Floats = step * np.arange(_POINTS + 1, dtype=np.float64)
    rows = []
    for operator, chance, wait in zip(network.operators, chances, waits, strict=True):
        waiting = lattice_probabilities(wait_tail(times, float(chance), max(float(wait), 0.0)), step)
        service = lattice_probabilities(service_tail(times, operator.service_rate, operator.service_scv), step)
        rows.append(np.fft.irfft(np.fft.rfft(waiting, 2 * _POINTS) * np.fft.rfft(service, 2 * _POINTS))[:_POINTS])
    return np.array(rows)


def _tails(network: Network, sojourns: Floats) -> Floats:
    """P(C_i > t) on the lattice, as the fixed point of C_i = S_i + max of its children's C.

    Operators are taken after those that they send to, so only loops need several rounds. Starting from trees without
    children, each round adds a generation, so a loop that dies out converges. One that hardly does is cut off.
    """
    kernels = np.fft.rfft(sojourns, 2 * _POINTS, axis=1)
    done = np.ones_like(sojourns)
    for members in reversed(components(network.successors)):
        in_loop = any(set(members) <= set(loop) for loop in network.loops)
        for _ in range(max(_MAX_UPDATES // len(members), _MIN_ROUNDS) if in_loop else 1):
            change = 0.0
            for i in reversed(members):
                children = np.fft.rfft(_all_done(network, i, done), 2 * _POINTS)
                after = np.clip(np.fft.irfft(kernels[i] * children)[:_POINTS], 0.0, 1.0)
                change = max(change, float(np.abs(after - done[i]).max()))
                done[i] = after
            if change < _SETTLED:
                break
    tails: Floats = 1.0 - done
    return tails


def _all_done(network: Network, source: int, done: Floats) -> Floats:
    """Probability, by time, that everything one tuple of the operator emits is fully processed."""
    gains = network.gains[source]
    if network.operators[source].splits:
        some: Floats = 1.0 - gains.sum() + gains @ done
        return some
    everything = np.ones(done.shape[1])
    for target in np.flatnonzero(gains).tolist():
        whole = math.floor(gains[target])
        chance = gains[target] - whole
        everything = everything * done[target] ** whole * (1.0 - chance + chance * done[target])
    return everything


def lattice_probabilities(integrated_tail: Floats, step: float) -> Floats:
    """Probabilities of 0, h, 2h, ... from I at 0, h, 2h, ... (one point fewer than given)."""
    slope = np.diff(integrated_tail) / step
    return np.concatenate(([1.0 + slope[0]], np.diff(slope)))


def wait_tail(times: Floats, chance: float, mean: float) -> Floats:
    """I(t) of a wait that is 0 but for a `chance` of an exponential one; `mean` is that of the whole.

    Exact for M/M/k; for GI/G/k the usual approximation.
    """
    if chance == 0 or mean == 0:
        return np.zeros_like(times)
    tail: Floats = mean * np.exp(-times * chance / mean)
    return tail


def service_tail(times: Floats, rate: float, scv: float) -> Floats:
    """I(t) of a service time known by its rate and squared coefficient of variation.

    The usual two-moment fits: exponential at 1, a mixture of two exponentials with balanced means above, a
    mixture of two Erlang distributions below, and a constant when the coefficient is under 1/50.
    """
    if scv == 1:
        tail: Floats = np.exp(-rate * times) / rate
        return tail
    if scv > 1:
        p = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
        fast, slow = 2 * p * rate, 2 * (1 - p) * rate
        mixed: Floats = p / fast * np.exp(-fast * times) + (1 - p) / slow * np.exp(-slow * times)
        return mixed
    if scv * _MAX_PHASES < 1:
        return np.maximum(1 / rate - times, 0.0)
    phases = math.ceil(1 / scv)
    p = (phases * scv - math.sqrt(max(phases * (1 + scv) - phases**2 * scv, 0.0))) / (1 + scv)
    speed = (phases - p) * rate
    return p * _erlang_tail(times, phases - 1, speed) + (1 - p) * _erlang_tail(times, phases, speed)


def _erlang_tail(times: Floats, phases: int, speed: float) -> Floats:
    """I(t) of a sum of exponential phases: (1/v) * sum over i < n of (n - i) * P(Poisson(v t) = i)."""
    left = speed * times
    probability = np.exp(-left)
    tail = np.zeros_like(left)
    for i in range(phases):
        tail += (phases - i) * probability
        probability = probability * left / (i + 1)
    return tail / speed
