"""A query in real-time mode: with an agent in its executors, and a thread that sends them new routes."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import local_path
from foretide.metrics.task_meters import property_of, size_of
from foretide.runtime.pipeline.query import Query, topology_setup
from foretide.runtime.threads import Worker
from foretide.spark.executors import Executors
from foretide.spark.kafka_broker import partitions_of
from foretide.spark.realtime.agent import Agent, is_local, open_agent
from foretide.spark.realtime.compile import RealTimeCompiled, compile_real_time
from foretide.spark.realtime.control_topic import control_slots
from foretide.spark.realtime.edges import key_of
from foretide.spark.realtime.lag import TopicLag, topic_lag, topic_readers
from foretide.spark.realtime.operators import metered_operators
from foretide.spark.realtime.reader import RealTimeReader
from foretide.spark.realtime.routes import route_property, route_text
from foretide.spark.realtime.slots import Slots
from foretide.spark.sinks import start_query
from foretide.topology.graph import feedback_name, output_name
from foretide.topology.modes import REAL_TIME
from foretide.topology.sinks import KafkaSink
from foretide.topology.sources import KafkaSource

if TYPE_CHECKING:
    from foretide.control.actions.registry import Restart
    from foretide.control.world.setup import Setup
    from foretide.control_folder.facts import PipelineFacts
    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import BatchReport
    from foretide.routing.table import RouteTable
    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink

_FIRST_SLOTS_SECONDS, _SLOTS_SECONDS = 30.0, 120.0
"""How long a start waits for executors: the first one while they register, later ones while a lost one is replaced."""

_POLL_SECONDS = 0.01
_REMOTE_POLL_SECONDS = 0.5
_ACK_SECONDS = 5.0
_EXECUTORS_SECONDS = 1.0
log = logging.getLogger("foretide")


class RealTimeQuery(Query):
    """One query of a topology in real-time mode.

    Attributes:
        routes: Sends routes to the executors.
    """

    compiled: RealTimeCompiled
    reader: RealTimeReader
    tasks_stay = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._executors = Executors(self.spark.sparkContext)
        source = next(spout.source for spout in self.topology.spouts if isinstance(spout.source, KafkaSource))
        folder = f"{self.checkpoint}/foretide-agent"
        self._agent = open_agent(self.spark, self._key, source.servers, source.options, folder)
        self._next_report = 0
        self._counted: dict[str, int] = {}
        self._read_again = 0, 0.0
        self.routes = RoutePublisher(self.topology.name, self._key, self.control_folder, self._agent, self._executors)

    @property
    def _key(self) -> str:
        return key_of(self.control_folder)

    def _compile(self, topology: Topology) -> RealTimeCompiled:
        partitions = {
            spout.id: partitions_of(spout.source.servers, spout.source.topic, spout.source.options)
            for spout in topology.spouts
            if isinstance(spout.source, KafkaSource)
        }
        partitions |= _feedback_partitions(topology, self.sink)
        return compile_real_time(
            self.spark, topology, self.sink, self.control_folder, self.settings.guarantee, partitions
        )

    def _start(self, trigger: str | None) -> Any:
        del trigger  # a batch in real-time mode has a length instead
        self._await_slots()
        if not self.started:  # later on the agent starts itself again, and tuples are waiting
            self._agent.start()
        if self._counted != self._counters:  # the first start, or another pool
            self._counted = self._counters
            self.routes.start(self._counted)
            self._baseline = self._agent.read_counters(list(self._counted), _ACK_SECONDS)
        handles: list[Any] = []
        try:
            for place, frame in enumerate(self.compiled.queries):
                handles.append(self._start_one(place, replace(self.compiled, frame=frame)))
        except Exception:
            QueryGroup(handles).stop()
            raise
        return QueryGroup(handles)

    @property
    def _counters(self) -> dict[str, int]:
        """The counters that executors need, with their sizes."""
        return {property_of(self._key, name, tasks): size_of(tasks) for name, tasks in self.compiled.counters.items()}

    def _start_one(self, place: int, compiled: RealTimeCompiled) -> Any:
        name, checkpoint = self.topology.name, self._checkpoint_of(place)
        if place:
            name = f"{name}.{place}"
        return start_query(compiled, name, self.sink, checkpoint, self.settings.batch, "update", REAL_TIME)

    def _checkpoint_of(self, place: int) -> str:
        return f"{self.checkpoint}/branches/{place}" if place else self.checkpoint

    def _topics(self) -> list[TopicLag]:
        """The topics whose lag is measured, each in the query that counts its records."""
        places = self.compiled.query_of
        return [
            topic_lag(self.spark, each, self.handle.handles[place], self._checkpoint_of(place))
            for each in topic_readers(self.topology, self.sink, self.compiled.counters)
            for place in [places[each.counters]]
        ]

    @property
    def _slots(self) -> Slots:
        """The slots that all queries of the topology need, and the control query."""
        control = 0 if is_local(self.spark) else control_slots(len(self._executors.executors()))
        return Slots(self.compiled.tasks, control)

    def _await_slots(self) -> None:
        """Wait until there are slots for all tasks, as after an executor was lost; raise if there are too few."""
        patience = _SLOTS_SECONDS if self.started else 0.0 if is_local(self.spark) else _FIRST_SLOTS_SECONDS
        end = time.monotonic() + patience
        if self._slots.total > self._available() and self.started:
            self._release_quarantined()
            log.warning("'%s' waits for %d slots", self.topology.name, self._slots.total)
        while self._slots.total > self._available() and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        self._slots.check(self.topology.name, self._available())

    def await_tasks(self, timeout: float) -> bool:
        """Wait until all tasks of its queries run; False if they do not in that time."""
        tracker, end = self.spark.sparkContext.statusTracker(), time.monotonic() + timeout
        while time.monotonic() < end:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if sum(stage.numActiveTasks for stage in stages if stage is not None) >= self._slots.total:
                return True
            time.sleep(_POLL_SECONDS)
        return False

    def _release_quarantined(self) -> None:
        """A slow executor is better than none: without it the query cannot start."""
        for executor in sorted(self._executors.quarantined() & set(self._executors.executors())):
            log.warning("'%s' has too few slots without executor %s: it is let in again", self.topology.name, executor)
            self._executors.let_in(executor)

    def _available(self) -> int:
        usable = set(self._executors.executors()) - self._executors.quarantined()
        return len(usable) * self._executors.cores

    def _read(self) -> RealTimeReader:
        compiled = self.compiled
        return RealTimeReader(
            self.handle,
            metered_operators(self.topology, compiled.metered, compiled.chained, untimed=compiled.stateful),
            self._key,
            self._agent.read_counters,
            sinks=compiled.sinks,
            topics=self._topics(),
            route_version=lambda: self.routes.version,
            host_of=lambda executor: self._agent.executors().get(executor, "unknown"),
            baseline=self._baseline,
            first_batch=self._next_report,
        )

    def start_again(self) -> None:
        """Start a query that has ended again from its checkpoint; its reports are numbered on."""
        self.handle.stop()  # branches that have not ended with it
        self._next_report, self._baseline = self.reader.next_batch, self.reader.last_read
        self._read_again = self.reader.uncommitted, time.time() - self.reader.committed_at
        super().start_again()

    def setup(self, executors: Executors, routes: RouteTable, state_partitions: int) -> Setup:
        """What a control loop can change. Operators work at the same time, each on its own queue."""
        shape, read = self.compiled.shape, self.compiled.metered
        setup = topology_setup(self.topology, shape, routes, executors, None, state_partitions, read, "pipeline")
        return replace(setup, slots=self._slots.total)

    def _facts(self) -> PipelineFacts:
        return replace(super()._facts(), restart_limits=frozenset())

    def obstacle(self, restart: Restart) -> str | None:
        """Why the changes of a restart cannot be applied; None when they can."""
        if restart.admission:
            return "real-time mode takes every record at once: admission cannot be limited"
        return super().obstacle(restart)

    def state_obstacle(self) -> str | None:
        """State is repartitioned between two micro-batches only."""
        return "the number of state partitions cannot be changed in real-time mode"

    @property
    def problem(self) -> str | None:
        """What is wrong with the way to the executors."""
        return self._agent.problem

    def routes_in_force(self, reports: Sequence[BatchReport]) -> int | None:
        """The version of the routes that every executor has acknowledged."""
        del reports
        return self.routes.version

    def cost_of_death(self) -> str:
        """What was read since the last of Spark's batches is read once more."""
        tuples, seconds = self._read_again
        return (
            f"about {tuples:,} tuples that it had read in the {seconds:.0f} s since its last commit are read again; "
            "what was written of them is written twice (at-least-once)"
        )

    def close(self) -> None:
        """Stop the agent and the thread that publishes routes."""
        self.routes.stop()
        self._agent.close()
        self._executors.close()


def _feedback_partitions(topology: Topology, sink: Sink) -> dict[str, int]:
    """The partitions that each feedback reads, if each output stream has a topic of its own."""
    if not isinstance(sink, KafkaSink) or sink.topic_of("") == sink.topic:
        return {}
    topics = {
        feedback_name(bolt, source): sink.topic_of(output_name(source.component, source.stream))
        for bolt, source in topology.feedback()
    }
    return {name: partitions_of(sink.servers, topic, sink.options) for name, topic in topics.items()}


class QueryGroup:
    """Several StreamingQueries as one, which is active as long as all are. For all else the first one stands."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = handles

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handles[0], name)

    @property
    def isActive(self) -> bool:  # noqa: N802 - as Spark calls it
        """Whether all of them run."""
        return all(handle.isActive for handle in self.handles)

    def exception(self) -> Any:
        """What the first one that failed has failed with."""
        return next((failed for handle in self.handles if (failed := handle.exception()) is not None), None)

    def stop(self) -> None:
        """Stop all of them, even if one cannot be stopped: its error is raised in the end."""
        with ExitStack() as stack:
            for handle in reversed(self.handles):
                stack.callback(handle.stop)


class RoutePublisher:
    """Sends the published routes to every executor, again and again until all have acknowledged them.

    Attributes:
        version: The version of the route table that every executor has acknowledged; None before the first.
        seconds: How long the last acknowledgement took.
    """

    def __init__(self, pipeline: str, key: str, folder: ControlFolder, agent: Agent, executors: Executors) -> None:
        self._key, self._folder, self._agent, self._executors = key, folder, agent, executors
        self._file = local_path(folder.routes_url)
        self.version: int | None = None
        self.seconds: float | None = None
        self._seen: object = None
        self._counters: Mapping[str, int] = {}
        self._is_new = False
        self._known: frozenset[str] = frozenset()
        self._next_look = 0.0
        period = _REMOTE_POLL_SECONDS if self._file is None else _POLL_SECONDS
        self._worker = Worker(f"foretide-routes-{pipeline}", self._turn, period, what="publishing routes to executors")

    def start(self, counters: Mapping[str, int]) -> None:
        """Create counters and send the routes, to every executor; each later version as soon as it is published."""
        self._counters, self._seen, self._is_new = counters, None, True
        self._turn()
        if not self._worker.alive:
            self._worker.start()

    def stop(self) -> None:
        """Send no more routes."""
        self._worker.stop()

    def _turn(self) -> None:
        stamp = self._stamp()
        self._is_new = self._is_new or self._is_new_executor()
        if stamp is not None and stamp == self._seen and not self._is_new:
            return
        began = time.monotonic()
        table = self._folder.routes()
        unmade = self._agent.create_counters(self._counters, _ACK_SECONDS).missing if self._is_new else frozenset()
        properties = {route_property(self._key, edge): route_text(route.ring) for edge, route in table.edges.items()}
        done = self._agent.set_properties(properties, _ACK_SECONDS)
        if missing := (done.missing | unmade) - self._executors.quarantined():
            names = ", ".join(sorted(missing))
            log.warning("version %d of the routes is not acknowledged yet by executors %s", table.version, names)
            return
        self._seen, self._is_new = stamp, False
        self.version, self.seconds = table.version, time.monotonic() - began

    def _stamp(self) -> object:
        """What changes when another table is published; None where only reading it tells."""
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _is_new_executor(self) -> bool:
        """Whether an executor has joined since the last look; it has no route yet."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _EXECUTORS_SECONDS
        before, self._known = self._known, frozenset(self._executors.executors())
        return bool(self._known - before)
