"""A running pipeline: one query of a topology, followed batch by batch, supervised, and steered live.

What nothing live can change is changed by a supervised restart: the query is stopped between two batches and started
again from its checkpoint. A query that dies may be brought back to life so many times.
"""

from __future__ import annotations

import logging
import queue
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.control_folder.folder import ControlFolder
from foretide.errors import BatchTimeoutError, FeedbackGrowthError, ForetideError, RestartFailedError
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import TIME_EVERY
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.pipeline.batch_timeout import BatchClock
from foretide.runtime.pipeline.feedback_guard import FeedbackGuard
from foretide.runtime.pipeline.follower import Follower, OnReport
from foretide.runtime.pipeline.load_aware import LoadAwareBalance
from foretide.settings.run import RunSettings
from foretide.spark.compile.topology import compile_topology
from foretide.spark.progress.reader import QueryReader
from foretide.spark.query import read_output, start_query
from foretide.spark.state_partitions import is_settled, repartition_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.actions.registry import Restart
    from foretide.metrics.batch import BatchReport
    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink

__all__ = ["OnReport", "Pipeline", "RunSettings", "submit"]

_PAUSE = 10.0
_REVIVE_WAIT = 1.0
_LONGEST_WAIT = 60.0
_WELL_AFTER = 10
"""Batches after which a query that was brought back to life counts as well again."""

log = logging.getLogger("foretide")


class Pipeline(Follower):
    """A topology that runs. Made by `submit`."""

    def __init__(
        self, spark: Any, topology: Topology, sink: Sink, checkpoint: str, settings: RunSettings, folder: ControlFolder
    ) -> None:
        self.spark, self.sink, self.checkpoint, self.settings = spark, sink, checkpoint, settings
        self.restarts = 0
        self.started = 0.0
        self._restarts_wanted: queue.SimpleQueue[Restart] = queue.SimpleQueue()
        self._deaths = 0
        self._died_after = -1
        self.compiled = self._compile(topology, folder)
        super().__init__(topology, folder, settings.monitoring)
        self._balance = LoadAwareBalance.of(topology)
        self._loops = FeedbackGuard(topology, sink, settings.loop_patience)

    def _compile(self, topology: Topology, folder: ControlFolder) -> Any:
        settings = self.settings
        every = settings.monitoring.time_every if settings.monitoring else TIME_EVERY
        return compile_topology(
            self.spark, topology, self.sink, folder, settings.guarantee, audit=settings.audit_ids, time_every=every
        )

    def start(self) -> Pipeline:
        """Start the query, the thread that follows it, and monitoring."""
        self._clock = BatchClock(self.settings.batch_timeout, self.settings.tries, self.topology.name)
        self._open()
        self.follow()
        return self

    def _start_query(self, trigger: str | None) -> Any:
        mode = self.settings.output_mode
        return start_query(self.compiled, self.topology.name, self.sink, self.checkpoint, trigger, mode)

    def _open(self) -> None:
        settings = self.settings
        self.query = self._start_query(settings.trigger)
        self.started = time.time()
        every = settings.monitoring.tasks_every if settings.monitoring else 0.0
        self._reader = QueryReader(self.query, self.compiled.shape, self.compiled.timers, per_task_every=every)

    # ---- steering

    def split(self, edge: str, ratio: str) -> RouteTable:
        """Split an edge in a new ratio, such as `7:3:2`, from the next batch on."""
        return self.folder.change_routes(lambda table: table.split(edge, parse_ratio(edge, ratio)))

    def activate(self, edge: str, replicas: int) -> RouteTable:
        """Use the first `replicas` tasks of an edge's pool, from the next batch on."""
        return self.folder.change_routes(lambda table: table.activate(edge, replicas))

    def limit_admission(self, spout: str, rows: int | None) -> None:
        """Rows a batch that a replay spout may hand out, from the next batch on; None lifts the limit."""
        self.folder.orders.limit_admission(spout, rows)

    def restart(self, wanted: Restart) -> None:
        """Stop between two batches and start again from the checkpoint, with other partitions or pools. Soon."""
        self._restarts_wanted.put(wanted)

    def output(self, stream: str) -> Any:
        """An output stream as a DataFrame, as far as it was committed."""
        return read_output(self.compiled, self.sink, stream)

    # ---- supervision

    def _cycle(self) -> None:
        try:
            self._look()
            self._supervise()
        except (BatchTimeoutError, FeedbackGrowthError, RestartFailedError) as error:
            self._give_up(error)
        except Exception:
            log.exception("following '%s' failed; the query runs on", self.topology.name)

    def _see(self, report: BatchReport) -> None:
        super()._see(report)
        if self._balance is not None:
            self._balance.step(report, self.folder)
        self._loops.see(report)

    def _supervise(self) -> None:
        if self._stopping.is_set():
            return
        if self._clock.expired(self._reader.state(), self.last_batch, time.monotonic()):
            self._replay_batch()
        elif not self.query.isActive and self.query.exception() is not None:
            self._revive()
        elif not self._restarts_wanted.empty():
            self._apply(self._restarts_wanted.get())

    def _replay_batch(self) -> None:
        log.error(
            "%s: a batch ran past %s s; it is cancelled and replayed",
            self.topology.name,
            self.settings.batch_timeout,
        )
        self.query.stop()
        self._clock.count_try(self.last_batch + 1)
        self._reopen()

    def _revive(self) -> None:
        """Start a dead query again, if it may be; a query that dies again and again stays dead."""
        if self._rescued():
            self._reopen()
            return
        if self.last_batch >= self._died_after + _WELL_AFTER:
            self._deaths = 0
        self._deaths += 1
        self._died_after = self.last_batch
        if self._deaths > self.settings.revive:
            return
        wait = min(_REVIVE_WAIT * 2.0 ** (self._deaths - 1), _LONGEST_WAIT)
        said = str(self.query.exception()).split("\n", maxsplit=1)[0]
        log.error("%s died (%s); it is started again in %g s", self.topology.name, said, wait)
        if not self._stopping.wait(wait):
            self._reopen()

    def _apply(self, restart: Restart) -> None:
        """A supervised restart. What cannot be changed is said, and the query goes on as it was."""
        log.warning("%s: restarts: %s", self.topology.name, restart.reason)
        self._await_pause(_PAUSE)
        self.query.stop()
        try:
            if restart.pools:
                self._resize(restart.pools)
            if restart.state_partitions is not None:
                self._settle()
                repartition_state(self.spark, self.checkpoint, self.sink, restart.state_partitions)
        except Exception as error:  # noqa: BLE001 - whatever Spark says, the query has to run again
            message = f"a restart could not change everything ({error}); the query goes on as it was"
            self._raise_alarm(AuditFailure("restart-incomplete", self.last_batch, None, message))
        self._reopen()

    def _settle(self) -> None:
        """Work off the batch that was cut off, if one was: state can be changed between two batches only."""
        if not is_settled(self.spark, self.checkpoint):
            self._start_query("once").awaitTermination()

    def _resize(self, pools: Mapping[str, int]) -> None:
        """Compile anew with other pools; their routes begin anew, evenly over the whole pool."""
        bolts = [replace(b, pool=pools[b.id], replicas=None) if b.id in pools else b for b in self.topology.bolts]
        topology = replace(self.topology, bolts=bolts)
        self.compiled = self._compile(topology, self.folder)
        self.topology = topology

    def _reopen(self) -> None:
        self._catch_up()
        self._reader.close()
        try:
            self._open()
        except Exception as error:
            raise RestartFailedError(self.topology.name, str(error)) from error
        self._clock = self._clock.again()
        self.restarts += 1
        if self._stopping.is_set():  # asked for while it was being started
            self.query.stop()

    def _give_up(self, error: ForetideError) -> None:
        self._failure = error
        log.error("%s", error)
        self._stopping.set()
        self.query.stop()


def submit(
    spark: Any, topology: Topology, sink: Sink, checkpoint: str, settings: RunSettings | None = None
) -> Pipeline:
    """Compile a topology and start it; a checkpoint that is there already is gone on from.

    The routes live in the folder `foretide` of the checkpoint.
    """
    folder = ControlFolder(f"{checkpoint}/foretide")
    return Pipeline(spark, topology, sink, checkpoint, settings or RunSettings(), folder).start()
