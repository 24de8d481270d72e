"""Carries out actions. A request is not yet a result: what is in force is observed elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from foretide.control.actions.registry import (
    Action,
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetAdmission,
    SetExecutors,
    SetJoinPlan,
    SetReplicas,
    SetSplit,
)
from foretide.errors import ActionError

if TYPE_CHECKING:
    from foretide.routing.table import RouteTable
    from foretide.runtime.joins.joins import Joins
    from foretide.runtime.loop.world_reader import Observer
    from foretide.runtime.pipeline.submit import Controllable
    from foretide.spark.executors.executors import Executors

log = logging.getLogger("foretide")


class Actuator:
    """Turns actions into published routes and limits, restarts, and calls to Spark's driver.

    The observer is told which routes were published, so that it recognises them when a batch has read them.
    """

    def __init__(self, query: Controllable, executors: Executors, observer: Observer, joins: Joins | None) -> None:
        self._query, self._executors, self._observer, self._joins = query, executors, observer, joins
        self._control_folder = query.follower.control_folder

    def perform(self, actions: tuple[Action, ...]) -> list[str]:
        """Carry out all of them. Failures are returned as sentences, and keep no other action from being done."""
        problems = []
        for action in actions:
            try:
                self._perform(action)
            except Exception as error:  # noqa: BLE001 - whatever Spark says, the query and the loop go on
                problems.append(f"could not {action.describe()}: {error}")
                log.error("%s", problems[-1])  # noqa: TRY400 - the sentence says it
        return problems

    def _perform(self, action: Action) -> None:
        match action:
            case SetSplit(edge, weights):
                self._publish(lambda table: table.split(edge, weights))
            case SetReplicas(edge, replicas):
                self._publish(lambda table: table.activate(edge, replicas))
            case SetAdmission(spout, rows):
                self._control_folder.orders.limit_admission(spout, rows)
            case Restart():
                self._query.restart(action)
            case SetExecutors(count):
                self._executors.resize(count)
            case SetJoinPlan():
                if self._joins is None:
                    raise ActionError("this query has no joins that can be planned")
                self._joins.adopt(action.join, action.plan)
            case _:
                self._place(action)

    def _publish(self, change: Callable[[RouteTable], RouteTable]) -> None:
        self._observer.note_routes(self._control_folder.change_routes(change))

    def _place(self, action: Quarantine | Release | QuarantineHost | ReleaseHost) -> None:
        match action:
            case Quarantine(worker):
                self._executors.take_out(worker)
            case Release(worker):
                self._executors.let_in(worker)
            case QuarantineHost(host):
                for worker in self._workers_on(host):
                    self._executors.take_out(worker)
            case ReleaseHost(host):
                for worker in self._workers_on(host):
                    self._executors.let_in(worker)

    def _workers_on(self, host: str) -> list[str]:
        return [worker for worker, its_host in self._executors.executors().items() if its_host == host]
