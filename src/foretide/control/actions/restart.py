"""The action that starts a query again, for changes that cannot be made while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.control.actions.action import RESTART, BaseAction, Cost
from foretide.control.world.observed import Observed
from foretide.errors import ActionError

QUERY = "query"
"""The target of a restart: everything."""


@dataclass(frozen=True, slots=True)
class Restart(BaseAction):
    """Start the query again from its checkpoint.

    Attributes:
        reason: In plain English.
        state_partitions: New number of partitions of Spark's state; None leaves it.
        pools: New number of tasks by edge; edges that are not named keep theirs.
        after: A start after this time (seconds since 1970) counts as done. None: the changes themselves show it.
    """

    kind: ClassVar[str] = "restart"
    cost: ClassVar[Cost] = RESTART
    reason: str
    state_partitions: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    after: float | None = None

    def __post_init__(self) -> None:
        if min([self.state_partitions or 1, *self.pools.values()]) < 1:
            raise ActionError(
                f"state partitions and pools must be 1 or more, got {self.state_partitions} and {dict(self.pools)}"
            )
        if self.state_partitions is None and not self.pools and self.after is None:
            raise ActionError(
                "a restart that changes nothing needs `after`, the time from which a start counts as done"
            )

    @property
    def target(self) -> str:
        return QUERY

    def describe(self) -> str:
        changes = [f"a pool of {tasks} behind '{edge}'" for edge, tasks in self.pools.items()]
        if self.state_partitions is not None:
            changes.insert(0, f"{self.state_partitions} state partitions")
        return "restart the query" + (f" with {' and '.join(changes)}" if changes else "") + f": {self.reason}"

    def in_force(self, observed: Observed) -> bool:
        """Whether it has been started since, and with all the changes."""
        partitions = self.state_partitions is None or observed.state_partitions == self.state_partitions
        pools = all(observed.pools.get(edge) == tasks for edge, tasks in self.pools.items())
        return partitions and pools and (self.after is None or observed.started > self.after)

    def undo(self, observed: Observed) -> None:
        """A restart is not undone by another one."""
        del observed
