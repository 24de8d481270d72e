"""A running pipeline: one query of a topology that is followed batch by batch, supervised, and steered live.

What cannot be changed live is changed by a supervised restart: the query is stopped between two batches and started
again from its checkpoint. A query that dies is revived as often as the settings allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from foretide.control_folder.claim import check_plans
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.holds import take
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.monitoring.monitor import Monitor
from foretide.runtime.pipeline.follower import Follower
from foretide.runtime.pipeline.listeners import AuditCost, FeedbackGuard, LoadAwareBalance
from foretide.runtime.pipeline.query import Query
from foretide.runtime.pipeline.supervisor import Supervisor
from foretide.settings.run import RunSettings
from foretide.topology.graph import Topology
from foretide.topology.modes import MICRO_BATCH, Mode

if TYPE_CHECKING:
    from foretide.control.actions.registry import Restart
    from foretide.control.world.setup import Setup
    from foretide.spark.executors import Executors
    from foretide.topology.sinks import Sink

__all__ = ["OnReport", "Pipeline", "RunSettings", "submit"]

OnReport = Callable[[BatchReport, list[AuditFailure]], None]

_STATE_PARTITIONS = "spark.sql.shuffle.partitions"
_ROUTES_POLL_SECONDS = 0.002


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
        self.follower.balance = LoadAwareBalance.of(topology, folder, query.settings.mode)
        if self.follower.balance is not None:
            self.follower.subscribe(self.follower.balance)
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
