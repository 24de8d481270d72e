"""Queries that a control loop can be attached to: pipelines, and any StreamingQuery with Foretide edges or joins."""

from __future__ import annotations

import logging
import time
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, Protocol

from foretide.errors import ActionError, ControlError
from foretide.runtime.monitoring.monitor import Monitor
from foretide.runtime.pipeline.follower import Follower
from foretide.runtime.pipeline.setup import inferred_setup
from foretide.runtime.pipeline.submit import Pipeline
from foretide.spark.edges.routes import find_control_folder
from foretide.spark.progress.reader import QueryReader
from foretide.topology.graph import Spout, Topology
from foretide.topology.shape import OneSource
from foretide.topology.sources import Stream

if TYPE_CHECKING:
    from foretide.control.actions.registry import Restart
    from foretide.control.world.setup import Setup
    from foretide.control_folder.folder import ControlFolder
    from foretide.settings.run import MonitorSettings
    from foretide.settings.settings import Settings
    from foretide.spark.executors.executors import Executors

SOURCE = "source"
"""What a plain query reads is called this in its metrics."""

_BATCHES_OF_SETUP = 5
log = logging.getLogger("foretide")


class Controllable(Protocol):
    """A running query that a control loop can be attached to."""

    follower: Follower

    def setup(self, executors: Executors) -> Setup | None:
        """What can be changed; None before the first batch of a query that has to be observed first."""

    def restart(self, restart: Restart) -> None:
        """Restart it between two batches; raises ActionError if it was started elsewhere."""


class FollowedQuery:
    """A StreamingQuery that somebody else has started, and only they can start again."""

    def __init__(self, query: Any, control_folder: ControlFolder, monitoring: MonitorSettings | None) -> None:
        self.handle, self.started = query, time.time()
        every = monitoring.tasks_every if monitoring else 0.0
        self.reader = QueryReader(query, OneSource(name=SOURCE), per_task_every=every)
        name = query.name or f"query-{str(query.id)[:8]}"
        topology = Topology(name, [Spout(SOURCE, Stream(_no_frame))], [])
        monitor = None if monitoring is None else Monitor.of_active(topology, control_folder, monitoring)
        self.follower = Follower(topology, control_folder, self, monitor)
        self.follower.supervisor = self
        self._death_seen = False
        self._setup_after = lru_cache(maxsize=1)(self._infer_setup)

    def start(self) -> None:
        """It runs already."""

    def setup(self, executors: Executors) -> Setup | None:
        """Inferred from the last batches; None before the first."""
        return self._setup_after(self.follower.last_batch, executors)

    def restart(self, restart: Restart) -> None:
        """Not possible: only who started the query can start it again."""
        raise ActionError(f"cannot restart this query ({restart.reason}): it was started elsewhere")

    def _infer_setup(self, _: int, executors: Executors) -> Setup | None:
        follower = self.follower
        reports = [report for report in list(follower.reports)[-_BATCHES_OF_SETUP:] if report.tasks]
        return inferred_setup(follower.topology.name, follower.routes, reports, executors, None) if reports else None

    def supervise(self) -> None:
        """Once the query has died, remove the cause if it can be removed: a change of a join's plan."""
        if self._death_seen or self.handle.isActive:
            return
        self._death_seen, failed = True, self.handle.exception()
        if failed is not None and self.follower.rescued(str(failed)):
            name = self.follower.topology.name
            log.error("%s died at a change of plan, which is taken back; start it again, nothing was lost", name)


def _no_frame(_: Any) -> None:
    """The query reads its source itself."""


@singledispatch
def controllable(query: Any, settings: Settings, control_folder: str | None) -> Controllable:
    """A query as the control loop needs it. It is not followed before `follower.start`.

    Args:
        query: What `ft.submit` returned, or a StreamingQuery.
        settings: How a StreamingQuery is monitored.
        control_folder: The control folder of a StreamingQuery whose edges were given one of their own.
    """
    if not hasattr(query, "lastProgress"):
        kind = type(query).__name__
        raise ControlError(f"a {kind} cannot be controlled; pass what ft.submit returned, or a StreamingQuery")
    folder = find_control_folder(control_folder=control_folder)
    if not folder.routes().edges and not folder.joins():
        raise ControlError(
            f"there is no edge to control: '{folder.location}' has no routes; add df.transform(ft.edge(...)) or "
            "ft.join(...) to the query, or pass control_folder=..."
        )
    return FollowedQuery(query, folder, settings.to_run().monitoring)


@controllable.register
def _(query: Pipeline, _settings: Any, _control_folder: Any) -> Controllable:
    return query
