"""The journal of a running control loop: the last decisions in memory, and those that report something in the store."""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING

from foretide.control.decisions.effects import merge_effects

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.store.writer import StoreWriter

MAX_IN_MEMORY = 1_000

log = logging.getLogger("foretide")


class Journal:
    """Keeps decisions. A failure never reaches the caller: `problem` says what it was.

    Attributes:
        problem: What went wrong last; None when all is well.
    """

    def __init__(self, writer: StoreWriter | None, first_id: int = 1) -> None:
        """Begin a journal, or continue one.

        Args:
            writer: Writes decisions to the store; None keeps them in memory only.
            first_id: The number of the first decision: one more than the last in the store.
        """
        self._writer = writer
        self._last_id = first_id - 1
        self._kept: dict[int, Decision] = {}
        self._last: Decision | None = None
        self._lock = Lock()
        self.problem: str | None = None

    def note(self, decision: Decision) -> None:
        """Keep a decision, and add the effects that it reports to earlier ones. Never waits, never fails."""
        try:
            with self._lock:
                self._last, self._last_id = decision, max(self._last_id, decision.id)
                if not decision.idle:
                    self._kept |= merge_effects(decision, self._kept)
                while len(self._kept) > MAX_IN_MEMORY:
                    del self._kept[next(iter(self._kept))]
            if self._writer is not None and not decision.idle:
                self._writer.put_decisions([decision])
            self.problem = None
        except Exception as error:
            self.problem = f"a decision was not noted: {type(error).__name__}: {error}"
            log.exception("a decision was not noted")

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last decisions that reported something, the oldest first."""
        with self._lock:
            return tuple(self._kept.values())

    @property
    def last(self) -> Decision | None:
        """The last decision, whether it reported anything or not."""
        return self._last

    @property
    def last_id(self) -> int:
        """The highest number so far, of this loop or an earlier one. The next decision has a higher one."""
        return self._last_id
