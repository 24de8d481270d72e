"""Keeps the query of a pipeline running: replays hung batches, revives a dead query, and restarts it on request.

`decide` is pure: a state and an observation in, a state and an action out. `Supervisor` observes and carries out.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.control.actions.registry import Restart
from foretide.errors import BatchTimeoutError, FeedbackGrowthError, ForetideError, RestartFailedError
from foretide.metrics.audit import AuditFailure
from foretide.runtime.threads import guarded

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.pipeline.follower import Follower
    from foretide.runtime.pipeline.listeners import FeedbackGuard
    from foretide.runtime.pipeline.query import Query
    from foretide.settings.run import RunSettings

_RESTART_PAUSE_SECONDS = 10.0
_FIRST_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
_HEALTHY_AFTER_BATCHES = 10
"""Batches after which a revived query counts as healthy again."""

log = logging.getLogger("foretide")


@dataclass(frozen=True)
class SupervisorState:
    """What is carried from one observation to the next.

    Attributes:
        busy_since: Since when the batch after `after_batch` has been under way; None when none is.
        timed_out_batch: The batch that ran into the time-out last, and `timeouts`, how often in a row.
        deaths: How often the query has died without becoming healthy in between, last after batch `died_after`.
    """

    busy_since: float | None = None
    after_batch: int = -1
    timed_out_batch: int = -1
    timeouts: int = 0
    deaths: int = 0
    died_after: int = -1


@dataclass(frozen=True)
class Observation:
    """A query at one moment.

    Attributes:
        now: Seconds of a clock that never jumps.
        last_batch: The last batch that was reported; -1 before the first.
        busy: Whether a batch is under way.
        error: What the query died of; None while it runs, or when it ended by itself.
        rescued: Whether the cause of its death has been removed.
        restart: The restart that was requested.
    """

    now: float
    last_batch: int
    active: bool = True
    busy: bool = False
    error: str | None = None
    rescued: bool = False
    restart: Restart | None = None


@dataclass(frozen=True)
class ReplayBatch:
    """Cancel the batch under way and replay it from the checkpoint."""


@dataclass(frozen=True)
class Revive:
    """Start a dead query again after so many seconds."""

    after_seconds: float = 0.0


@dataclass(frozen=True)
class GiveUp:
    """End the query for good. Without an error, the query's own one says why."""

    error: ForetideError | None = None


SupervisorAction = ReplayBatch | Revive | Restart | GiveUp | None


def decide(
    pipeline: str, settings: RunSettings, state: SupervisorState, seen: Observation
) -> tuple[SupervisorState, SupervisorAction]:
    """What to do about a query, and the next state.

    >>> from foretide.settings.run import RunSettings
    >>> dead = Observation(now=7.0, last_batch=3, active=False, error="out of memory")
    >>> decide("app", RunSettings(revive=1), SupervisorState(), dead)[1]
    Revive(after_seconds=1.0)
    """
    state, expired = _timed(settings.batch_timeout, state, seen)
    if expired:
        return _timed_out(pipeline, settings, state, seen.last_batch + 1)
    if not seen.active and seen.error is not None:
        return _died(settings, state, seen)
    if seen.restart is not None:
        return replace(state, busy_since=None), seen.restart
    return state, None


def _timed(timeout: float | None, state: SupervisorState, seen: Observation) -> tuple[SupervisorState, bool]:
    """The state with the time the batch under way has taken; whether that is longer than the time-out."""
    if timeout is None or not seen.active or not seen.busy or seen.last_batch != state.after_batch:
        return replace(state, busy_since=seen.now if seen.busy else None, after_batch=seen.last_batch), False
    since = seen.now if state.busy_since is None else state.busy_since
    return replace(state, busy_since=since), seen.now - since > timeout


def _timed_out(
    pipeline: str, settings: RunSettings, state: SupervisorState, batch: int
) -> tuple[SupervisorState, SupervisorAction]:
    timeouts = state.timeouts + 1 if batch == state.timed_out_batch else 1
    state = replace(state, busy_since=None, timed_out_batch=batch, timeouts=timeouts)
    if timeouts >= settings.tries:
        return state, GiveUp(BatchTimeoutError(pipeline, batch, settings.batch_timeout or 0.0, settings.tries))
    return state, ReplayBatch()


def _died(settings: RunSettings, state: SupervisorState, seen: Observation) -> tuple[SupervisorState, SupervisorAction]:
    """A query that dies again and again stays dead."""
    state = replace(state, busy_since=None)
    if seen.rescued:
        return state, Revive()
    healthy = seen.last_batch >= state.died_after + _HEALTHY_AFTER_BATCHES
    deaths = 1 if healthy else state.deaths + 1
    state = replace(state, deaths=deaths, died_after=seen.last_batch)
    if deaths > settings.revive:
        return state, GiveUp()
    return state, Revive(min(_FIRST_BACKOFF_SECONDS * 2.0 ** (deaths - 1), _MAX_BACKOFF_SECONDS))


class Supervisor:
    """Carries out what `decide` decides for the query of a pipeline, in the follower's thread."""

    def __init__(self, query: Query, follower: Follower, feedback_guard: FeedbackGuard) -> None:
        self._query, self._follower, self._feedback_guard = query, follower, feedback_guard
        self._state = SupervisorState()
        self._restarts: deque[Restart] = deque()

    def request_restart(self, restart: Restart) -> None:
        """Have the query restarted between two batches, soon."""
        self._restarts.append(restart)

    def see(self, report: BatchReport, failures: list[AuditFailure]) -> None:
        """Give up a query whose feedback loop keeps growing."""
        try:
            self._feedback_guard.see(report, failures)
        except FeedbackGrowthError as error:
            self._follower.give_up(error)

    def supervise(self) -> None:
        """Observe, decide, and carry it out."""
        query = self._query
        self._state, action = decide(query.topology.name, query.settings, self._state, self._observe())
        try:
            self._carry_out(action)
        except RestartFailedError as error:
            self._follower.give_up(error)

    def _observe(self) -> Observation:
        state, follower = self._query.reader.state(), self._follower
        failed = None if state.active else self._query.handle.exception()
        error = None if failed is None else str(failed)
        rescued = error is not None and follower.rescued(error)
        restart = self._restarts[0] if self._restarts else None
        return Observation(time.monotonic(), follower.last_batch, state.active, state.busy, error, rescued, restart)

    def _carry_out(self, action: SupervisorAction) -> None:
        name = self._query.topology.name
        match action:
            case ReplayBatch():
                timeout = self._query.settings.batch_timeout
                log.error("%s: a batch took longer than %s s; it is cancelled and replayed", name, timeout)
                self._query.handle.stop()
                self._start_again()
            case Revive(after_seconds):
                if after_seconds:
                    cause = str(self._query.handle.exception()).split("\n", maxsplit=1)[0]
                    log.error("%s died (%s); it is started again in %g s", name, cause, after_seconds)
                if not self._follower.stopping.wait(after_seconds):
                    self._start_again()
            case Restart():
                self._restarts.popleft()
                log.warning("%s: restarting: %s", name, action.reason)
                self._restart(action)
            case GiveUp(error):
                self._follower.give_up(error)

    def _restart(self, restart: Restart) -> None:
        """Restart between two batches. If something cannot be changed, the query goes on as it was."""
        self._follower.await_pause(_RESTART_PAUSE_SECONDS)
        self._query.handle.stop()
        try:
            self._query.change(restart)
        except Exception as error:  # noqa: BLE001 - whatever Spark says, the query has to run again
            message = f"a restart could not change everything ({error}); the query goes on as it was"
            failure = AuditFailure("restart-incomplete", self._follower.last_batch, None, message)
            self._follower.audit_log.add(failure)
        self._start_again()

    def _start_again(self) -> None:
        guarded(self._follower.catch_up, f"following '{self._query.topology.name}'")
        self._query.start_again()
        if self._follower.stopping.is_set():  # requested while it was being started
            self._query.handle.stop()
