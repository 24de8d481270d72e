"""Actions on executors (how many there are, and which of them get tasks), and the restart of the query.

Taking an executor out works for stateless and stateful stages alike: Spark reloads the state it held elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.control.actions.action import RESTART, SECONDS, BaseAction, Cost
from foretide.control.world.setup import Observed
from foretide.errors import ActionError

QUERY = "query"
"""The target of a restart: everything."""


@dataclass(frozen=True, slots=True)
class SetExecutors(BaseAction):
    """Ask the cluster manager for `count` executors in all."""

    kind: ClassVar[str] = "set-executors"
    cost: ClassVar[Cost] = SECONDS
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ActionError(f"the number of executors must be 1 or more, got {self.count}")

    @property
    def target(self) -> str:
        return "executors"

    def describe(self) -> str:
        return f"run on {self.count} executor{'s' if self.count > 1 else ''}"

    def in_force(self, observed: Observed) -> bool:
        return len(observed.executors) == self.count

    def undo(self, observed: Observed) -> SetExecutors | None:
        return SetExecutors(len(observed.executors)) if observed.executors else None

    @property
    def amount(self) -> float:
        return float(self.count)

    def amount_now(self, observed: Observed) -> float:
        return float(len(observed.executors))

    def with_amount(self, amount: float) -> SetExecutors:
        return SetExecutors(int(amount))


@dataclass(frozen=True, slots=True)
class _WorkerAction(BaseAction):
    worker: str

    @property
    def target(self) -> str:
        return f"worker {self.worker}"


@dataclass(frozen=True, slots=True)
class Quarantine(_WorkerAction):
    """Give a worker no more tasks."""

    kind: ClassVar[str] = "quarantine"

    def describe(self) -> str:
        return f"give worker {self.worker} no more tasks"

    def in_force(self, observed: Observed) -> bool:
        """Whether it gets none already, or is gone."""
        return self.worker in observed.quarantined or self.worker not in observed.executors

    def undo(self, observed: Observed) -> Release | None:
        return None if self.in_force(observed) else Release(self.worker)


@dataclass(frozen=True, slots=True)
class Release(_WorkerAction):
    """Let a worker have tasks again."""

    kind: ClassVar[str] = "release"

    def describe(self) -> str:
        return f"let worker {self.worker} have tasks again"

    def in_force(self, observed: Observed) -> bool:
        return self.worker not in observed.quarantined

    def undo(self, observed: Observed) -> Quarantine | None:
        return None if self.in_force(observed) else Quarantine(self.worker)


@dataclass(frozen=True, slots=True)
class _HostAction(BaseAction):
    host: str

    @property
    def target(self) -> str:
        return f"host {self.host}"


@dataclass(frozen=True, slots=True)
class QuarantineHost(_HostAction):
    """Give no worker of a host any more tasks."""

    kind: ClassVar[str] = "quarantine-host"

    def describe(self) -> str:
        return f"give the workers of host {self.host} no more tasks"

    def in_force(self, observed: Observed) -> bool:
        return observed.on_host(self.host) <= observed.quarantined

    def undo(self, observed: Observed) -> ReleaseHost | None:
        return None if self.in_force(observed) else ReleaseHost(self.host)


@dataclass(frozen=True, slots=True)
class ReleaseHost(_HostAction):
    """Let the workers of a host have tasks again."""

    kind: ClassVar[str] = "release-host"

    def describe(self) -> str:
        return f"let the workers of host {self.host} have tasks again"

    def in_force(self, observed: Observed) -> bool:
        return not observed.on_host(self.host) & observed.quarantined

    def undo(self, observed: Observed) -> QuarantineHost | None:
        """Take them out again, if all are out now."""
        return QuarantineHost(self.host) if QuarantineHost(self.host).in_force(observed) else None


@dataclass(frozen=True, slots=True)
class Restart(BaseAction):
    """Start the query again from its checkpoint.

    Attributes:
        reason: In plain English.
        state_partitions: New number of partitions of Spark's state; None leaves it.
        pools: New number of tasks by edge; edges that are not named keep theirs.
        admission: New limit of rows a batch by spout, for sources that read theirs at the start; None lifts it.
        order: The id of the order that it obeys. None: the changes themselves show that it was made.
    """

    kind: ClassVar[str] = "restart"
    cost: ClassVar[Cost] = RESTART
    reason: str
    state_partitions: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    order: str | None = None
    admission: Mapping[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = [1 if rows is None else rows for rows in self.admission.values()]
        if min([self.state_partitions or 1, *self.pools.values(), *limits]) < 1:
            given = f"{self.state_partitions}, {dict(self.pools)} and {dict(self.admission)}"
            raise ActionError(f"state partitions, pools and admission limits must be 1 or more, got {given}")
        if self.state_partitions is None and not self.pools and not self.admission and self.order is None:
            raise ActionError("a restart that changes nothing needs `order`, by which it is known once it was made")

    @property
    def target(self) -> str:
        return QUERY

    def describe(self) -> str:
        changes = [f"a pool of {tasks} behind '{edge}'" for edge, tasks in self.pools.items()]
        changes += [f"{'no limit' if rows is None else f'{rows} rows a batch'} of '{spout}'"
                    for spout, rows in self.admission.items()]  # fmt: skip
        if self.state_partitions is not None:
            changes.insert(0, f"{self.state_partitions} state partitions")
        return "restart the query" + (f" with {' and '.join(changes)}" if changes else "") + f": {self.reason}"

    def in_force(self, observed: Observed) -> bool:
        """Whether the query was restarted for it, and with all the changes."""
        partitions = self.state_partitions is None or observed.state_partitions == self.state_partitions
        pools = all(observed.pools.get(edge) == tasks for edge, tasks in self.pools.items())
        limits = all(observed.admission.get(spout) == rows for spout, rows in self.admission.items())
        return partitions and pools and limits and self.order in (None, observed.restart_order)

    def undo(self, observed: Observed) -> None:
        """A restart is not undone by another one."""
        del observed
