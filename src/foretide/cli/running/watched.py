"""The control loops of a program's queries, kept until the program ends, and what is said of them then."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from foretide.cli.running.ending import control_data, control_lines, target_data
from foretide.runtime.loop.watch import Attach

if TYPE_CHECKING:
    from foretide.runtime.loop.controller import Controller
    from foretide.runtime.pipeline.follower import Follower

_MAX_QUERIES = 20


class NotedAttach(Attach):
    """Attaches control loops to queries. `noted` has the names of the last queries, each with its loop."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.noted: deque[tuple[str, Controller]] = deque(maxlen=_MAX_QUERIES)

    def __call__(self, query: Any) -> tuple[Follower, Controller]:
        """Attach to a query."""
        follower, controller = super().__call__(query)
        self.noted.append((follower.topology.name, controller))
        return follower, controller

    def lines(self) -> Iterator[str]:
        """For each query: whether the target was held, why not, and what the control loop did and did not do."""
        for name, controller in self.noted:
            yield f"foretide: query '{name}'"
            yield from (f"  {line}" for line in control_lines(controller))

    def data(self) -> dict[str, Any]:
        """The same as plain values."""
        found = [
            {"query": name, "target": target_data(controller.record), "control": control_data(controller)}
            for name, controller in self.noted
        ]
        return {"queries": found}
