"""Following a query that was not made from a topology: any PySpark query with Foretide edges."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from foretide.runtime.pipeline.follower import Follower
from foretide.spark.progress.reader import QueryReader
from foretide.topology.graph import Spout, Topology
from foretide.topology.shape import OneSource
from foretide.topology.sources import Stream

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.settings.monitoring import MonitorSettings

log = logging.getLogger("foretide")

SOURCE = "source"
"""What all that such a query reads is called in its metrics."""


class FollowedQuery(Follower):
    """Follows a StreamingQuery that somebody else has started, and can start again."""

    def __init__(self, query: Any, folder: ControlFolder, monitoring: MonitorSettings | None) -> None:
        self.query, self.started = query, time.time()
        every = monitoring.tasks_every if monitoring else 0.0
        self._reader = QueryReader(query, OneSource(name=SOURCE), per_task_every=every)
        name = query.name or f"query-{str(query.id)[:8]}"
        super().__init__(Topology(name, [Spout(SOURCE, Stream(lambda _: None))], []), folder, monitoring)

    def _drain(self) -> None:
        super()._drain()
        if self._rescued():
            name = self.topology.name
            log.error("%s died at a change of plan, which is taken back; start it again, nothing was lost", name)
