"""A real-time query that somebody else has started: its running tasks get live routes, and are measured.

Edges made by `ft.edge(..., mode="real-time")` count the tuples that enter their tasks. Where the work on these ends is
not known in a query that was not made from a topology: there are no service times and no latency.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import absolute
from foretide.errors import ControlError
from foretide.metrics.task_meters import property_of, size_of
from foretide.runtime.pipeline.followed import SOURCE, FollowedQuery
from foretide.runtime.pipeline.query import live_setup
from foretide.runtime.pipeline.real_time import RoutePublisher
from foretide.runtime.threads import guarded
from foretide.spark.executors import Executors
from foretide.spark.realtime.agent import open_agent
from foretide.spark.realtime.edges import key_of
from foretide.spark.realtime.operators import MeteredOperator
from foretide.spark.realtime.plan import SERVERS, active_session, live_plan
from foretide.spark.realtime.reader import RealTimeReader
from foretide.spark.realtime.routes import route_property

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.world.setup import Setup
    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import BatchReport
    from foretide.settings.run import MonitorSettings
    from foretide.spark.running_query import RunningQuery

_ACK_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_NOT_MEASURED = (
    "%s: routes are sent to running tasks, and tuples are counted; service times and latency of a real-time query that "
    "was not made from a topology are not measured, so policies that need them do nothing"
)
log = logging.getLogger("foretide")


class FollowedRealTimeQuery(FollowedQuery):
    """A real-time StreamingQuery with edges of this control folder. `start` reaches its executors.

    Attributes:
        routes: Sends routes to the executors.
    """

    def __init__(
        self,
        query: Any,
        control_folder: ControlFolder,
        monitoring: MonitorSettings | None,
        known: RunningQuery | None = None,
    ) -> None:
        self._key = key_of(control_folder)
        self._plan = live_plan(query, self._key)
        if not self._plan.tasks:
            raise ControlError(
                f"this query runs in real time and has no edge that running tasks follow by '{control_folder.location}'"
                '; make its edges with ft.edge(..., mode="real-time"), or pass their control_folder=...'
            )
        spark, options = active_session(), self._plan.source_options
        self._executors = Executors(spark.sparkContext)
        folder = f"{absolute(control_folder.location)}/agent"
        self._agent = open_agent(spark, self._key, options.get(SERVERS), options, folder)
        super().__init__(query, control_folder, monitoring, known)
        self.tasks_stay = True
        name = self.follower.topology.name
        self.routes = RoutePublisher(name, self._key, control_folder, self._agent, self._executors)

    def start(self) -> None:
        """It runs already: send the routes to its executors, now and whenever they change, and create counters."""
        with ExitStack() as undo:
            undo.callback(self.close)
            self._agent.start()
            self.routes.start(self._counters)
            self.reader = self._read(self._agent.read_counters(list(self._counters), _ACK_SECONDS))
            super().start()
            undo.pop_all()
        self.follower.at_end(self.close)
        log.warning(_NOT_MEASURED, self.follower.topology.name)

    def close(self) -> None:
        """Let go of the executors, without live routes: a query without a control loop reads those of its batch."""
        self.routes.stop()
        none = {route_property(self._key, edge): "" for edge in self._plan.tasks}
        guarded(lambda: self._agent.set_properties(none, _CLOSE_SECONDS), "removing live routes from executors")
        self._agent.close()
        self._executors.close()

    def _latency(self, event_time: str | None) -> None:
        """Nothing is known of single batches here."""
        del event_time

    def setup(self, executors: Executors) -> Setup:
        """What can be changed, as the plan tells it."""
        flows = [(sender or SOURCE, edge) for sender, edge in self._plan.flows]
        return live_setup(self.follower.topology.name, SOURCE, self._plan.tasks, flows, self.follower.routes, executors)

    @property
    def problem(self) -> str | None:
        """What is wrong with the way to the executors."""
        return self._agent.problem

    @property
    def _counters(self) -> dict[str, int]:
        return {property_of(self._key, edge, tasks): size_of(tasks) for edge, tasks in self._plan.tasks.items()}

    def _read(self, baseline: Mapping[str, Mapping[str, str]] | None = None) -> EntryReader:
        return EntryReader(
            self._plan.first,
            self.handle,
            [MeteredOperator(edge, tasks, edge) for edge, tasks in self._plan.tasks.items()],
            self._key,
            self._agent.read_counters,
            route_version=lambda: self.routes.version,
            host_of=lambda executor: self._agent.executors().get(executor, "unknown"),
            baseline=baseline,
        )


class EntryReader(RealTimeReader):
    """Reads the meters of a query whose operators have meters at their entry only.

    The tuples behind the edges `first`, which a source feeds, are taken for the rows that were read from it.
    """

    def __init__(self, first: frozenset[str], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first = first

    def reports(self) -> list[BatchReport]:
        """As of any real-time query, without what only an exit would tell."""
        return [self._of_entries(report) for report in super().reports()]

    def _of_entries(self, report: BatchReport) -> BatchReport:
        runs = tuple(replace(run, known="entries") for run in report.tasks or ())
        rows = sum(flow.read for edge, flow in (report.edges or {}).items() if edge in self._first)
        return replace(report, tasks=runs, input_rows=rows)
