"""The journal of a running control loop: the last decisions in memory, and those that say something in the store."""

from __future__ import annotations

import logging
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from foretide.control.decisions.news import entries

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.store.writer import StoreWriter

MOST_IN_MEMORY = 1_000

log = logging.getLogger("foretide")


class Journal:
    """Takes decisions in. Whatever goes wrong in here, its caller goes on: `problem` says what it was.

    Attributes:
        problem: What went wrong last; None when all is well.
    """

    def __init__(self, writer: StoreWriter | None, first_id: int = 1) -> None:
        """Begin a journal, or go on with one.

        Args:
            writer: Has decisions written to the store; None keeps them in memory only.
            first_id: The number of the first decision: one more than the last in the store. A loop that counts from
                there itself (`replace(control.start(), decisions=first_id - 1)`) is taken as it is; the numbers of
                one that begins with 1 are shifted, so that no decision of an earlier run is overwritten.
        """
        self._writer = writer
        self._first_id = first_id
        self._last_id = first_id - 1
        self._shift: int | None = None
        self._kept: dict[int, Decision] = {}
        self._last: Decision | None = None
        self._lock = Lock()
        self.problem: str | None = None

    def note(self, decision: Decision) -> None:
        """Keep a decision, and tell earlier ones what its news say of them. Never waits, never fails."""
        try:
            with self._lock:
                numbered = self._numbered(decision)
                self._last, self._last_id = numbered, max(self._last_id, numbered.id)
                if not numbered.idle:
                    self._kept |= entries(numbered, self._kept)
                while len(self._kept) > MOST_IN_MEMORY:
                    del self._kept[next(iter(self._kept))]
            if self._writer is not None and not numbered.idle:
                self._writer.put_decisions([numbered])
            self.problem = None
        except Exception as error:
            self.problem = f"a decision was not noted: {type(error).__name__}: {error}"
            log.exception("a decision was not noted")

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last decisions that said something, the oldest first."""
        with self._lock:
            return tuple(self._kept.values())

    @property
    def last(self) -> Decision | None:
        """The last decision, whether it said anything or not."""
        return self._last

    @property
    def last_id(self) -> int:
        """The highest number that was given out so far, here or by an earlier loop."""
        return self._last_id

    def _numbered(self, decision: Decision) -> Decision:
        if self._shift is None:
            self._shift = self._first_id - decision.id if decision.id < self._first_id else 0
        if not self._shift:
            return decision
        news = tuple(replace(each, decision=each.decision + self._shift) for each in decision.news)
        return replace(decision, id=decision.id + self._shift, news=news)
