"""Writing to the store beside a running pipeline: a full disk or a lost server never stops or slows it.

Samples, alarms and decisions go into bounded queues, and one thread of its own writes them. While the store fails, it
is tried again after ever longer pauses, `problem` says what is wrong, and the oldest go when a queue is full.

A clock that jumps back is no problem: samples are written with the time they came with, and read by it. Pauses and
the rounds of forgetting go by a clock that cannot jump.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedWorld
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store.backlog import Backlog
from foretide.store.journal import MAX_DECISIONS
from foretide.store.records import AlarmRecord

if TYPE_CHECKING:
    from foretide.store.metric_store import MetricStore

Record = TypeVar("Record", Sample, AlarmRecord, Decision, RecordedWorld)

FORGOTTEN_AT_ONCE = 20_000
"""Samples forgotten between two batches that are written."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How much may wait, how long to keep it, and how long to leave a failing store alone.

    Attributes:
        capacity: Samples that may wait; then the oldest go.
        alarm_capacity: Alarms that may wait; then the oldest go.
        decision_capacity: Decisions that may wait, and setups; then the oldest go.
        batch: Most samples in one transaction.
        retention_seconds: How long samples, alarms and decisions are kept; None for ever.
        most_decisions: Decisions that are kept at most, however young.
        prune_every: Seconds between two rounds of forgetting.
        first_pause: Seconds before a failing store is tried again; doubled with each failure.
        longest_pause: Seconds that such a pause lasts at most.
    """

    capacity: int = 100_000
    alarm_capacity: int = 1_000
    decision_capacity: int = 1_000
    batch: int = 5_000
    retention_seconds: float | None = None
    most_decisions: int = MAX_DECISIONS
    prune_every: float = 600.0
    first_pause: float = 0.5
    longest_pause: float = 30.0

    def __post_init__(self) -> None:
        counts = (self.capacity, self.alarm_capacity, self.decision_capacity, self.batch, self.most_decisions)
        times = (self.retention_seconds or 1.0, self.prune_every, self.first_pause, self.longest_pause)
        if min(counts) < 1 or min(times) <= 0 or self.retention_seconds == 0:
            raise StoreError(f"a writer's sizes and times have to be above 0: {self}")


class StoreWriter:
    """Writes what one pipeline measures and decides. Putting never waits for the store, and never fails.

    Attributes:
        problem: What is wrong with the store now; None when all is well.
        refused: Samples, alarms and decisions that no store can keep, such as a value of NaN.
    """

    def __init__(
        self,
        open_store: Callable[[], MetricStore],
        pipeline: str,
        settings: WriterSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to write; `start` begins.

        Args:
            open_store: Opens the store. It is called again after a failure; what it opens is closed here.
            pipeline: Whose samples they are.
            settings: Sizes and times.
            clock: Seconds since 1970: what is older than the retention is forgotten.
            steady_clock: Seconds that never jump.
        """
        self._open_store = open_store
        self._pipeline = pipeline
        self._settings = settings or WriterSettings()
        self._clock = clock
        self._steady_clock = steady_clock
        self._store: MetricStore | None = None
        self._changed = Condition()
        self._samples = Backlog[Sample](self._settings.capacity)
        self._alarms = Backlog[AlarmRecord](self._settings.alarm_capacity)
        self._decisions = Backlog[Decision](self._settings.decision_capacity)
        self._setups = Backlog[RecordedWorld](self._settings.decision_capacity)
        self._backlogs: tuple[Backlog[Any], ...] = (self._samples, self._alarms, self._decisions, self._setups)
        self._failures = 0
        self._hurry = False
        self._closing = False
        self._prune_at = steady_clock()
        self._thread = Thread(target=self._run, name=f"foretide-store-{pipeline}", daemon=True)
        self.problem: str | None = None
        self.refused = 0

    def start(self) -> Self:
        """Begin to write, in a thread of its own."""
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """How much was given up because the store did not take it in time."""
        return sum(backlog.dropped for backlog in self._backlogs)

    @property
    def pending(self) -> int:
        """How much is neither written nor given up."""
        with self._changed:
            return sum(backlog.pending for backlog in self._backlogs)

    def put(self, samples: Sequence[Sample]) -> None:
        """Have samples written soon. After `close` they are dropped."""
        self._put(self._samples, samples)

    def put_alarms(self, alarms: Sequence[AlarmRecord]) -> None:
        """Have alarms written soon. After `close` they are dropped."""
        self._put(self._alarms, alarms)

    def put_decisions(self, decisions: Sequence[Decision]) -> None:
        """Have decisions written soon, with the effects they report of earlier ones. After `close` they are dropped."""
        self._put(self._decisions, decisions)

    def put_setup(self, recorded: RecordedWorld) -> None:
        """Have it written soon how the pipeline is set up. After `close` it is dropped."""
        self._put(self._setups, [recorded])

    def flush(self, timeout: float) -> bool:
        """Wait until all that was put so far is written or given up; False when that takes longer."""
        with self._changed:
            so_far = [(backlog, backlog.received) for backlog in self._backlogs]
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: all(backlog.settled >= received for backlog, received in so_far), timeout
            )

    def close(self, timeout: float = 5.0) -> bool:
        """Write what can be written at once, and stop. False when something was lost, or the store hangs."""
        with self._changed:
            self._closing = True
            lost = self.dropped
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        else:
            self._give_up()
            self._shut()
        return not self._thread.is_alive() and self.dropped == lost

    def turn(self) -> float | None:
        """One turn of the thread: write a batch, and forget a little of what is old.

        Returns:
            Seconds until the next turn is due, None for none before something is put.
        """
        with self._changed:
            self._hurry = False
        try:
            store = self._opened()
            self._pass_on(self._alarms, store.write_alarms)
            self._pass_on(self._samples, store.write)
            self._pass_on(self._setups, store.write_setups)
            self._pass_on(self._decisions, partial(store.write_decisions, max_decisions=self._settings.most_decisions))
            due = self._forget(store)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread has to live on
            return self._failed(error)
        self._failures, self.problem = 0, None
        return 0.0 if self._waiting() else due

    def _run(self) -> None:
        while not self._closing:
            pause = self.turn()
            with self._changed:
                self._changed.wait_for(self._wanted, pause)
        self._finish()

    def _wanted(self) -> bool:
        """Whether to take a turn before the pause is over. A failing store is left alone, unless somebody waits."""
        return self._closing or self._hurry or (self.problem is None and self._waiting())

    def _finish(self) -> None:
        """Write the rest; the first failure is the last one."""
        while self._waiting():
            self.turn()
            if self.problem is not None:
                break
        self._give_up()
        self._shut()

    def _opened(self) -> MetricStore:
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _shut(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(Exception):  # it failed before, and is not needed any more
                store.close()

    def _pass_on(self, backlog: Backlog[Record], write: Callable[..., None]) -> None:
        """Write the oldest of a backlog, or leave all there."""
        refused: list[str] = []
        with self._changed:
            records = backlog.take(self._settings.batch)
        try:
            if records:
                write(self._pipeline, records, on_refused=refused.append)
        except BaseException:
            with self._changed:
                backlog.give_back(records)
            raise
        with self._changed:
            self.refused += len(refused)
            backlog.settle(len(records))
            self._changed.notify_all()

    def _forget(self, store: MetricStore) -> float | None:
        """Forget a little when it is time. Says in how many seconds it is time again."""
        kept, now = self._settings.retention_seconds, self._steady_clock()
        if kept is None or self._closing:
            return None
        if now >= self._prune_at:
            if store.forget(self._clock() - kept, at_most=FORGOTTEN_AT_ONCE) == FORGOTTEN_AT_ONCE:
                return 0.0
            self._prune_at = now + self._settings.prune_every
        return self._prune_at - now

    def _failed(self, error: Exception) -> float:
        """Say what is wrong, and how long to wait. The store is opened anew then: it may have been replaced."""
        self._shut()
        pause = self._settings.first_pause * 2.0 ** min(self._failures, 30)
        self._failures += 1
        self.problem = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        return min(pause, self._settings.longest_pause)

    def _give_up(self) -> None:
        with self._changed:
            for backlog in self._backlogs:
                backlog.drop_all()
            self._changed.notify_all()

    def _put(self, backlog: Backlog[Record], records: Sequence[Record]) -> None:
        with self._changed:
            if self._closing:
                backlog.turn_away(len(records))
            else:
                backlog.put(records)
                self._changed.notify_all()

    def _waiting(self) -> bool:
        return any(map(len, self._backlogs))
