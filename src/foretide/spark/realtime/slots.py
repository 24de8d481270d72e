"""Slots: in real-time mode all tasks run at the same time, so each of them needs one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foretide.errors import Problem, TopologyError


@dataclass(frozen=True)
class Slots:
    """The slots that a query needs, by operator: its tasks, in all branches. `control` are those of the control query.

    >>> Slots({"read": 2, "parse": 4}, control=2).total
    8
    """

    tasks: Mapping[str, int]
    control: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.tasks.values()) + self.control

    def check(self, topology: str, available: int) -> None:
        """Raise an error that says what each operator needs unless there are enough."""
        if self.total <= available:
            return
        needs = ", ".join(f"{name} {tasks}" for name, tasks in self.tasks.items())
        control = f", control {self.control}" if self.control else ""
        raise TopologyError(
            topology,
            [
                Problem(
                    "slots",
                    f"all tasks of real-time mode run at the same time: K_max is {available} slots, and the topology "
                    f"needs {self.total} ({needs}{control}), {self.total - available} more than there are",
                    "Add executors or cores (a slot is a thread: spark.executor.cores, or N in local[N], may exceed "
                    "the machine's cores), or use smaller pools",
                )
            ],
        )
