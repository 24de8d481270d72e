"""A query as the control loop knows it: what it is made of, what is in force, and the target.

What is in force is as Spark reports it: not what was planned, and not what was requested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded
from foretide.durations import Seconds, parse_duration
from foretide.errors import ControlError
from foretide.joins.plan import JoinPlan
from foretide.queueing.model import Mode

ControlMode = Literal["act", "advise"]
Quantile = Literal["mean", "p50", "p95", "p99"]


@dataclass(frozen=True, slots=True)
class OperatorSetup:
    """A spout or bolt as the control loop sees it.

    Attributes:
        pool: Tasks that there are, active or not.
        edge: The edge in front of it whose route can be changed; None if there is none.
        spout: Whether it reads from outside.
        stateful: Whether it keeps state; its tasks then stay where they are.
        balance_every: Seconds after which a load-aware edge is split again; None if it is not load-aware.
    """

    name: str
    pool: int = 1
    edge: str | None = None
    spout: bool = False
    stateful: bool = False
    balance_every: float | None = None

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise ControlError(f"the pool of operator '{self.name}' must be 1 or more, got {self.pool}")


@dataclass(frozen=True)
class Setup:
    """A query and what can be done to it.

    Attributes:
        operators: From the spouts on.
        flows: Which operator sends to which.
        mode: `micro-batch` (stages one after another) or `pipeline` (all at the same time: Spark's real-time mode).
        cores_per_executor: Tasks that an executor runs at the same time.
        executors: The minimum and maximum number of executors; None if it cannot be changed.
        trigger: Minimum seconds between the starts of two batches.
        can_quarantine: Whether executors can be taken out and let back in.
        can_admit: Spouts whose admission limit can be changed while they run.
        admit_by_restart: Spouts whose admission limit takes a restart.
        can_enlarge: Whether a restart can give edges larger pools.
        can_repartition: Whether a restart can give Spark's state another number of partitions.
        slots: Slots that all tasks of a pipeline need at the same time; 0 where tasks take turns.
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
    admit_by_restart: frozenset[str] = frozenset()
    slots: int = 0
    can_enlarge: bool = False
    can_repartition: bool = False

    @cached_property
    def by_name(self) -> dict[str, OperatorSetup]:
        """The operators by name."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def by_edge(self) -> dict[str, OperatorSetup]:
        """The operators whose route can be changed, by their edge."""
        return {operator.edge: operator for operator in self.operators if operator.edge is not None}

    @cached_property
    def spouts(self) -> tuple[str, ...]:
        """Operators that read from outside."""
        return tuple(operator.name for operator in self.operators if operator.spout)

    def with_held(self, held: Collection[str], observed: Observed) -> Setup:
        """The setup in which held edges and limits are fixed: policies plan with them, and leave them alone."""
        if not held:
            return self
        fixed = tuple(
            replace(part, edge=None, pool=observed.replicas(part.edge) or part.pool)
            if part.edge is not None and f"edge {part.edge}" in held
            else part
            for part in self.operators
        )
        limits = {f"spout {spout}": spout for spout in (*self.can_admit, *self.admit_by_restart)}
        kept = frozenset(spout for subject, spout in limits.items() if subject in held)
        return replace(
            self, operators=fixed, can_admit=self.can_admit - kept, admit_by_restart=self.admit_by_restart - kept
        )


@dataclass(frozen=True, slots=True)
class Target(Bounded):
    """What the control loop has to hold. It may change from one control cycle to the next."""

    section: ClassVar[str] = "target"

    latency: Annotated[
        Seconds | None, Gt(0), Doc("T_max, seconds that tuples may take; none if there is no latency target.")
    ] = None
    relaxed: Annotated[Seconds, Ge(0), Doc("T_min, seconds below which processors may be given back.")] = 0.0
    quantile: Annotated[
        Quantile, Doc("The latency that is held: the mean, or the one that half, 95 % or 99 % of the tuples keep.")
    ] = "p99"
    budget: Annotated[
        int | None,
        Ge(1),
        Doc("K_max, maximum processors (cores, in micro-batches) to use; none for as many as there are."),
    ] = None

    def conflicts(self) -> Iterator[str]:
        """T_min is below T_max."""
        if self.latency is not None and self.relaxed >= self.latency:
            yield f"target.relaxed must be less than target.latency ({self.latency:g} s), got {self.relaxed:g} s"

    @property
    def metric(self) -> str:
        """The metric of the query that is held."""
        return f"latency_{self.quantile}_ms"


Weights = tuple[float, ...]


@dataclass(frozen=True)
class Observed:
    """What is in force.

    Attributes:
        routes: Weights of the tasks behind each edge: slots, or any numbers in that ratio.
        route_version: The version of the table that the last batch read.
        executors: Workers that are alive, and the host of each.
        quarantined: Workers that get no tasks.
        young: Workers that ran in too few batches to be judged, as every worker starts slowly.
        drained: Workers and hosts that a person took out; policies leave them alone.
        admission: Maximum rows of a batch by spout; a spout that is not named has no limit.
        placements: The worker of each task behind an edge, if tasks stay in place; None for unknown ones.
        pools: Number of tasks by edge, active or not.
        restart_order: The id of the order for which the query was restarted last.
        idle: Workers that have not run a task yet.
    """

    routes: Mapping[str, Weights] = field(default_factory=dict)
    route_version: int | None = None
    executors: Mapping[str, str] = field(default_factory=dict)
    quarantined: frozenset[str] = frozenset()
    young: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    admission: Mapping[str, int | None] = field(default_factory=dict)
    placements: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    state_partitions: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    restart_order: str | None = None
    joins: Mapping[str, JoinPlan] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()

    def replicas(self, edge: str) -> int | None:
        """Tasks behind an edge that get tuples; None if its route is not known."""
        weights = self.routes.get(edge)
        return None if weights is None else len(weights) - weights.count(0)

    def shares(self, edge: str) -> Weights | None:
        """The part of the stream that each task gets."""
        weights = self.routes.get(edge)
        return None if weights is None else shares(weights)

    def on_host(self, host: str) -> frozenset[str]:
        """The live workers of a host."""
        return frozenset(worker for worker, where in self.executors.items() if where == host)

    @cached_property
    def in_service(self) -> frozenset[str]:
        """Live workers that get tasks."""
        return frozenset(self.executors) - self.quarantined

    def is_drained(self, worker: str) -> bool:
        """Whether a person took out the worker, or its host."""
        return worker in self.drained or self.executors.get(worker) in self.drained


def shares(weights: Weights) -> Weights:
    """Weights as parts of 1."""
    total = sum(weights)
    return tuple(weight / total for weight in weights) if total > 0 else weights


_FULL_SHARE = 0.1


def full_tasks(weights: Weights) -> list[int]:
    """Tasks with an ordinary share: not those with next to nothing, to see whether their worker is still slow.

    >>> full_tasks((340.0, 5.0, 0.0, 339.0, 340.0))
    [0, 3, 4]
    """
    least = _FULL_SHARE * max(weights, default=0.0)
    return [task for task, weight in enumerate(weights) if weight > 0 and weight >= least]


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
    """A latency target for one quantile of the tuples.

    >>> Latency(p99="2s", relaxed="500 ms")
    Target(latency=2.0, relaxed=0.5, quantile='p99', budget=None)

    Args:
        p99: Maximum latency of 99 % of the tuples.
        p95: Maximum latency of 95 % of them.
        p50: Maximum latency of half of them.
        mean: Maximum mean latency.
        relaxed: T_min: below it, processors may be freed.
        budget: K_max: maximum number of processors; None for all there are.
    """
    wanted: dict[Quantile, Duration | None] = {"p99": p99, "p95": p95, "p50": p50, "mean": mean}
    given = [(quantile, value) for quantile, value in wanted.items() if value is not None]
    if len(given) != 1:
        names = ", ".join(quantile for quantile, _ in given) or "none"
        raise ControlError(f"a latency target needs exactly one of {', '.join(wanted)}, got {names}")
    quantile, latency = given[0]
    return Target(parse_duration(latency), parse_duration(relaxed), quantile, budget)
