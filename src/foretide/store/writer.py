"""Writes to the store beside a running pipeline, which a full disk or a lost server neither stops nor slows.

Samples, alarms and decisions are put into bounded queues, which a thread writes to the store. While the store fails,
it is retried after ever longer pauses, `problem` describes the failure, and a full queue drops its oldest items.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedWorld
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store.records import MAX_DECISIONS, AlarmRecord

if TYPE_CHECKING:
    from foretide.store.metric_store import MetricStore

Item = TypeVar("Item")
Record = TypeVar("Record", Sample, AlarmRecord, Decision, RecordedWorld)

PRUNED_AT_ONCE = 20_000
"""Samples deleted between two batches that are written."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Sizes of the queues, retention, and pauses after failures.

    Attributes:
        decision_capacity: Maximum of decisions in the queue, and of setups.
        batch: Maximum of records of a kind in one transaction.
        retention_seconds: How long samples, alarms and decisions are kept; None for ever.
        max_decisions: Maximum of decisions in the store, however young.
        first_pause: Seconds before a failing store is retried; doubled with each failure, up to `max_pause`.
    """

    capacity: int = 100_000
    alarm_capacity: int = 1_000
    decision_capacity: int = 1_000
    batch: int = 5_000
    retention_seconds: float | None = None
    max_decisions: int = MAX_DECISIONS
    prune_every: float = 600.0
    first_pause: float = 0.5
    max_pause: float = 30.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value <= 0:
                raise StoreError(f"{each.name} must be greater than 0, got {value}")


class Backlog(Generic[Item]):
    """Items to be written, the oldest first. Not thread-safe: its owner holds a lock.

    Items are settled (written or dropped) in the order in which they were received.

    >>> backlog = Backlog[str](capacity=2)
    >>> backlog.put(["a", "b", "c"])
    >>> backlog.take(5), backlog.dropped
    (['b', 'c'], 1)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Item] = deque()
        self.received = self.settled = self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pending(self) -> int:
        """Number of items that are not settled, those taken out included."""
        return self.received - self.settled

    def put(self, items: Iterable[Item]) -> None:
        """Append items."""
        before = len(self._waiting)
        self._waiting.extend(items)
        self.received += len(self._waiting) - before
        self._shrink()

    def take(self, at_most: int) -> list[Item]:
        """Take out the oldest items. Each has to be given back, or counted as settled."""
        return [self._waiting.popleft() for _ in range(min(at_most, len(self._waiting)))]

    def give_back(self, items: list[Item]) -> None:
        """Put items that were taken out back in front. The oldest may be dropped."""
        self._waiting.extendleft(reversed(items))
        self._shrink()

    def reject(self, count: int) -> None:
        """Count items that arrive after the end as dropped."""
        self.received += count
        self.dropped += count
        self.settled += count

    def drop_all(self) -> None:
        """Drop all items in the queue."""
        self._drop(len(self._waiting))

    def _shrink(self) -> None:
        self._drop(len(self._waiting) - self._capacity)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft()
        self.dropped += max(0, count)
        self.settled += max(0, count)


class StoreWriter:
    """Writes the measurements and decisions of one pipeline. Putting never waits for the store, and never fails.

    Attributes:
        problem: Why the store fails at present, or None.
        refused: Number of records that no store can hold, such as a value of NaN.
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
        """Prepare to write; `start` starts the thread.

        Args:
            open_store: Opens the store, also again after a failure. The writer closes it.
            pipeline: Whose samples they are.
            settings: Sizes and times.
            clock: Seconds since 1970, for the retention.
            steady_clock: Monotonic, for pauses and prunings.
        """
        self._open_store, self._pipeline, self._settings = open_store, pipeline, settings or WriterSettings()
        self._clock, self._steady_clock = clock, steady_clock
        self._store: MetricStore | None = None
        self._changed = Condition()
        self._samples = Backlog[Sample](self._settings.capacity)
        self._alarms = Backlog[AlarmRecord](self._settings.alarm_capacity)
        self._decisions = Backlog[Decision](self._settings.decision_capacity)
        self._setups = Backlog[RecordedWorld](self._settings.decision_capacity)
        self._backlogs: tuple[Backlog[Any], ...] = (self._samples, self._alarms, self._decisions, self._setups)
        self._failures, self._flushing, self._closing = 0, False, False
        self._prune_at = steady_clock()
        self._thread = Thread(target=self._run, name=f"foretide-store-{pipeline}", daemon=True)
        self.problem: str | None = None
        self.refused = 0

    def start(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """Number of records that were dropped because the store did not take them in time."""
        return sum(backlog.dropped for backlog in self._backlogs)

    @property
    def pending(self) -> int:
        """Number of records that are neither written nor dropped."""
        with self._changed:
            return sum(backlog.pending for backlog in self._backlogs)

    def put(self, samples: Sequence[Sample]) -> None:
        """Queue samples. After `close` they are dropped."""
        self._put(self._samples, samples)

    def put_alarms(self, alarms: Sequence[AlarmRecord]) -> None:
        """Queue alarms. After `close` they are dropped."""
        self._put(self._alarms, alarms)

    def put_decisions(self, decisions: Sequence[Decision]) -> None:
        """Have decisions written soon, with the effects they report of earlier ones. After `close` they are dropped."""
        self._put(self._decisions, decisions)

    def put_setup(self, recorded: RecordedWorld) -> None:
        """Queue the setup of the pipeline. After `close` it is dropped."""
        self._put(self._setups, [recorded])

    def flush(self, timeout: float) -> bool:
        """Wait until all that was put so far is written or dropped; False on a time-out."""
        with self._changed:
            so_far = [(backlog, backlog.received) for backlog in self._backlogs]
            self._flushing = True
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: all(backlog.settled >= received for backlog, received in so_far), timeout
            )

    def close(self, timeout: float = 5.0) -> bool:
        """Write what can be written at once, and stop. False if records were lost, or the store hangs."""
        with self._changed:
            self._closing = True
            lost = self.dropped
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        else:
            self._drop_all()
            self._close_store()
        return not self._thread.is_alive() and self.dropped == lost

    def turn(self) -> float | None:
        """Write a batch, and prune a little; returns the seconds until that is due again, None for not before a put."""
        with self._changed:
            self._flushing = False
        try:
            if self._store is None:
                self._store = self._open_store()
            store = self._store
            self._write_batch(self._alarms, store.write_alarms)
            self._write_batch(self._samples, store.write)
            self._write_batch(self._setups, store.write_setups)
            self._write_batch(
                self._decisions, partial(store.write_decisions, max_decisions=self._settings.max_decisions)
            )
            due = self._prune(store)
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
        """Whether to take a turn before the pause is over: not while the store fails, unless `flush` waits."""
        return self._closing or self._flushing or (self.problem is None and self._waiting())

    def _finish(self) -> None:
        """Write the rest, up to the first failure."""
        while self._waiting():
            self.turn()
            if self.problem is not None:
                break
        self._drop_all()
        self._close_store()

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(Exception):  # it failed before
                store.close()

    def _write_batch(self, backlog: Backlog[Record], write: Callable[..., None]) -> None:
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
            backlog.settled += len(records)
            self._changed.notify_all()

    def _prune(self, store: MetricStore) -> float | None:
        """Prune a little if it is due; returns the seconds until it is due again."""
        kept, now = self._settings.retention_seconds, self._steady_clock()
        if kept is None or self._closing:
            return None
        if now >= self._prune_at:
            if store.delete_before(self._clock() - kept, at_most=PRUNED_AT_ONCE) == PRUNED_AT_ONCE:
                return 0.0
            self._prune_at = now + self._settings.prune_every
        return self._prune_at - now

    def _failed(self, error: Exception) -> float:
        """Note the failure; returns the pause. The store is opened again then, as it may have been replaced."""
        self._close_store()
        pause = self._settings.first_pause * 2.0 ** min(self._failures, 30)
        self._failures += 1
        self.problem = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        return min(pause, self._settings.max_pause)

    def _drop_all(self) -> None:
        with self._changed:
            for backlog in self._backlogs:
                backlog.drop_all()
            self._changed.notify_all()

    def _put(self, backlog: Backlog[Record], records: Sequence[Record]) -> None:
        with self._changed:
            if self._closing:
                backlog.reject(len(records))
            else:
                backlog.put(records)
                self._changed.notify_all()

    def _waiting(self) -> bool:
        return any(map(len, self._backlogs))
