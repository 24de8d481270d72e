"""The streaming query of a topology, started again from its checkpoint as often as needed, and setups for control."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.control.world.setup import OperatorSetup, Setup
from foretide.control_folder.facts import MAX_POOL, MAX_STATE_PARTITIONS
from foretide.durations import parse_duration
from foretide.errors import RestartFailedError
from foretide.metrics.audit import id_share
from foretide.metrics.batch import TIME_EVERY
from foretide.runtime.pipeline.facts import facts_of, publish_facts
from foretide.secrets import masked
from foretide.spark.compile.topology import compile_topology
from foretide.spark.progress.reader import QueryReader
from foretide.spark.sinks import read_output, start_query
from foretide.spark.state import (
    has_commits,
    has_state,
    is_settled,
    repartition_obstacle,
    repartition_state,
    settle_repartition,
)
from foretide.topology.graph import Bolt, Topology
from foretide.topology.validate import find_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.actions.registry import Restart
    from foretide.control_folder.facts import PipelineFacts
    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import BatchReport
    from foretide.queueing.model import Mode
    from foretide.routing.table import RouteTable
    from foretide.runtime.pipeline.follower import Reader
    from foretide.settings.run import RunSettings
    from foretide.spark.executors import Executors
    from foretide.topology.shape import PlanShape
    from foretide.topology.sinks import Sink

_LAST_JOBS = 4
log = logging.getLogger("foretide")


class Query:
    """One query of a topology. The constructor compiles it; `start` starts it.

    Attributes:
        handle: Spark's StreamingQuery; another one after every start.
        reader: Reads the batches of `handle`.
        started: When it was started last, in seconds since 1970; 0 before the first start.
        restarts: How often it was started again.
    """

    handle: Any
    reader: Reader
    tasks_stay = False
    """Whether a task stays with its executor from one report to the next."""

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
        audit = settings.audit_ids and self._audit_is_cheap()
        return compile_topology(
            self.spark, topology, self.sink, folder, settings.guarantee, audit=audit, time_every=every
        )

    def _audit_is_cheap(self) -> bool:
        """Whether the XOR of tuple ids would have taken little of the last batch, if there was one."""
        last, allowed = self.control_folder.status.pipeline(), self.settings.max_audit_share
        if last is None or not last.edges:
            return True
        rows = sum(flow.written for flow in last.edges.values())
        share = id_share(rows, last.duration, self.spark.sparkContext.defaultParallelism)
        if share > allowed:
            log.warning(
                "%s: tuple ids are not compared: that would have taken %.1f %% of the last batch, and "
                "run.max_audit_share allows %.1f %%",
                *(self.topology.name, 100 * share, 100 * allowed),
            )
        return share <= allowed

    def start(self) -> None:
        """Start the query, or go on from its checkpoint."""
        self.handle = self._start(self.settings.trigger)
        self.started = time.time()
        publish_facts(self.control_folder, self._facts())
        self.reader = self._read()

    def _facts(self) -> PipelineFacts:
        """What orders can refer to."""
        return facts_of(self.topology, self.state_obstacle(), self._stateful)

    def _read(self) -> Reader:
        """A reader of the query that was started."""
        monitoring = self.settings.monitoring
        every = monitoring.tasks_every if monitoring else 0.0
        return QueryReader(self.handle, self.compiled.shape, self.compiled.timers, per_task_every=every)

    def setup(self, executors: Executors, routes: RouteTable, state_partitions: int) -> Setup:
        """What a control loop can change."""
        shape, trigger = self.compiled.shape, self.settings.trigger
        setup = topology_setup(self.topology, shape, routes, executors, trigger, state_partitions)
        return replace(setup, can_enlarge=True, can_repartition=self.state_obstacle() is None)

    def routes_in_force(self, reports: Sequence[BatchReport]) -> int | None:
        """The version of the routes that the last batch has read."""
        return reports[-1].route_version if reports else None

    @property
    def problem(self) -> str | None:
        """What is wrong with the way to the executors; None if nothing is."""
        return None

    def await_tasks(self, timeout: float) -> bool:
        """Wait until all tasks of its queries run. Those of micro-batches come and go: nothing is waited for."""
        del timeout
        return True

    def cost_of_death(self) -> str | None:
        """What it costs that the query died and started again; None where that is nothing but time."""
        return None

    def close(self) -> None:
        """Let go of what the query needed beside itself, once it has ended."""

    def tasks_done(self) -> int:
        """Tasks of this query that have ended, as far as Spark still knows them. It changes while a batch gets on."""
        tracker = self.spark.sparkContext.statusTracker()
        last = sorted(tracker.getJobIdsForGroup(str(self.handle.runId)))[-_LAST_JOBS:]
        jobs = [tracker.getJobInfo(job) for job in last]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)

    def discard(self) -> None:
        """Stop what a failed or interrupted start has left."""
        if hasattr(self, "handle"):
            self.handle.stop()
        if hasattr(self, "reader"):
            self.reader.close()
        self.close()

    def _start(self, trigger: str | None) -> Any:
        for what in settle_repartition(self.spark, self.checkpoint, self.sink):
            log.warning("%s: %s", self.topology.name, what)
        name, mode = self.topology.name, self.settings.output_mode
        return start_query(self.compiled, name, self.sink, self.checkpoint, trigger, mode)

    def start_again(self) -> None:
        """Start a query that has ended again from its checkpoint."""
        self.reader.close()
        try:
            self.start()
        except Exception as error:
            raise RestartFailedError(self.topology.name, masked(str(error))) from error
        self.restarts += 1

    def obstacle(self, restart: Restart) -> str | None:
        """Why the changes of a restart cannot be applied; None when they can. Changes nothing."""
        limits = [spout.id for spout in self.topology.spouts if spout.source.restart_admission]
        for spout in restart.admission:
            if spout not in limits:
                return f"a restart cannot limit spout '{spout}'; it can limit: {', '.join(limits) or 'none'}"
        return self._pool_obstacle(restart.pools) or self._state_obstacle(restart.state_partitions)

    @property
    def _stateful(self) -> set[str]:
        """Bolts that Spark's own stateful operator gives partitions."""
        return set(self.compiled.shape.behind.values())

    def _pool_obstacle(self, pools: Mapping[str, int]) -> str | None:
        edges = [
            bolt.id
            for bolt in self.topology.bolts
            if bolt.id not in self._stateful and all(source.grouping.exchanges for source in bolt.inputs)
        ]
        for edge, tasks in pools.items():
            if edge not in edges:
                return f"there is no edge '{edge}' with a pool; edges with a pool: {', '.join(edges) or 'none'}"
            if tasks > MAX_POOL:
                return f"a pool of {tasks} tasks behind '{edge}' is too large; the most is {MAX_POOL}"
        problems = find_problems(self._resized(pools))
        return str(problems[0]) if problems else None

    def _state_obstacle(self, partitions: int | None) -> str | None:
        if partitions is None:
            return None
        if partitions > MAX_STATE_PARTITIONS:
            return f"{partitions} state partitions are too many; the most is {MAX_STATE_PARTITIONS}"
        if not has_commits(self.spark, self.checkpoint):
            return "no batch was committed yet, so there is no state to repartition; try again later"
        return self.state_obstacle()

    def state_obstacle(self) -> str | None:
        """Why the state of this query cannot be given another number of partitions; None when it can."""
        if not has_state(self.compiled.frame):
            return "the query has no state"
        return repartition_obstacle(self.spark, self.checkpoint, self.sink)

    def change(self, restart: Restart) -> None:
        """Apply the changes of a restart. The query must be stopped."""
        for spout, rows in restart.admission.items():
            self.control_folder.orders.limit_admission(spout, rows)
        if restart.pools or restart.admission:
            self.resize(restart.pools)
        if restart.state_partitions is not None:
            if not is_settled(self.spark, self.checkpoint):  # state can be changed between two batches only
                self._start("once").awaitTermination()
            repartition_state(self.spark, self.checkpoint, self.sink, restart.state_partitions)

    def resize(self, pools: Mapping[str, int]) -> None:
        """Compile again with other pools, by edge. Their routes start from an even split over the whole pool."""
        topology = self._resized(pools)
        self.compiled = self._compile(topology)
        self.topology = topology

    def _resized(self, pools: Mapping[str, int]) -> Topology:
        bolts = [replace(b, pool=pools[b.id], replicas=None) if b.id in pools else b for b in self.topology.bolts]
        return replace(self.topology, bolts=bolts)

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
    partitions: Mapping[str, int] | None = None,
    mode: Mode = "micro-batch",
) -> Setup:
    """The setup of a topology. A bolt without an exchange of its own belongs to the operator before it.

    `partitions` are those that spouts read, where they are known.
    """
    chained = {bolt.id for bolt in topology.bolts if any(not source.grouping.exchanges for source in bolt.inputs)}
    stateful = set(shape.behind.values())
    operators = [
        OperatorSetup(
            spout.id, (partitions or {}).get(spout.id) or spout.source.partitions or max(executors.cores, 1), spout=True
        )
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
    fixed = frozenset(spout.id for spout in topology.spouts if spout.source.restart_admission)
    setup = _setup(topology.name, operators, between, executors, trigger, admitting)
    return replace(setup, mode=mode, admit_by_restart=fixed if mode == "micro-batch" else frozenset())


def inferred_setup(
    name: str, routes: RouteTable, reports: Iterable[BatchReport], executors: Executors, trigger: str | None
) -> Setup:
    """The setup of a query that was not made from a topology: operators, tasks and flows as Spark showed them."""
    reports = list(reports)
    runs = [run for report in reports for run in report.tasks or () if run.operator is not None]
    tasks: dict[str, int] = {}
    for run in runs:
        tasks[str(run.operator)] = max(tasks.get(str(run.operator), 1), (run.task or 0) + 1)
    keeps_state = any(report.state is not None for report in reports)
    stateful = {str(run.operator) for run in runs if run.later or (run.shuffled and keeps_state)}
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
            balance_every=routes.edges[each].balance_every if each in routes.edges else None,
        )
        for each in names
    ]
    return _setup(name, operators, sorted((a, b) for a, b in flows if b in names), executors, trigger, frozenset())


def live_setup(
    name: str,
    source: str,
    tasks: Mapping[str, int],
    flows: Iterable[tuple[str, str]],
    routes: RouteTable,
    executors: Executors,
) -> Setup:
    """The setup of a real-time query that was not made from a topology: its source, and its edges with their tasks."""
    behind = [_routed(edge, pool, routes) for edge, pool in tasks.items()]
    operators = [OperatorSetup(source, max(executors.cores, 1), spout=True), *behind]
    return replace(_setup(name, operators, flows, executors, None, frozenset()), mode="pipeline")


def _setup(
    name: str,
    operators: list[OperatorSetup],
    flows: Iterable[tuple[str, str]],
    executors: Executors,
    trigger: str | None,
    admitting: frozenset[str],
) -> Setup:
    return Setup(
        query=name,
        operators=tuple(operators),
        flows=tuple(flows),
        cores_per_executor=executors.cores,
        executors=executors.range,
        trigger=0.0 if trigger is None else parse_duration(trigger),
        can_quarantine=executors.can_quarantine,
        can_admit=admitting,
    )


def _bolt(bolt: Bolt, stateful: set[str], routes: RouteTable, state_partitions: int) -> OperatorSetup:
    if bolt.id in stateful:
        return OperatorSetup(bolt.id, state_partitions, stateful=True)
    return _routed(bolt.id, bolt.pool_size, routes)


def _routed(name: str, pool: int, routes: RouteTable) -> OperatorSetup:
    """An operator behind an edge of its own name, if that has a route."""
    route = routes.edges.get(name)
    return (
        OperatorSetup(name, pool)
        if route is None
        else OperatorSetup(name, pool, name, balance_every=route.balance_every)
    )


def _head(topology: Topology, name: str, chained: set[str]) -> str:
    """The operator that a component's tasks are counted under."""
    component = topology.component(name)
    if isinstance(component, Bolt) and name in chained and component.inputs:
        return _head(topology, component.inputs[0].component, chained)
    return name
