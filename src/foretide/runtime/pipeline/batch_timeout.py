"""Storm's tuple time-out, made a batch time-out: when a batch has run too long, and how often it may be tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.errors import BatchTimeoutError

if TYPE_CHECKING:
    from foretide.spark.progress.reader import QueryState


@dataclass
class BatchClock:
    """Watches the batch under way. The time is handed in."""

    timeout: float | None
    tries: int
    pipeline: str
    _since: float | None = None
    _after: int = -1
    _batch: int = -1
    _tried: int = 0

    def expired(self, state: QueryState, last_batch: int, now: float) -> bool:
        """Whether the batch after `last_batch` has been under way for longer than the time-out."""
        if self.timeout is None or not state.active or not state.busy or last_batch != self._after:
            self._since, self._after = now if state.busy else None, last_batch
            return False
        if self._since is None:
            self._since = now
        return now - self._since > self.timeout

    def count_try(self, batch: int) -> None:
        """Note that a batch ran into its time-out; an error when it has done so too often."""
        self._tried = self._tried + 1 if batch == self._batch else 1
        self._batch = batch
        if self._tried >= self.tries:
            raise BatchTimeoutError(self.pipeline, batch, self.timeout or 0.0, self.tries)

    def again(self) -> BatchClock:
        """The clock for the next try: tries go on being counted, time starts anew."""
        return replace(self, _since=None)
