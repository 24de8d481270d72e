"""Open networks of operators: what flows where, and how much of it arrives at each operator.

The network is a value; nothing here knows about processors, Spark or time. For processors and waiting see `sojourn`,
for plans `foretide.planning`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import LoopGainError, ModelError, Problem
from foretide.graphs import loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Operator:
    """A bolt or spout: what one of its processors can do.

    Attributes:
        name: Unique within the network.
        service_rate: Tuples a second that one processor handles (mu in drs); above 0.
        service_scv: Squared coefficient of variation of the service time (s in drs eq 5): 0 when constant,
            1 when exponential.
        arrival_scv: The same of the time between arrivals (a in drs eq 5): 1 for a Poisson stream.
        splits: True if a processed tuple goes along at most ONE of the outgoing flows, with the gains as
            probabilities. False (a fork) if every flow gets its own tuples: of a gain of 2.3 two always and
            a third with probability 0.3, independently of the other flows.
        own_queues: True if each processor has a queue of its own, and tuples are assigned to one at random when they
            arrive: tasks of Spark's real-time mode. False for one queue that all processors take from, as in drs.
    """

    name: str
    service_rate: float
    service_scv: float = 1.0
    arrival_scv: float = 1.0
    splits: bool = False
    own_queues: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """A stream from one operator to another, or back to itself.

    Attributes:
        source: Name of the operator that emits.
        target: Name of the operator that receives.
        gain: Tuples sent to the target for each tuple the source has processed; 0.1 and 50 are both fine.
    """

    source: str
    target: str
    gain: float = 1.0


@dataclass(frozen=True)
class Network:
    """Operators, the flows between them, and what enters from outside.

    The traffic equations (lambda_i = external_i + sum over j of lambda_j * gain_ji) are solved on first use.
    Loops are welcome as long as they return less than they take in.

    >>> detect = Operator("detect", service_rate=20.0)
    >>> loop = Network((detect,), (Flow("detect", "detect", 0.5),), {"detect": 10.0})
    >>> loop.arrival_rates
    {'detect': 20.0}
    >>> loop.visits
    {'detect': 2.0}

    Attributes:
        operators: In the order in which every answer lists them.
        flows: At most one for each pair of operators.
        external: Tuples a second entering at an operator from outside; those not named get none.

    Raises:
        ModelError: A rate, gain or name is invalid; lists every problem.
        LoopGainError: A loop returns at least as much as it takes in; names its operators.
    """

    operators: tuple[Operator, ...]
    flows: tuple[Flow, ...] = ()
    external: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(self.operators))
        object.__setattr__(self, "flows", tuple(self.flows))
        problems = [*_operator_problems(self.operators), *_flow_problems(self), *_external_problems(self)]
        if problems:
            raise ModelError(problems)
        self._refuse_growing_loops()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The operators' names, in order."""
        return tuple(operator.name for operator in self.operators)

    def operator(self, name: str) -> Operator:
        """The operator of that name; KeyError if there is none."""
        return self.operators[self.index[name]]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Position of each operator in `operators` and in every array."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    @cached_property
    def gains(self) -> Floats:
        """Matrix of gains: row = source, column = target."""
        matrix = np.zeros((len(self.operators), len(self.operators)))
        for flow in self.flows:
            matrix[self.index[flow.source], self.index[flow.target]] = flow.gain
        return matrix

    @cached_property
    def successors(self) -> Mapping[int, list[int]]:
        """Positions of the operators that each one sends tuples to."""
        return {index: np.flatnonzero(row).tolist() for index, row in enumerate(self.gains)}

    @cached_property
    def loops(self) -> list[tuple[int, ...]]:
        """Positions of the operators of each loop: those that reach one another, or themselves."""
        return loops(self.successors)

    def _refuse_growing_loops(self) -> None:
        """Check each loop by itself.

        A chain with gains of 50 is nilpotent and harmless, yet its eigenvalues as one big matrix are so
        ill-conditioned that rounding can push them past 1.
        """
        for members in self.loops:
            block = self.gains[np.ix_(members, members)]
            radius = float(np.abs(np.linalg.eigvals(block)).max())
            if radius >= 1 - 1e-12:
                raise LoopGainError([self.names[i] for i in members], radius)

    @cached_property
    def external_array(self) -> Floats:
        """External arrival rates by position."""
        return np.array([self.external.get(name, 0.0) for name in self.names], dtype=float)

    @cached_property
    def external_rate(self) -> float:
        """Tuples a second entering from outside in all: lambda_0 in drs."""
        return float(self.external_array.sum())

    @cached_property
    def arrival_array(self) -> Floats:
        """Arrival rates lambda_i by position: the solved traffic equations."""
        if not self.flows:
            return self.external_array
        system = np.eye(len(self.operators)) - self.gains.T
        rates: Floats = np.maximum(np.linalg.solve(system, self.external_array), 0.0)
        return rates

    @cached_property
    def service_array(self) -> Floats:
        """Service rates mu_i of one processor by position."""
        return np.array([operator.service_rate for operator in self.operators], dtype=float)

    @cached_property
    def load_array(self) -> Floats:
        """Offered work lambda_i / mu_i by position: processors kept busy on average.

        A load that is a whole number but for rounding is that number (0.6 / 0.2 is 3), so that every comparison of
        a load with a number of processors gives the same answer.
        """
        with np.errstate(over="ignore"):
            loads = self.arrival_array / self.service_array
        whole = np.rint(loads)
        with np.errstate(invalid="ignore"):
            exact: Floats = np.where(np.abs(loads - whole) <= _ROUNDING * whole, whole, loads)
        return exact

    @cached_property
    def variability_array(self) -> Floats:
        """What drs eq 5 multiplies the M/M/k wait by, (a_i + s_i) / 2, by position."""
        return np.array([(operator.arrival_scv + operator.service_scv) / 2 for operator in self.operators])

    @cached_property
    def own_queue_array(self) -> NDArray[np.bool_]:
        """Which operators have a queue for each processor, by position."""
        return np.array([operator.own_queues for operator in self.operators], dtype=bool)

    @cached_property
    def scv_arrays(self) -> tuple[Floats, Floats]:
        """Squared variation coefficients of arrivals and of services, by position."""
        arrivals = np.array([operator.arrival_scv for operator in self.operators], dtype=float)
        return arrivals, np.array([operator.service_scv for operator in self.operators], dtype=float)

    @property
    def arrival_rates(self) -> dict[str, float]:
        """Tuples a second arriving at each operator, from outside and inside."""
        return dict(zip(self.names, self.arrival_array.tolist(), strict=True))

    @property
    def visits(self) -> dict[str, float]:
        """Tuples each operator handles for one that enters the network; all 0 when nothing enters."""
        entering = self.external_rate
        visits = self.arrival_array / entering if entering > 0 else np.zeros(len(self.operators))
        return dict(zip(self.names, visits.tolist(), strict=True))

    @cached_property
    def has_forks(self) -> bool:
        """True if an operator may emit several tuples for one: sum and completion time then differ."""
        return any(
            float(row.max()) > 1 or (np.count_nonzero(row) > 1 and not operator.splits)
            for operator, row in zip(self.operators, self.gains, strict=True)
        )

    @property
    def is_jackson(self) -> bool:
        """True if the M/M/k formulas are exact: exponential everywhere, and no forks."""
        exponential = all(o.service_scv == 1 and o.arrival_scv == 1 for o in self.operators)
        return exponential and not self.has_forks


def _bad(value: float, *, zero: bool) -> bool:
    return not math.isfinite(value) or value < 0 or (value == 0 and not zero)


def _operator_problems(operators: Sequence[Operator]) -> Iterator[Problem]:
    if not operators:
        yield Problem("network", "has no operators", "Name at least one.")
    for name, count in Counter(operator.name for operator in operators).items():
        if count > 1:
            yield Problem(f"operator '{name}'", f"is defined {count} times", "Give each operator its own name.")
    for operator in operators:
        where = f"operator '{operator.name}'"
        if _bad(operator.service_rate, zero=False):
            yield Problem(where, f"service_rate is {operator.service_rate:g}", "Give a finite rate above 0.")
        for what in ("service_scv", "arrival_scv"):
            value: float = getattr(operator, what)
            if _bad(value, zero=True):
                yield Problem(where, f"{what} is {value:g}", "Give a finite number, 0 or more.")


def _flow_problems(network: Network) -> Iterator[Problem]:
    names = set(network.names)
    for (source, target), count in Counter((f.source, f.target) for f in network.flows).items():
        where = f"flow {source} -> {target}"
        if count > 1:
            yield Problem(where, f"is defined {count} times", "Add their gains up into one flow.")
        for end in sorted({source, target} - names):
            yield Problem(where, f"there is no operator '{end}'", f"Choose from {', '.join(sorted(names))}.")
    for flow in network.flows:
        if _bad(flow.gain, zero=True):
            where = f"flow {flow.source} -> {flow.target}"
            yield Problem(where, f"gain is {flow.gain:g}", "Give a finite number, 0 or more.")
    for operator in network.operators:
        total = math.fsum(f.gain for f in network.flows if f.source == operator.name)
        if operator.splits and total > 1 + 1e-9:
            where = f"operator '{operator.name}'"
            yield Problem(where, f"splits, but its gains add up to {total:g}", "Probabilities add up to 1 at most.")


def _external_problems(network: Network) -> Iterator[Problem]:
    names = set(network.names)
    for name, rate in network.external.items():
        where = f"arrivals at '{name}'"
        if name not in names:
            yield Problem(where, "there is no such operator", f"Choose from {', '.join(sorted(names))}.")
        if _bad(rate, zero=True):
            yield Problem(where, f"the rate is {rate:g}", "Give a finite rate, 0 or more.")
