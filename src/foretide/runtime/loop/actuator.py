"""Performs actions. Having been asked is not having been done: what is in force is observed elsewhere."""

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
    from foretide.control_folder.folder import ControlFolder
    from foretide.routing.table import RouteTable
    from foretide.runtime.joins.joins import Joins
    from foretide.spark.executors.executors import Executors

log = logging.getLogger("foretide")

OnRestart = Callable[[Restart], None]
OnPublished = Callable[["RouteTable"], None]


class Actuator:
    """Turns actions into published routes (each handed to `published`), limits, and calls to Spark's driver."""

    def __init__(
        self,
        folder: ControlFolder,
        levers: Executors,
        restart: OnRestart | None = None,
        joins: Joins | None = None,
        published: OnPublished = lambda _: None,
    ) -> None:
        self._folder, self._levers, self._restart, self._joins = folder, levers, restart, joins
        self._published = published

    def perform(self, actions: tuple[Action, ...]) -> list[str]:
        """Do all of them; what failed is told in sentences, and keeps none of the others from being done."""
        problems = []
        for action in actions:
            try:
                self._do(action)
            except Exception as error:  # noqa: BLE001 - whatever Spark says, the query and the loop go on
                problems.append(f"could not {action.describe()}: {error}")
                log.error("%s", problems[-1])  # noqa: TRY400 - the sentence says it
        return problems

    def _do(self, action: Action) -> None:
        match action:
            case SetSplit(edge, weights):
                self._published(self._folder.change_routes(lambda table: table.split(edge, weights)))
            case SetReplicas(edge, replicas):
                self._published(self._folder.change_routes(lambda table: table.activate(edge, replicas)))
            case SetAdmission(spout, rows):
                self._folder.orders.limit_admission(spout, rows)
            case Restart():
                self._restarted(action)
            case SetExecutors(count):
                self._levers.resize(count)
            case SetJoinPlan():
                self._plan_join(action)
            case _:
                self._place(action)

    def _place(self, action: Quarantine | Release | QuarantineHost | ReleaseHost) -> None:
        match action:
            case Quarantine(worker):
                self._levers.take_out(worker)
            case Release(worker):
                self._levers.let_in(worker)
            case QuarantineHost(host):
                self._all_on(host, self._levers.take_out)
            case ReleaseHost(host):
                self._all_on(host, self._levers.let_in)

    def _all_on(self, host: str, do: Callable[[str], None]) -> None:
        for worker, where in self._levers.executors().items():
            if where == host:
                do(worker)

    def _plan_join(self, action: SetJoinPlan) -> None:
        if self._joins is None:
            raise ActionError("this query has no joins that can be planned")
        self._joins.adopt(action.join, action.grids)

    def _restarted(self, action: Restart) -> None:
        if self._restart is None:
            raise ActionError("this query was started elsewhere, and only who started it can start it again")
        self._restart(action)
