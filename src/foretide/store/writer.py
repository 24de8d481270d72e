"""Writes to the store beside a running pipeline, which a full disk or a lost server neither stops nor slows.

Samples, alarms and decisions are put into bounded queues, which a thread writes to the store. While the store fails,
it is retried after ever longer pauses, `problem` describes the failure, and a full queue drops its oldest items.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedForecasts, RecordedWorld
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store.backlog import Backlog
from foretide.store.records import AlarmRecord
from foretide.store.upkeep import Upkeep, WriterSettings

if TYPE_CHECKING:
    from foretide.store.metric_store import MetricStore

Record = TypeVar("Record", Sample, AlarmRecord, Decision, RecordedWorld, RecordedForecasts)

NOTICE_SECONDS = 3600.0
"""For so long `notice` says that the store was deleted."""

log = logging.getLogger("foretide")


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
            steady_clock: Monotonic, for pauses and rounds of compaction and deletion.
        """
        self._open_store, self._pipeline, self._settings = open_store, pipeline, settings or WriterSettings()
        self._clock, self._steady_clock = clock, steady_clock
        self._store: MetricStore | None = None
        self._changed = Condition()
        self._samples = Backlog[Sample](self._settings.capacity)
        self._alarms = Backlog[AlarmRecord](self._settings.alarm_capacity)
        self._decisions = Backlog[Decision](self._settings.decision_capacity)
        self._setups = Backlog[RecordedWorld](self._settings.decision_capacity)
        self._forecasts = Backlog[RecordedForecasts](self._settings.decision_capacity)
        self._backlogs: tuple[Backlog[Any], ...] = (
            self._samples, self._alarms, self._decisions, self._setups, self._forecasts,
        )  # fmt: skip
        self._failures, self._flushing, self._closing = 0, False, False
        self._upkeep = Upkeep(pipeline, self._settings, clock, steady_clock)
        self._last_setup: RecordedWorld | None = None
        self._noticed: tuple[str, float] | None = None
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
    def notice(self) -> str | None:
        """That the store was deleted while it was in use, for an hour; or None."""
        if self._noticed is None or self._steady_clock() > self._noticed[1] + NOTICE_SECONDS:
            return None
        return self._noticed[0]

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
        self._last_setup = recorded
        self._put(self._setups, [recorded])

    def put_forecasts(self, recorded: RecordedForecasts) -> None:
        """Queue forecasts. After `close` they are dropped."""
        self._put(self._forecasts, [recorded])

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
        """Write a batch, and compact or prune a little.

        Returns the seconds until that is due again, None for not before a put.
        """
        with self._changed:
            self._flushing = False
        try:
            store = self._opened()
            self._write_batch(self._alarms, store.write_alarms)
            self._upkeep.wrote(self._write_batch(self._samples, store.write))
            self._write_batch(self._setups, store.write_setups)
            self._write_batch(self._forecasts, store.write_forecasts)
            self._write_batch(
                self._decisions, partial(store.write_decisions, max_decisions=self._settings.max_decisions)
            )
            due = None if self._closing else self._upkeep.turn(store)
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

    def _opened(self) -> MetricStore:
        """The store; a new one if somebody deleted its file, into which nobody would ever look."""
        if self._store is not None and self._store.deleted:
            self._close_store()
            self._upkeep.abort()
            self._tell_deleted()
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _tell_deleted(self) -> None:
        message = "the metrics store was deleted while it was in use; a new one was created, without what was in it"
        log.warning("%s: %s", self._pipeline, message)
        self._noticed = message, self._steady_clock()
        with self._changed:
            self._alarms.put([AlarmRecord(self._clock(), "store-deleted", "critical", "", message, "store")])
            self._setups.put([] if self._last_setup is None else [self._last_setup])

    def _write_batch(self, backlog: Backlog[Record], write: Callable[..., None]) -> list[Record]:
        """Write the oldest of a backlog, or leave all there; returns those written."""
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
        return records

    def _failed(self, error: Exception) -> float:
        """Note the failure; returns the pause. The store is opened again then, as it may have been replaced."""
        self._close_store()
        self._upkeep.abort()
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
