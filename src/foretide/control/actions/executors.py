"""Taking workers and hosts out, and letting them back in. Works for stateless and stateful stages alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from foretide.control.actions.cost import NEXT_BATCH, Cost
from foretide.control.world.observed import Observed


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Give a worker no more tasks. Spark reloads the state it held elsewhere."""

    kind: ClassVar[str] = "quarantine"
    cost: ClassVar[Cost] = NEXT_BATCH
    amount: ClassVar[float | None] = None
    worker: str

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"worker {self.worker}"

    def describe(self) -> str:
        """In plain words."""
        return f"give worker {self.worker} no more tasks"

    def in_force(self, observed: Observed) -> bool:
        """Whether it gets none already, or is gone."""
        return self.worker in observed.quarantined or self.worker not in observed.executors

    def undo(self, observed: Observed) -> Release | None:
        """Let it back in, unless it is out already."""
        return None if self.in_force(observed) else Release(self.worker)


@dataclass(frozen=True, slots=True)
class Release:
    """Let a worker have tasks again."""

    kind: ClassVar[str] = "release"
    cost: ClassVar[Cost] = NEXT_BATCH
    amount: ClassVar[float | None] = None
    worker: str

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"worker {self.worker}"

    def describe(self) -> str:
        """In plain words."""
        return f"let worker {self.worker} have tasks again"

    def in_force(self, observed: Observed) -> bool:
        """Whether it is not quarantined."""
        return self.worker not in observed.quarantined

    def undo(self, observed: Observed) -> Quarantine | None:
        """Take it out again, if it is out now."""
        return None if self.in_force(observed) else Quarantine(self.worker)


@dataclass(frozen=True, slots=True)
class QuarantineHost:
    """Give no worker of a host any more tasks."""

    kind: ClassVar[str] = "quarantine-host"
    cost: ClassVar[Cost] = NEXT_BATCH
    amount: ClassVar[float | None] = None
    host: str

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"host {self.host}"

    def describe(self) -> str:
        """In plain words."""
        return f"give the workers of host {self.host} no more tasks"

    def in_force(self, observed: Observed) -> bool:
        """Whether none of them gets any."""
        return observed.on_host(self.host) <= observed.quarantined

    def undo(self, observed: Observed) -> ReleaseHost | None:
        """Let them back in, unless all are out already."""
        return None if self.in_force(observed) else ReleaseHost(self.host)


@dataclass(frozen=True, slots=True)
class ReleaseHost:
    """Let the workers of a host have tasks again."""

    kind: ClassVar[str] = "release-host"
    cost: ClassVar[Cost] = NEXT_BATCH
    amount: ClassVar[float | None] = None
    host: str

    @property
    def target(self) -> str:
        """What it acts on."""
        return f"host {self.host}"

    def describe(self) -> str:
        """In plain words."""
        return f"let the workers of host {self.host} have tasks again"

    def in_force(self, observed: Observed) -> bool:
        """Whether none of them is quarantined."""
        return not observed.on_host(self.host) & observed.quarantined

    def undo(self, observed: Observed) -> QuarantineHost | None:
        """Take them out again, if all are out now."""
        return QuarantineHost(self.host) if QuarantineHost(self.host).in_force(observed) else None
