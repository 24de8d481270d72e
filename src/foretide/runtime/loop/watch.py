"""`ft.watch(spark)`: a control loop for every query of a session, those that run and those that start later.

All of them share one connection to Spark's REST interface, and its executions are read once for all.
"""

from __future__ import annotations

import logging
import queue
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from foretide.errors import ControlError, ForetideError
from foretide.runtime.loop.attach import control
from foretide.runtime.pipeline.followed import controllable
from foretide.runtime.threads import Worker, guarded
from foretide.settings.load import load_settings
from foretide.spark.session_events import QueryStarts, is_classic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretide.control.step import Policy
    from foretide.control.world.setup import ControlMode, Target
    from foretide.runtime.loop.controller import Controller
    from foretide.runtime.pipeline.follower import Follower
    from foretide.settings.settings import Settings

_PERIOD_SECONDS = 2.0
_MAX_TRIES = 5
"""A query that is started again may have to wait until its last run is no longer followed."""

log = logging.getLogger("foretide")


class Watch:
    """Controls the queries of one session. Made by `ft.watch`; the constructor starts nothing.

    Attributes:
        problems: By the name or id of a query, why no control loop is attached to it.
    """

    def __init__(self, spark: Any, attach: Attach) -> None:
        self._spark, self._attach = spark, attach
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._attached: dict[str, tuple[Follower, Controller]] = {}
        self._lock = threading.Lock()
        self.problems: dict[str, str] = {}
        self._starts = QueryStarts(spark, self._note)
        self._tries: dict[str, int] = {}
        self._worker = Worker("foretide-watch", self._turn, _PERIOD_SECONDS, what="attaching control loops")

    def start(self) -> Watch:
        """Attach to what runs, and to what starts from now on."""
        self._starts.add()
        self._worker.start()
        for query in self._spark.streams.active:
            self._note(str(query.id))
        return self

    @property
    def controllers(self) -> list[Controller]:
        """The control loops of the queries that run."""
        with self._lock:
            return [controller for _, controller in self._attached.values()]

    def stop(self) -> None:
        """Control and follow nothing any more; the queries run on."""
        guarded(self._starts.remove, "removing a listener of queries")
        self._worker.stop()
        with self._lock:
            attached = list(self._attached.values())
        for follower, _ in attached:
            follower.detach()

    def stop_queries(self) -> None:
        """Stop the queries that are controlled, each between two batches."""
        with self._lock:
            attached = list(self._attached.values())
        for follower, _ in attached:
            follower.stop()

    def _note(self, query: str) -> None:
        self._waiting.put(query)
        self._worker.wake()

    def _turn(self) -> None:
        for number in list(self._tries):
            self._waiting.put(number)
        while not self._waiting.empty():
            number = self._waiting.get()
            query = self._spark.streams.get(number)
            if query is not None and query.isActive:
                self._try(number, query)

    def _try(self, number: str, query: Any) -> None:
        name = str(query.name or number)
        with self._lock:
            if number in self._attached:
                return
        try:
            follower, controller = self._attach(query)
        except ForetideError as error:
            tries = self._tries.pop(number, 0) + 1
            if tries < _MAX_TRIES:
                self._tries[number] = tries
            else:
                log.warning("%s is not controlled: %s", name, error)
            self.problems[name] = str(error)
            return
        self.problems.pop(name, None)
        self._tries.pop(number, None)
        with self._lock:
            self._attached[number] = follower, controller
        follower.at_last(partial(self._forget, number))
        log.info("%s is controlled in mode %s", follower.topology.name, controller.control.mode)
        if not follower.running:  # it ended meanwhile
            self._forget(number)

    def _forget(self, number: str) -> None:
        with self._lock:
            self._attached.pop(number, None)


class Attach:
    """Attaches a control loop to a query, always with the same arguments."""

    def __init__(
        self,
        policies: Sequence[str | Policy[Any]] | None,
        target: Target | None,
        mode: ControlMode,
        settings: Settings,
    ) -> None:
        self._policies, self._target, self._mode, self._settings = policies, target, mode, settings
        settings.to_control(policies)  # a wrong name is refused now

    def __call__(self, query: Any) -> tuple[Follower, Controller]:
        """Attach to a query."""
        running = controllable(query, self._settings, None)
        controller = control(running, self._policies, self._target, mode=self._mode, settings=self._settings)
        return running.follower, controller


def watch(
    spark: Any,
    policies: Sequence[str | Policy[Any]] | None = None,
    target: Target | None = None,
    *,
    mode: ControlMode = "advise",
    settings: Settings | None = None,
) -> Watch:
    """Attach a control loop to every query of a session, those that run and those that start later.

    By default the loops only advise: decisions are made and explained, and nothing is changed. The queries of
    `spark.newSession()` are another session's. A query that is controlled already, or cannot be, is left alone, and
    `problems` of what is returned says why.

    Args:
        spark: The session.
        policies: As for `ft.control`.
        target: As for `ft.control`.
        mode: `advise`, or `act` to carry out what the policies decide.
        settings: As for `ft.control`.
    """
    if not is_classic(spark):
        raise ControlError("the queries of a Spark Connect session cannot be watched: the driver is not accessible")
    return Watch(spark, Attach(policies, target, mode, settings or load_settings())).start()
