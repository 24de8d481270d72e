"""Any StreamingQuery as the control loop needs it: one that somebody else has started, with or without edges."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from foretide.control_folder.claim import check_query
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.filesystem import local_path
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.holds import check_driver
from foretide.errors import ActionError, ControlError, ForetideError
from foretide.runtime.monitoring.monitor import Monitor
from foretide.runtime.monitoring.query_latency import QueryLatency
from foretide.runtime.pipeline.facts import publish_facts
from foretide.runtime.pipeline.follower import Follower, Reader
from foretide.runtime.pipeline.ownership import keep_folder
from foretide.runtime.pipeline.query import inferred_setup
from foretide.runtime.pipeline.submit import Pipeline
from foretide.spark.edges import find_control_folder
from foretide.spark.progress.reader import QueryReader
from foretide.spark.realtime.plan import is_real_time
from foretide.spark.running_query import RunningQuery, application_name, read_query
from foretide.spark.sources.spark_arrivals import arrivals_of
from foretide.status.pipelines import list_running
from foretide.topology.graph import Spout, Topology
from foretide.topology.shape import OneSource
from foretide.topology.sources import Stream

if TYPE_CHECKING:
    from foretide.control.actions.registry import Restart
    from foretide.control.world.setup import Setup
    from foretide.settings.run import MonitorSettings
    from foretide.settings.settings import Settings
    from foretide.spark.executors import Executors

SOURCE = "source"
"""What a plain query reads is called this in its metrics."""

_BATCHES_OF_SETUP = 5
_MAX_NAME = 60
log = logging.getLogger("foretide")


class Controllable(Protocol):
    """A running query that a control loop can be attached to."""

    follower: Follower

    def setup(self, executors: Executors) -> Setup | None:
        """What can be changed; None before the first batch of a query that has to be observed first."""

    def restart(self, restart: Restart) -> None:
        """Restart it between two batches; raises ActionError if it was started elsewhere."""


class FollowedQuery:
    """A StreamingQuery that somebody else has started, and only they can start again.

    Attributes:
        known: What the driver knows of the query.
    """

    def __init__(
        self,
        query: Any,
        control_folder: ControlFolder,
        monitoring: MonitorSettings | None,
        known: RunningQuery | None = None,
        event_time: str | None = None,
    ) -> None:
        self.handle, self.started, self.tasks_stay = query, time.time(), False
        self.known = read_query(query) if known is None else known
        self._tasks_every = monitoring.tasks_every if monitoring else 0.0
        self.reader: Reader = self._read()
        name = query_name(query, self.known, control_folder)
        self.topology = Topology(name, [Spout(SOURCE, Stream(lambda _: None))], [])  # it reads its source itself
        latency = self._latency(event_time)
        monitor = None if monitoring is None else Monitor.of_active(self.topology, control_folder, monitoring, latency)
        self.follower = Follower(self.topology, control_folder, self, monitor)
        self.follower.supervisor = self
        self._death_seen = False
        self._temporary: str | None = None
        self._setup_after = lru_cache(maxsize=1)(self._infer_setup)

    def _latency(self, event_time: str | None) -> QueryLatency | None:
        """How the latency of rows is measured."""
        known = self.known
        sources = [arrivals_of(each, number, known.checkpoint) for number, each in enumerate(known.sources)]
        return QueryLatency(SOURCE, sources, known.event_time, known.trigger, asked=event_time is not None)

    def _read(self) -> Reader:
        """A reader of the query."""
        return QueryReader(self.handle, OneSource(name=SOURCE), per_task_every=self._tasks_every)

    @property
    def problem(self) -> str | None:
        """What is wrong with the way to the executors; None if nothing is."""
        return None

    def start(self) -> None:
        """It runs already; its control folder is kept for it."""
        keep_folder(self.handle, self.follower)
        folder, name = self.follower.control_folder, self.follower.topology.name
        publish_facts(folder, PipelineFacts(name, {}, {}, no_restart="it was started elsewhere"))

    def discard(self) -> None:
        """Remove what was made for it alone: its control folder, if Spark removes its checkpoint."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def in_temporary_folder(self, location: str) -> FollowedQuery:
        """The same query; this control folder is removed with it."""
        self._temporary = location
        self.follower.at_last(self.discard)
        return self

    def setup(self, executors: Executors) -> Setup | None:
        """Inferred from the last batches; None before the first."""
        return self._setup_after(self.follower.last_batch, executors)

    def restart(self, restart: Restart) -> None:
        """Not possible: only who started the query can start it again."""
        raise ActionError(f"cannot restart this query ({restart.reason}): it was started elsewhere")

    def _infer_setup(self, _: int, executors: Executors) -> Setup | None:
        follower = self.follower
        reports = [report for report in list(follower.reports)[-_BATCHES_OF_SETUP:] if report.tasks]
        trigger = None if self.known.trigger is None else f"{self.known.trigger} s"
        return inferred_setup(follower.topology.name, follower.routes, reports, executors, trigger) if reports else None

    def supervise(self) -> None:
        """Once the query has died, remove the cause if it can be removed: a change of a join's plan, or a lost one."""
        if self._death_seen or self.handle.isActive:
            return
        self._death_seen, failed = True, self.handle.exception()
        if failed is not None and self.follower.rescued(str(failed)):
            name = self.follower.topology.name
            log.error("%s died of the plan of a join, which has been mended; start it again, nothing was lost", name)


def controllable(
    query: Any, settings: Settings, control_folder: str | None, event_time: str | None = None
) -> Controllable:
    """A query as the control loop needs it. It is not followed before `follower.start`.

    Args:
        query: What `ft.submit` returned, or a StreamingQuery.
        settings: How a StreamingQuery is monitored.
        control_folder: The control folder of a StreamingQuery, if it is to be another one than is found.
        event_time: The column of the watermark, if latency is to be measured from it.
    """
    if isinstance(query, (Pipeline, FollowedQuery)):
        return query
    if not hasattr(query, "lastProgress"):
        kind = type(query).__name__
        raise ControlError(f"a {kind} cannot be controlled; pass what ft.submit returned, or a StreamingQuery")
    known = read_query(query)
    if event_time is not None and event_time != known.event_time:
        has = "has no watermark" if known.event_time is None else f"has its watermark on '{known.event_time}'"
        raise ControlError(
            f"latency cannot be measured from column '{event_time}': the query {has}; give the stream "
            f'.withWatermark("{event_time}", ...)'
        )
    location = control_folder or folder_of(known)
    if location is not None:
        return _followed(query, ControlFolder(location), settings, known, event_time)
    if not known.is_temporary:
        return _followed(query, find_control_folder(), settings, known, event_time)
    temporary = tempfile.mkdtemp(prefix="foretide-")
    try:
        followed = _followed(query, ControlFolder(temporary), settings, known, event_time)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return followed.in_temporary_folder(temporary)


def folder_of(known: RunningQuery) -> str | None:
    """The control folder that the edges of a query were given, or else the one in its checkpoint.

    None if Spark does not tell, or removes the checkpoint when the query ends.

    Raises:
        ControlError: Its edges have several.
    """
    if len(known.folders) > 1:
        raise ControlError(
            f"the edges of this query have several control folders: {', '.join(known.folders)}; give all of them the "
            "same one, or say which one to use with control_folder=..."
        )
    if known.folders:
        return known.folders[0]
    if known.checkpoint is None or known.is_temporary:
        return None
    location = f"{known.checkpoint}/foretide"
    return str(local_path(location) or location)


def query_name(query: Any, known: RunningQuery, control_folder: ControlFolder) -> str:
    """The name of a query, or one that is made of the application and of what the query writes or reads.

    A name that was made stays the same as long as the checkpoint does: the control folder has it.
    """
    if query.name:
        return str(query.name)
    with suppress(ForetideError):
        facts = control_folder.status.facts()
        if facts is not None and facts.name:
            return facts.name
    parts = [application_name(), known.label]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(part for part in parts if part)).strip(".-")[:_MAX_NAME]
    short = str(query.id)[:8]
    if not name:
        return f"query-{short}"
    taken = {running.name for running in list_running()}
    return f"{name}-{short}" if name in taken else name


def _followed(
    query: Any, folder: ControlFolder, settings: Settings, known: RunningQuery, event_time: str | None
) -> FollowedQuery:
    check_query(folder, str(query.id))
    check_driver(folder.location, str(query.id))
    monitoring = settings.to_run().monitoring
    if not is_real_time(query):
        return FollowedQuery(query, folder, monitoring, known, event_time)
    from foretide.runtime.pipeline.followed_real_time import FollowedRealTimeQuery  # noqa: PLC0415 - builds on this

    return FollowedRealTimeQuery(query, folder, monitoring, known)
