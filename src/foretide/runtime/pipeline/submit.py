"""A running pipeline: one query of a topology that is followed batch by batch, supervised, and steered live.

What cannot be changed live is changed by a supervised restart: the query is stopped between two batches and started
again from its checkpoint. A query that dies is revived as often as the settings allow. A control loop can be attached
to a pipeline, and to any StreamingQuery with Foretide edges or joins (`controllable`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from foretide.control_folder.claim import check_plans, check_query
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.holds import check_driver, take
from foretide.errors import ActionError, ControlError
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.monitoring.monitor import Monitor
from foretide.runtime.pipeline.facts import publish_facts
from foretide.runtime.pipeline.follower import Follower, Reader
from foretide.runtime.pipeline.listeners import AuditCost, FeedbackGuard, LoadAwareBalance
from foretide.runtime.pipeline.ownership import keep_folder
from foretide.runtime.pipeline.query import Query, inferred_setup
from foretide.runtime.pipeline.supervisor import Supervisor
from foretide.settings.run import RunSettings
from foretide.spark.edges import find_control_folder
from foretide.spark.progress.reader import QueryReader
from foretide.spark.realtime.plan import is_real_time
from foretide.topology.graph import Spout, Topology
from foretide.topology.modes import MICRO_BATCH, Mode
from foretide.topology.shape import OneSource
from foretide.topology.sources import Stream

if TYPE_CHECKING:
    from foretide.control.actions.registry import Restart
    from foretide.control.world.setup import Setup
    from foretide.settings.run import MonitorSettings
    from foretide.settings.settings import Settings
    from foretide.spark.executors import Executors
    from foretide.topology.sinks import Sink

__all__ = ["OnReport", "Pipeline", "RunSettings", "submit"]

OnReport = Callable[[BatchReport, list[AuditFailure]], None]

SOURCE = "source"
"""What a plain query reads is called this in its metrics."""

_STATE_PARTITIONS = "spark.sql.shuffle.partitions"
_BATCHES_OF_SETUP = 5
_ROUTES_POLL_SECONDS = 0.002
log = logging.getLogger("foretide")


@dataclass(frozen=True)
class _Callback:
    """A function as a listener."""

    see: OnReport


class Pipeline:
    """A running topology. Made by `submit`.

    Attributes:
        reports: The last batches, the newest last.
        alarms: What the audit found, the newest last.
        monitor: What is measured; None without monitoring.
        control_folder: Routes, limits and requests of this pipeline.
        follower: Follows the query.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self.spark, self.sink, self.checkpoint = query.spark, query.sink, query.checkpoint
        self.settings, self.control_folder = query.settings, query.control_folder
        topology, folder, monitoring = query.topology, query.control_folder, query.settings.monitoring
        self.monitor = None if monitoring is None else Monitor.of_active(topology, folder, monitoring)
        self.follower = Follower(topology, folder, query, self.monitor)
        self.reports, self.alarms = self.follower.reports, self.follower.audit_log.failures
        guard = FeedbackGuard(topology, query.sink, query.settings.loop_patience)
        self._supervisor = self.follower.supervisor = Supervisor(query, self.follower, guard)
        balance = LoadAwareBalance.of(topology, folder)
        if balance is not None:
            self.follower.subscribe(balance)
        allowed = query.settings.max_audit_share
        self.follower.audit_cost = AuditCost(lambda: query.spark.sparkContext.defaultParallelism, allowed)
        self.follower.subscribe(self.follower.audit_cost)
        self.follower.subscribe(self._supervisor)
        self._setup_of_start = lru_cache(maxsize=1)(self._make_setup)

    @property
    def query(self) -> Any:
        """Spark's StreamingQuery. A restart replaces it."""
        return self._query.handle

    @property
    def topology(self) -> Topology:
        """The topology that runs, with the pools of the last restart."""
        return self._query.topology

    @property
    def restarts(self) -> int:
        """How often the query was started again."""
        return self._query.restarts

    @property
    def last_batch(self) -> int:
        """The last batch that was reported; -1 before the first."""
        return self.follower.last_batch

    @property
    def running(self) -> bool:
        """Whether the query runs, or is being started again."""
        return self.follower.running

    def output(self, stream: str) -> Any:
        """An output stream as a DataFrame, as far as it was committed."""
        return self._query.output(stream)

    def on_report(self, listener: OnReport) -> None:
        """Call `listener(report, failures)` after every batch."""
        self.follower.subscribe(_Callback(listener))

    def at_end(self, call: Callable[[], object]) -> None:
        """Call this once the query has ended and all its batches were seen; what was added last is called first."""
        self.follower.at_end(call)

    # ---- steering

    def split(self, edge: str, ratio: str) -> RouteTable:
        """Split an edge in a ratio such as `7:3:2`: from the next batch on, in real-time mode within milliseconds."""
        return self.control_folder.change_routes(lambda table: table.split(edge, parse_ratio(edge, ratio)))

    def activate(self, edge: str, replicas: int) -> RouteTable:
        """Use the first `replicas` tasks of an edge's pool: from the next batch on, or as `split` in real-time mode."""
        return self.control_folder.change_routes(lambda table: table.activate(edge, replicas))

    def await_routes(self, version: int, timeout: float) -> bool:
        """Wait until a version of the routes is in force: read by a batch, or acknowledged by every executor."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if (self._query.routes_in_force(self.reports) or -1) >= version:
                return True
            time.sleep(_ROUTES_POLL_SECONDS)
        return False

    def await_tasks(self, timeout: float) -> bool:
        """Wait until all tasks of a topology in real-time mode run; False if they do not in that time."""
        return self._query.await_tasks(timeout)

    def limit_admission(self, spout: str, rows: int | None) -> None:
        """Limit the rows per batch of a spout, from the next batch on; None lifts the limit."""
        self.control_folder.orders.limit_admission(spout, rows)

    def restart(self, restart: Restart) -> None:
        """Stop between two batches, soon, and start again from the checkpoint with other partitions or pools.

        Raises ActionError, and stops nothing, if these cannot be changed.
        """
        self._supervisor.request_restart(restart)

    def setup(self, executors: Executors) -> Setup:
        """What a control loop can change. It is worked out once per start."""
        state = self.reports[-1].state if self.reports else None
        partitions = None if state is None else state.partitions or None
        return self._setup_of_start(self._query.started, partitions, executors)

    def _make_setup(self, _: float, state_partitions: int | None, executors: Executors) -> Setup:
        """Before the first batch with state only Spark's configuration says how many partitions it has."""
        partitions = state_partitions or int(self.spark.conf.get(_STATE_PARTITIONS))
        return self._query.setup(executors, self.follower.routes, partitions)

    # ---- the end

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended; False when it still runs after `timeout` seconds. Raises its failure."""
        if not self.follower.join(timeout):
            return False
        self.raise_failure()
        return True

    def raise_failure(self) -> None:
        """Raise what ended the query, if anything did."""
        failure = self.follower.failure or self.query.exception()
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Stop the query. What was committed stays; a later start with the same checkpoint goes on from there."""
        self.follower.stop()


def submit(
    spark: Any,
    topology: Topology,
    sink: Sink,
    checkpoint: str,
    settings: RunSettings | None = None,
    *,
    mode: Mode | None = None,
) -> Pipeline:
    """Compile a topology and start it. A checkpoint that exists is continued.

    The control folder is the folder `foretide` in the checkpoint. If the start fails or is interrupted, nothing runs.
    A `mode` that is given goes before that of the settings; without settings, the guarantee is what it can give.

    Raises:
        ControlFolderError: Another driver runs a query with this checkpoint.
        JoinPlanError: The plan of a join is lost, emptied or older than the state in the checkpoint.
    """
    folder = ControlFolder(f"{checkpoint}/foretide")
    with ExitStack() as undo:
        driver = take(folder.location, "driver", topology.name)
        undo.callback(driver.release)
        query = _query(spark, topology, sink, checkpoint, _chosen(settings, mode), folder)
        undo.callback(query.discard)
        pipeline = Pipeline(query)
        check_plans(folder, checkpoint)
        pipeline.at_end(driver.release)
        pipeline.at_end(query.close)
        pipeline.follower.start()
        undo.pop_all()
    return pipeline


def _chosen(settings: RunSettings | None, mode: Mode | None) -> RunSettings:
    if settings is None:
        return RunSettings().in_mode(mode or "micro-batch")
    return settings if mode is None else replace(settings, mode=mode)


def _query(
    spark: Any, topology: Topology, sink: Sink, checkpoint: str, settings: RunSettings, folder: ControlFolder
) -> Query:
    if settings.mode == MICRO_BATCH.name:
        return Query(spark, topology, sink, checkpoint, settings, folder)
    from foretide.runtime.pipeline.real_time import RealTimeQuery  # noqa: PLC0415 - needs Kafka

    return RealTimeQuery(spark, topology, sink, checkpoint, settings, folder)


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
        self.handle, self.started, self.tasks_stay = query, time.time(), False
        self._tasks_every = monitoring.tasks_every if monitoring else 0.0
        self.reader: Reader = self._read()
        name = query.name or f"query-{str(query.id)[:8]}"
        self.topology = Topology(name, [Spout(SOURCE, Stream(lambda _: None))], [])  # it reads its source itself
        monitor = None if monitoring is None else Monitor.of_active(self.topology, control_folder, monitoring)
        self.follower = Follower(self.topology, control_folder, self, monitor)
        self.follower.supervisor = self
        self._death_seen = False
        self._setup_after = lru_cache(maxsize=1)(self._infer_setup)

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


def controllable(query: Any, settings: Settings, control_folder: str | None) -> Controllable:
    """A query as the control loop needs it. It is not followed before `follower.start`.

    Args:
        query: What `ft.submit` returned, or a StreamingQuery.
        settings: How a StreamingQuery is monitored.
        control_folder: The control folder of a StreamingQuery whose edges were given one of their own.
    """
    if isinstance(query, (Pipeline, FollowedQuery)):
        return query
    if not hasattr(query, "lastProgress"):
        kind = type(query).__name__
        raise ControlError(f"a {kind} cannot be controlled; pass what ft.submit returned, or a StreamingQuery")
    folder = find_control_folder(control_folder=control_folder)
    if not folder.routes().edges and not folder.joins():
        raise ControlError(
            f"there is no edge to control: '{folder.location}' has no routes; add df.transform(ft.edge(...)) or "
            "ft.join(...) to the query, or pass control_folder=..."
        )
    check_query(folder, str(query.id))
    check_driver(folder.location, str(query.id))
    return _followed(query, folder, settings.to_run().monitoring)


def _followed(query: Any, folder: ControlFolder, monitoring: MonitorSettings | None) -> FollowedQuery:
    if not is_real_time(query):
        return FollowedQuery(query, folder, monitoring)
    from foretide.runtime.pipeline.followed_real_time import FollowedRealTimeQuery  # noqa: PLC0415 - builds on this

    return FollowedRealTimeQuery(query, folder, monitoring)
