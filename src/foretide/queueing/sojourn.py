"""How long tuples stay in a network: utilization, sojourn time by operator, and their sum (drs eqs 1-5).

The sum answers "how much time do a tuple and all its descendants spend in the operators, added up". With
forks that is NOT the time until the last descendant is processed: for that see `completion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import IdleNetworkError, ModelError, OverloadError, Problem
from foretide.queueing.erlang import mmk_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from foretide.queueing.network import Network

    Floats = NDArray[np.float64]

_ROUNDING = 1e-12


def fewest_processors(network: Network) -> dict[str, int]:
    """Processors below which an operator cannot keep up: floor(lambda/mu) + 1, so 1 where nothing arrives.

    A load that is a whole number but for rounding counts as whole.
    """
    return dict(zip(network.names, fewest_array(network).astype(int).tolist(), strict=True))


def fewest_array(network: Network) -> Floats:
    """`fewest_processors` by position."""
    fewest: Floats = np.floor(network.load_array * (1 + _ROUNDING)) + 1
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
    sojourns: Floats = (waits + 1.0) / network.service_array
    return sojourns


def _refuse_overload(network: Network, processors: Mapping[str, int]) -> None:
    over = {name: busy for name, busy in utilization(network, processors).items() if busy >= 1}
    if over:
        needed = fewest_processors(network)
        raise OverloadError(over, {name: needed[name] for name in over})
