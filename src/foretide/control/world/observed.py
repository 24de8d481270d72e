"""What is in force, as Spark reports it: not what was planned, and not what was requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.joins.plan import JoinPlan

Weights = tuple[float, ...]


@dataclass(frozen=True, slots=True)
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
        state_partitions: Partitions of Spark's state.
        pools: Number of tasks by edge, active or not.
        joins: The plan of each join.
        started: When the query was started last, in seconds since 1970.
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
    started: float = 0.0
    joins: Mapping[str, JoinPlan] = field(default_factory=dict)

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

    @property
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
