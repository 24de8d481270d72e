"""Keeps the query of a pipeline running: replays hung batches, revives a dead query, and restarts it on request.

`decide` is pure: a state and an observation in, a state and an action out. `Supervisor` observes and carries out.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from foretide.control.actions.registry import Restart
from foretide.errors import ActionError, BatchTimeoutError, FeedbackGrowthError, ForetideError, RestartFailedError
from foretide.metrics.audit import AuditFailure
from foretide.runtime.threads import guarded
from foretide.secrets import masked
from foretide.topology.modes import REAL_TIME

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

LIMIT_BATCHES = 20
"""The last batches by whose durations a hung batch is told."""

_KNOWN_BATCHES = 5
_SLOW_FACTOR, _SLOW_SECONDS, _SLOW_AT_FIRST_SECONDS = 5.0, 30.0, 300.0
_HUNG_FACTOR, _HUNG_SECONDS = 10.0, 60.0
_PROGRESS_SECONDS = 5.0

log = logging.getLogger("foretide")


@dataclass(frozen=True)
class SupervisorState:
    """What is carried from one observation to the next.

    Attributes:
        busy_since: Since when the batch after `after_batch` has been under way; None when none is. Without a time-out
            in the settings: since when no task of it has ended.
        timed_out_batch: The batch that ran into the time-out last, and `timeouts`, how often in a row.
        slow_batch: The last batch that was reported as slow.
        tasks_done: Tasks of the batch under way that had ended.
        deaths: How often the query has died without becoming healthy in between, last after batch `died_after`.
    """

    busy_since: float | None = None
    after_batch: int = -1
    timed_out_batch: int = -1
    timeouts: int = 0
    slow_batch: int = -1
    tasks_done: int = 0
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
        durations: Seconds that each of the last batches took.
        tasks_done: Tasks of this query that have ended.
    """

    now: float
    last_batch: int
    active: bool = True
    busy: bool = False
    error: str | None = None
    rescued: bool = False
    restart: Restart | None = None
    durations: tuple[float, ...] = ()
    tasks_done: int = 0


@dataclass(frozen=True)
class ReplayBatch:
    """Cancel the batch under way, which has taken longer than so many seconds, and replay it from the checkpoint."""

    limit: float


@dataclass(frozen=True)
class ReportSlow:
    """Say that a batch takes much longer than usual."""

    batch: int
    seconds: float


@dataclass(frozen=True)
class Revive:
    """Start a dead query again after so many seconds."""

    after_seconds: float = 0.0


@dataclass(frozen=True)
class GiveUp:
    """End the query for good. Without an error, the query's own one says why."""

    error: ForetideError | None = None


SupervisorAction = ReplayBatch | ReportSlow | Revive | Restart | GiveUp | None


def decide(
    pipeline: str, settings: RunSettings, state: SupervisorState, seen: Observation
) -> tuple[SupervisorState, SupervisorAction]:
    """What to do about a query, and the next state.

    >>> from foretide.settings.run import RunSettings
    >>> dead = Observation(now=7.0, last_batch=3, active=False, error="out of memory")
    >>> decide("app", RunSettings(revive=1), SupervisorState(), dead)[1]
    Revive(after_seconds=1.0)
    """
    batch = seen.last_batch + 1
    slow, limit = _limits(settings.batch_timeout, seen.durations)
    state, took = _timed(state, seen, by_task=settings.batch_timeout is None)
    tries = state.timeouts if state.timed_out_batch == batch else 0
    patience = limit if settings.batch_timeout else limit * 2.0**tries  # a healthy batch must not be cancelled for ever
    if took > patience:
        return _timed_out(pipeline, settings, replace(state, timeouts=tries), batch, limit, patience)
    if took > slow and state.slow_batch != batch:
        return replace(state, slow_batch=batch), ReportSlow(batch, took)
    if not seen.active and seen.error is not None:
        return _died(settings, state, seen)
    if seen.restart is not None:
        return replace(state, busy_since=None), seen.restart
    return state, None


def _limits(timeout: float | None, durations: tuple[float, ...]) -> tuple[float, float]:
    """Seconds after which a batch is slow, and after which it is cancelled.

    >>> _limits(None, (1.0, 2.0, 9.0, 1.0, 1.0)), _limits(None, (1.0,)), _limits(0.0, ()), _limits(6.0, ())
    ((30.0, 90.0), (300.0, inf), (300.0, inf), (inf, 6.0))
    """
    if timeout:
        return math.inf, timeout
    if len(durations) < _KNOWN_BATCHES:
        return _SLOW_AT_FIRST_SECONDS, math.inf
    hung = max(_HUNG_SECONDS, _HUNG_FACTOR * max(durations))
    return max(_SLOW_SECONDS, _SLOW_FACTOR * median(durations)), hung if timeout is None else math.inf


def _timed(state: SupervisorState, seen: Observation, *, by_task: bool) -> tuple[SupervisorState, float]:
    """The state with the beginning of the batch under way, and the seconds since then.

    With `by_task` they are counted from the last task that has ended: a batch that gets on is not hung.
    """
    if not seen.active or not seen.busy or seen.last_batch != state.after_batch:
        since = seen.now if seen.busy else None
        return replace(state, busy_since=since, after_batch=seen.last_batch, tasks_done=seen.tasks_done), 0.0
    got_on = by_task and seen.tasks_done != state.tasks_done
    since = seen.now if state.busy_since is None or got_on else state.busy_since
    return replace(state, busy_since=since, tasks_done=seen.tasks_done), seen.now - since


def _timed_out(
    pipeline: str, settings: RunSettings, state: SupervisorState, batch: int, limit: float, patience: float
) -> tuple[SupervisorState, SupervisorAction]:
    state = replace(state, busy_since=None, timed_out_batch=batch, timeouts=state.timeouts + 1, slow_batch=batch)
    if state.timeouts >= settings.tries:
        return state, GiveUp(BatchTimeoutError(pipeline, batch, limit, settings.tries))
    return state, ReplayBatch(patience)


def _died(settings: RunSettings, state: SupervisorState, seen: Observation) -> tuple[SupervisorState, SupervisorAction]:
    """A query that dies again and again stays dead."""
    state = replace(state, busy_since=None)
    if seen.rescued:
        return state, Revive()
    healthy = seen.last_batch >= state.died_after + _HEALTHY_AFTER_BATCHES
    deaths = 1 if healthy else state.deaths + 1
    state = replace(state, deaths=deaths, died_after=seen.last_batch)
    if deaths > settings.revivals:
        return state, GiveUp()
    if settings.mode == REAL_TIME.name and deaths == 1:  # a lost executor ends the query; tuples are waiting
        return state, Revive()
    return state, Revive(min(_FIRST_BACKOFF_SECONDS * 2.0 ** (deaths - 1), _MAX_BACKOFF_SECONDS))


class Supervisor:
    """Carries out what `decide` decides for the query of a pipeline, in the follower's thread."""

    def __init__(self, query: Query, follower: Follower, feedback_guard: FeedbackGuard) -> None:
        self._query, self._follower, self._feedback_guard = query, follower, feedback_guard
        self._state = SupervisorState()
        self._restarts: deque[Restart] = deque()
        self._refused: Restart | None = None
        self._next_progress = 0.0

    def request_restart(self, restart: Restart) -> None:
        """Have the query restarted between two batches, soon; ActionError if what it changes cannot be changed."""
        obstacle = self._query.obstacle(restart)
        if obstacle is None:
            self._restarts.append(restart)
            return
        message = f"the restart was refused: {obstacle}; the query runs on"
        if restart != self._refused:  # a control loop may ask again
            self._refused = restart
            self._follower.audit_log.add(AuditFailure("restart-refused", self._follower.last_batch, None, message))
        raise ActionError(message)

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
        error = None if failed is None else masked(str(failed))
        rescued = error is not None and follower.rescued(error)
        restart = self._restarts[0] if self._restarts else None
        durations = tuple(report.duration for report in list(follower.reports)[-LIMIT_BATCHES:])
        now, done = time.monotonic(), self._state.tasks_done
        if state.busy and now - (self._state.busy_since or now) > _PROGRESS_SECONDS and now >= self._next_progress:
            self._next_progress = now + _PROGRESS_SECONDS
            done = self._query.tasks_done()
        last = follower.last_batch
        return Observation(now, last, state.active, state.busy, error, rescued, restart, durations, done)

    def _carry_out(self, action: SupervisorAction) -> None:
        name = self._query.topology.name
        match action:
            case ReplayBatch(limit):
                batch = self._follower.last_batch + 1
                self._report_slow(f"batch {batch} took longer than {limit:g} s; it is cancelled and replayed")
                self._query.handle.stop()
                self._start_again()
            case ReportSlow(batch, seconds):
                self._report_slow(f"batch {batch} has been under way for {seconds:.0f} s, much longer than usual")
            case Revive(after_seconds):
                if after_seconds:
                    cause = masked(str(self._query.handle.exception()).split("\n", maxsplit=1)[0])
                    log.error("%s died (%s); it is started again in %g s", name, cause, after_seconds)
                if not self._follower.stopping.wait(after_seconds):
                    self._revive()
            case Restart():
                self._restarts.popleft()
                log.warning("%s: restarting: %s", name, action.reason)
                self._restart(action)
            case GiveUp(error):
                self._follower.give_up(error)

    def _revive(self) -> None:
        """Start a dead query again, and say what its death has cost."""
        began, cause = time.monotonic(), masked(str(self._query.handle.exception()).split("\n", maxsplit=1)[0])
        self._start_again()
        message = f"the query died ({cause}) and was started again within {time.monotonic() - began:.1f} s"
        cost = self._query.cost_of_death()
        if cost is not None:
            failure = AuditFailure("query-restarted", self._follower.last_batch, None, f"{message}; {cost}")
            self._follower.audit_log.add(failure)

    def _report_slow(self, message: str) -> None:
        self._follower.audit_log.add(AuditFailure("batch-slow", self._follower.last_batch + 1, None, message))

    def _restart(self, restart: Restart) -> None:
        """Restart between two batches. If something cannot be changed, the query goes on as it was."""
        self._follower.await_pause(_RESTART_PAUSE_SECONDS, or_end=True)  # some queries hardly pause
        self._query.handle.stop()
        try:
            self._query.change(restart)
        except Exception as error:  # noqa: BLE001 - whatever Spark says, the query has to run again
            message = f"a restart could not change everything ({masked(str(error))}); the query goes on as it was"
            failure = AuditFailure("restart-incomplete", self._follower.last_batch, None, message)
            self._follower.audit_log.add(failure)
        self._start_again()

    def _start_again(self) -> None:
        if not self._query.tasks_stay:  # counters of running tasks are taken up by the next reader
            guarded(self._follower.catch_up, f"following '{self._query.topology.name}'")
        self._query.start_again()
        if self._follower.stopping.is_set():  # requested while it was being started
            self._query.handle.stop()
