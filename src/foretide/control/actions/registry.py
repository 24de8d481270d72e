"""What can be done to a running query, as values.

An action knows what it acts on, what it costs, how to tell from what is observed whether it is in force, and what
would bring back what is in force now. Performing it is somebody else's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.control.actions.cost import NEXT_BATCH, RESTART, SECONDS, Cost
from foretide.control.actions.executors import Quarantine, QuarantineHost, Release, ReleaseHost
from foretide.control.actions.join_plan import SetJoinPlan
from foretide.control.world.observed import Observed, Weights, shares
from foretide.errors import ActionError
from foretide.routing.ring import apportion

__all__ = [
    "ACTIONS",
    "Action",
    "Quarantine",
    "QuarantineHost",
    "Release",
    "ReleaseHost",
    "Restart",
    "SetAdmission",
    "SetExecutors",
    "SetJoinPlan",
    "SetReplicas",
    "SetSplit",
]

_SLOT = 1.5 / 1024
"""Shares closer than this are the same: rings have 1024 slots, and shares are rounded to them."""


@dataclass(frozen=True, slots=True)
class SetSplit:
    """Split an edge's stream over its tasks in a ratio."""

    kind: ClassVar[str] = "set-split"
    cost: ClassVar[Cost] = NEXT_BATCH
    edge: str
    weights: Weights

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        if not self.weights or min(self.weights) < 0 or not 0 < sum(self.weights) < float("inf"):
            raise ActionError(f"edge '{self.edge}' cannot be split as {self.weights}; give weights >= 0, one above 0")

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"edge {self.edge}"

    @property
    def amount(self) -> float | None:
        """No single number says how much."""
        return None

    def describe(self) -> str:
        """In plain words."""
        return f"split edge '{self.edge}' as {':'.join(f'{part:.0%}' for part in shares(self.weights))}"

    def in_force(self, observed: Observed) -> bool:
        """Whether tuples are split like that already."""
        now = observed.routes.get(self.edge)
        if now is None or len(now) != len(self.weights):
            return False
        return _largest(shares(now), shares(self.weights)) <= _SLOT or _is_ring_of(now, self.weights)

    def undo(self, observed: Observed) -> SetSplit | None:
        """The split that is in force now."""
        weights = observed.routes.get(self.edge)
        return None if weights is None else SetSplit(self.edge, weights)


def _largest(one: Weights, other: Weights) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _is_ring_of(counts: Weights, weights: Weights) -> bool:
    """Whether these are the slots that a ring gives to such weights; it may round a share by several of them."""
    slots = sum(counts)
    if not all(float(count).is_integer() for count in counts) or slots < len(weights):
        return False
    return tuple(counts) == apportion(weights, int(slots))


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Let the first `replicas` tasks behind an edge share its stream evenly."""

    kind: ClassVar[str] = "set-replicas"
    cost: ClassVar[Cost] = NEXT_BATCH
    edge: str
    replicas: int

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ActionError(f"edge '{self.edge}' cannot have {self.replicas} replicas; it needs at least 1")

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"edge {self.edge}"

    @property
    def amount(self) -> float | None:
        """How many replicas."""
        return float(self.replicas)

    def describe(self) -> str:
        """In plain words."""
        return f"use {self.replicas} replica{'s' if self.replicas > 1 else ''} behind edge '{self.edge}'"

    def in_force(self, observed: Observed) -> bool:
        """Whether just the first so many tasks get tuples, in whatever ratio."""
        weights = observed.routes.get(self.edge)
        if weights is None:
            return False
        return all(weights[: self.replicas]) and not any(weights[self.replicas :]) and len(weights) >= self.replicas

    def undo(self, observed: Observed) -> SetSplit | SetReplicas | None:
        """What is in force now, as a number of replicas if it is one."""
        now = observed.replicas(self.edge)
        before = None if not now else SetReplicas(self.edge, now)
        return (
            before if before is None or before.in_force(observed) else SetSplit(self.edge, observed.routes[self.edge])
        )


@dataclass(frozen=True, slots=True)
class SetExecutors:
    """Ask the cluster manager for so many executors in all."""

    kind: ClassVar[str] = "set-executors"
    cost: ClassVar[Cost] = SECONDS
    target: ClassVar[str] = "executors"
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ActionError(f"{self.count} executors run nothing; ask for at least 1")

    @property
    def amount(self) -> float | None:
        """How many executors."""
        return float(self.count)

    def describe(self) -> str:
        """In plain words."""
        return f"run on {self.count} executor{'s' if self.count > 1 else ''}"

    def in_force(self, observed: Observed) -> bool:
        """Whether so many are alive."""
        return len(observed.executors) == self.count

    def undo(self, observed: Observed) -> SetExecutors | None:
        """As many as are alive now."""
        return SetExecutors(len(observed.executors)) if observed.executors else None


@dataclass(frozen=True, slots=True)
class SetAdmission:
    """Let a spout take at most so many rows a batch; None lifts the limit."""

    kind: ClassVar[str] = "set-admission"
    cost: ClassVar[Cost] = NEXT_BATCH
    spout: str
    rows: int | None

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise ActionError(
                f"spout '{self.spout}' would never read again with a limit of {self.rows}; give 1 or more"
            )

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"spout {self.spout}"

    @property
    def amount(self) -> float | None:
        """Rows a batch; without end when there is no limit."""
        return float("inf") if self.rows is None else float(self.rows)

    def describe(self) -> str:
        """In plain words."""
        if self.rows is None:
            return f"let spout '{self.spout}' take whatever is due"
        return f"let spout '{self.spout}' take at most {self.rows:,} rows a batch"

    def in_force(self, observed: Observed) -> bool:
        """Whether that is the limit already."""
        return observed.admission.get(self.spout) == self.rows

    def undo(self, observed: Observed) -> SetAdmission:
        """The limit that is in force now."""
        return SetAdmission(self.spout, observed.admission.get(self.spout))


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the query again from its checkpoint, with what nothing live can change.

    Attributes:
        reason: In plain words.
        state_partitions: Partitions that Spark's state is to have; None leaves them.
        pools: Tasks there are to be, by edge; edges not named keep theirs.
        after: A start after this time (seconds since 1970) counts as done. None: what is to be changed tells.
    """

    kind: ClassVar[str] = "restart"
    cost: ClassVar[Cost] = RESTART
    target: ClassVar[str] = "query"
    amount: ClassVar[float | None] = None
    reason: str
    state_partitions: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    after: float | None = None

    def __post_init__(self) -> None:
        if min([self.state_partitions or 1, *self.pools.values()]) < 1:
            raise ActionError(
                f"a restart with {self.state_partitions} state partitions and pools {dict(self.pools)}: at least 1 each"
            )
        if self.state_partitions is None and not self.pools and self.after is None:
            raise ActionError(
                "a restart that changes nothing needs `after`, the time from which a start counts as done"
            )

    def describe(self) -> str:
        """In plain words."""
        changes = [f"a pool of {tasks} behind '{edge}'" for edge, tasks in self.pools.items()]
        if self.state_partitions is not None:
            changes.insert(0, f"{self.state_partitions} state partitions")
        return "restart the query" + (f" with {' and '.join(changes)}" if changes else "") + f": {self.reason}"

    def in_force(self, observed: Observed) -> bool:
        """Whether it has been started since, and with all that."""
        partitions = self.state_partitions is None or observed.state_partitions == self.state_partitions
        pools = all(observed.pools.get(edge) == tasks for edge, tasks in self.pools.items())
        return partitions and pools and (self.after is None or observed.started > self.after)

    def undo(self, observed: Observed) -> None:  # noqa: ARG002 - as all actions have it
        """A restart is not undone by another one."""
        return


Action = (
    SetSplit
    | SetReplicas
    | Quarantine
    | Release
    | QuarantineHost
    | ReleaseHost
    | SetExecutors
    | SetAdmission
    | SetJoinPlan
    | Restart
)
"""Anything that can be done."""

ACTIONS: tuple[type[Action], ...] = (
    SetSplit,
    SetReplicas,
    Quarantine,
    Release,
    QuarantineHost,
    ReleaseHost,
    SetExecutors,
    SetAdmission,
    SetJoinPlan,
    Restart,
)
"""All kinds of actions."""
