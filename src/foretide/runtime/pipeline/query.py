"""The streaming query of a topology: compiled, started, stopped, and started again from its checkpoint."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.errors import RestartFailedError
from foretide.metrics.batch import TIME_EVERY
from foretide.spark.compile.topology import compile_topology
from foretide.spark.progress.reader import QueryReader
from foretide.spark.sinks import read_output, start_query
from foretide.spark.state import is_settled, repartition_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.actions.registry import Restart
    from foretide.control_folder.folder import ControlFolder
    from foretide.settings.run import RunSettings
    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink


class Query:
    """One query of a topology. The constructor compiles it; `start` starts it.

    Attributes:
        handle: Spark's StreamingQuery; another one after every start.
        reader: Reads the batches of `handle`.
        started: When it was started last, in seconds since 1970; 0 before the first start.
        restarts: How often it was started again.
    """

    handle: Any
    reader: QueryReader

    def __init__(
        self,
        spark: Any,
        topology: Topology,
        sink: Sink,
        checkpoint: str,
        settings: RunSettings,
        control_folder: ControlFolder,
    ) -> None:
        self.spark, self.sink, self.checkpoint, self.settings = spark, sink, checkpoint, settings
        self.topology, self.control_folder = topology, control_folder
        self.started, self.restarts = 0.0, 0
        self.compiled = self._compile(topology)

    def _compile(self, topology: Topology) -> Any:
        settings = self.settings
        every = settings.monitoring.time_every if settings.monitoring else TIME_EVERY
        return compile_topology(
            self.spark,
            topology,
            self.sink,
            self.control_folder,
            settings.guarantee,
            audit=settings.audit_ids,
            time_every=every,
        )

    def start(self) -> None:
        """Start the query, or go on from its checkpoint."""
        self.handle = self._start(self.settings.trigger)
        self.started = time.time()
        monitoring = self.settings.monitoring
        every = monitoring.tasks_every if monitoring else 0.0
        self.reader = QueryReader(self.handle, self.compiled.shape, self.compiled.timers, per_task_every=every)

    def _start(self, trigger: str | None) -> Any:
        name, mode = self.topology.name, self.settings.output_mode
        return start_query(self.compiled, name, self.sink, self.checkpoint, trigger, mode)

    def start_again(self) -> None:
        """Start a query that has ended again from its checkpoint."""
        self.reader.close()
        try:
            self.start()
        except Exception as error:
            raise RestartFailedError(self.topology.name, str(error)) from error
        self.restarts += 1

    def change(self, restart: Restart) -> None:
        """Apply the pools and partitions of a restart. The query must be stopped."""
        if restart.pools:
            self.resize(restart.pools)
        if restart.state_partitions is not None:
            if not is_settled(self.spark, self.checkpoint):  # state can be changed between two batches only
                self._start("once").awaitTermination()
            repartition_state(self.spark, self.checkpoint, self.sink, restart.state_partitions)

    def resize(self, pools: Mapping[str, int]) -> None:
        """Compile again with other pools, by edge. Their routes start from an even split over the whole pool."""
        bolts = [replace(b, pool=pools[b.id], replicas=None) if b.id in pools else b for b in self.topology.bolts]
        topology = replace(self.topology, bolts=bolts)
        self.compiled = self._compile(topology)
        self.topology = topology

    def output(self, stream: str) -> Any:
        """An output stream as a DataFrame, as far as it was committed."""
        return read_output(self.compiled, self.sink, stream)
