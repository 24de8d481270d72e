"""Actions on executors: how many there are, and which of them, alone or by host, get tasks.

Taking an executor out works for stateless and stateful stages alike: Spark reloads the state it held elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from foretide.control.actions.action import SECONDS, BaseAction, Cost
from foretide.control.world.observed import Observed
from foretide.errors import ActionError


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
        """Whether that many are alive."""
        return len(observed.executors) == self.count

    def undo(self, observed: Observed) -> SetExecutors | None:
        """As many as are alive now."""
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
        """Let it back in, unless it is out already."""
        return None if self.in_force(observed) else Release(self.worker)


@dataclass(frozen=True, slots=True)
class Release(_WorkerAction):
    """Let a worker have tasks again."""

    kind: ClassVar[str] = "release"

    def describe(self) -> str:
        return f"let worker {self.worker} have tasks again"

    def in_force(self, observed: Observed) -> bool:
        """Whether it is not quarantined."""
        return self.worker not in observed.quarantined

    def undo(self, observed: Observed) -> Quarantine | None:
        """Take it out again, if it is out now."""
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
        """Whether none of them gets any."""
        return observed.on_host(self.host) <= observed.quarantined

    def undo(self, observed: Observed) -> ReleaseHost | None:
        """Let them back in, unless all are out already."""
        return None if self.in_force(observed) else ReleaseHost(self.host)


@dataclass(frozen=True, slots=True)
class ReleaseHost(_HostAction):
    """Let the workers of a host have tasks again."""

    kind: ClassVar[str] = "release-host"

    def describe(self) -> str:
        return f"let the workers of host {self.host} have tasks again"

    def in_force(self, observed: Observed) -> bool:
        """Whether none of them is quarantined."""
        return not observed.on_host(self.host) & observed.quarantined

    def undo(self, observed: Observed) -> QuarantineHost | None:
        """Take them out again, if all are out now."""
        return QuarantineHost(self.host) if QuarantineHost(self.host).in_force(observed) else None
