"""The streaming query of a topology, started again from its checkpoint as often as needed, and setups for control."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.control.world.setup import OperatorSetup, Setup
from foretide.durations import parse_duration
from foretide.errors import RestartFailedError
from foretide.metrics.batch import TIME_EVERY
from foretide.spark.compile.topology import compile_topology
from foretide.spark.progress.reader import QueryReader
from foretide.spark.sinks import read_output, start_query
from foretide.spark.state import is_settled, repartition_state
from foretide.topology.graph import Bolt, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.actions.registry import Restart
    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import BatchReport
    from foretide.routing.table import RouteTable
    from foretide.settings.run import RunSettings
    from foretide.spark.executors import Executors
    from foretide.topology.shape import PlanShape
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
        settings, folder = self.settings, self.control_folder
        every = settings.monitoring.time_every if settings.monitoring else TIME_EVERY
        return compile_topology(
            self.spark, topology, self.sink, folder, settings.guarantee, audit=settings.audit_ids, time_every=every
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


def topology_setup(
    topology: Topology,
    shape: PlanShape,
    routes: RouteTable,
    executors: Executors,
    trigger: str | None,
    state_partitions: int,
) -> Setup:
    """The setup of a topology. A bolt without an exchange of its own belongs to the operator before it."""
    chained = {bolt.id for bolt in topology.bolts if any(not source.grouping.exchanges for source in bolt.inputs)}
    stateful = set(shape.behind.values())
    operators = [
        OperatorSetup(spout.id, max(spout.source.partitions or executors.cores, 1), spout=True)
        for spout in topology.spouts
    ]
    operators += [_bolt(bolt, stateful, routes, state_partitions) for bolt in topology.bolts if bolt.id not in chained]
    flows = {
        (_head(topology, source.component, chained), _head(topology, bolt.id, chained))
        for bolt in topology.bolts
        for source in bolt.inputs
    }
    admitting = frozenset(spout.id for spout in topology.spouts if spout.source.live_admission)
    between = [flow for flow in sorted(flows) if flow[0] != flow[1]]
    return _setup(topology.name, operators, between, executors, trigger, admitting)


def inferred_setup(
    name: str, routes: RouteTable, reports: Iterable[BatchReport], executors: Executors, trigger: str | None
) -> Setup:
    """The setup of a query that was not made from a topology: operators, tasks and flows as Spark showed them."""
    runs = [run for report in reports for run in report.tasks or () if run.operator is not None]
    tasks: dict[str, int] = {}
    for run in runs:
        tasks[str(run.operator)] = max(tasks.get(str(run.operator), 1), (run.task or 0) + 1)
    stateful = {str(run.operator) for run in runs if run.later}
    flows = {(str(run.operator), run.feeds) for run in runs if run.feeds is not None and run.feeds != run.operator}
    names = list(dict.fromkeys([*tasks, *routes.edges]))
    fed = {target for _, target in flows}
    operators = [
        OperatorSetup(
            each,
            routes.edges[each].pool if each in routes.edges else tasks.get(each, 1),
            each if each in routes.edges else None,
            spout=each not in fed and each not in routes.edges,
            stateful=each in stateful,
        )
        for each in names
    ]
    return _setup(name, operators, sorted((a, b) for a, b in flows if b in names), executors, trigger, frozenset())


def _setup(
    name: str,
    operators: list[OperatorSetup],
    flows: Iterable[tuple[str, str]],
    executors: Executors,
    trigger: str | None,
    admitting: frozenset[str],
) -> Setup:
    max_executors = max(executors.most, 1)
    return Setup(
        query=name,
        operators=tuple(operators),
        flows=tuple(flows),
        cores_per_executor=executors.cores,
        executors=(1, max_executors) if executors.can_resize and max_executors > 1 else None,
        trigger=0.0 if trigger is None else parse_duration(trigger),
        can_quarantine=executors.can_quarantine,
        can_admit=admitting,
    )


def _bolt(bolt: Bolt, stateful: set[str], routes: RouteTable, state_partitions: int) -> OperatorSetup:
    if bolt.id in stateful:
        return OperatorSetup(bolt.id, state_partitions, stateful=True)
    return OperatorSetup(bolt.id, bolt.pool_size, bolt.id if bolt.id in routes.edges else None)


def _head(topology: Topology, name: str, chained: set[str]) -> str:
    """The operator that a component's tasks are counted under."""
    component = topology.component(name)
    if isinstance(component, Bolt) and name in chained and component.inputs:
        return _head(topology, component.inputs[0].component, chained)
    return name
