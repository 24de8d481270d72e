"""What does not change while a query runs: its operators, what of it can be steered, and how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from foretide.durations import Seconds, parse_duration
from foretide.errors import ControlSettingError
from foretide.queueing.model import Mode

Quantile = Literal["mean", "p50", "p95", "p99"]


@dataclass(frozen=True, slots=True)
class OperatorSetup:
    """A spout or bolt as the control loop sees it.

    Attributes:
        name: As in the metrics.
        pool: Tasks that there are, active or not.
        edge: The edge in front of it that a route steers; None where nothing can be steered.
        spout: Whether it reads from outside.
        stateful: Whether it keeps state; its tasks then stay where they are.
    """

    name: str
    pool: int = 1
    edge: str | None = None
    spout: bool = False
    stateful: bool = False

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise ControlSettingError(f"operator '{self.name}' has a pool of {self.pool}; it needs at least 1 task")


@dataclass(frozen=True)
class Setup:
    """A query and what can be done to it.

    Attributes:
        query: Its name.
        operators: From the spouts on.
        flows: Which operator sends to which.
        mode: `micro-batch` (stages one after another) or `pipeline` (all at the same time: Spark's real-time mode).
        cores_per_executor: Tasks that an executor runs at the same time.
        executors: The least and the most executors that may be asked for; None if their number cannot be changed.
        trigger: Least seconds between the starts of two batches.
        can_quarantine: Whether executors can be taken out and let back in.
        can_admit: Spouts whose admission limit can be changed while they run.
    """

    query: str
    operators: tuple[OperatorSetup, ...] = ()
    flows: tuple[tuple[str, str], ...] = ()
    mode: Mode = "micro-batch"
    cores_per_executor: int = 1
    executors: tuple[int, int] | None = None
    trigger: float = 0.0
    can_quarantine: bool = True
    can_admit: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> dict[str, OperatorSetup]:
        """The operators by name."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def by_edge(self) -> dict[str, OperatorSetup]:
        """The operators that can be steered, by their edge."""
        return {operator.edge: operator for operator in self.operators if operator.edge is not None}

    @cached_property
    def spouts(self) -> tuple[str, ...]:
        """Operators that read from outside."""
        return tuple(operator.name for operator in self.operators if operator.spout)


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be held. It may change from one control cycle to the next.

    Attributes:
        latency: T_max, seconds that tuples may take; None if latency is not to be held.
        relaxed: T_min, seconds below which processors may be given back.
        quantile: Of which tuples: their mean, or the slowest half, 5 % or 1 %.
        budget: K_max, most processors (cores, in micro-batches) to use; None for as many as there are.
    """

    latency: Seconds | None = None
    relaxed: Seconds = 0.0
    quantile: Quantile = "p99"
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.latency is not None and not 0 <= self.relaxed < self.latency < float("inf"):
            raise ControlSettingError(
                f"a latency target of {self.latency:g} s with T_min {self.relaxed:g} s; give 0 <= T_min < T_max"
            )
        if not self.relaxed >= 0:
            raise ControlSettingError(f"a T_min of {self.relaxed:g} s; give seconds, 0 or more")
        if self.budget is not None and self.budget < 1:
            raise ControlSettingError(f"a budget of {self.budget} processors; give at least 1, or none at all")

    @property
    def metric(self) -> str:
        """The metric of the query that is held."""
        return f"latency_{self.quantile}_ms"


Duration = str | float
"""Seconds, or text such as "2s" or "500 ms"."""


def Latency(  # noqa: N802 - reads as the value that it makes
    *,
    p99: Duration | None = None,
    p95: Duration | None = None,
    p50: Duration | None = None,
    mean: Duration | None = None,
    relaxed: Duration = 0.0,
    budget: int | None = None,
) -> Target:
    """The latency to hold, for one quantile of the tuples.

    >>> Latency(p99="2s", relaxed="500 ms")
    Target(latency=2.0, relaxed=0.5, quantile='p99', budget=None)

    Args:
        p99: What 99 of 100 tuples are to stay below.
        p95: What 95 of 100 are to stay below.
        p50: What half of them are to stay below.
        mean: What they are to take on average.
        relaxed: Below which processors may be given back.
        budget: Most processors to use; None for as many as there are.
    """
    wanted: dict[Quantile, Duration | None] = {"p99": p99, "p95": p95, "p50": p50, "mean": mean}
    given = [(quantile, value) for quantile, value in wanted.items() if value is not None]
    if len(given) != 1:
        said = ", ".join(quantile for quantile, _ in given) or "none of them"
        raise ControlSettingError(f"a latency target holds one of {', '.join(wanted)}, and {said} was given; give one")
    quantile, latency = given[0]
    return Target(parse_duration(latency), parse_duration(relaxed), quantile, budget)
