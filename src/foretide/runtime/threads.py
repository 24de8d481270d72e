"""The one helper for worker threads.

A `Worker` calls `turn` once per period, and earlier when it is woken. A turn that raises is logged and described in
`problem`, and the next turn is taken as usual. A turn that hangs, or a thread that has died, is replaced by `check`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Self

log = logging.getLogger("foretide")


def guarded(call: Callable[[], object], what: str) -> str | None:
    """Call; an exception is logged and returned as a sentence instead of being raised.

    >>> guarded(lambda: None, "a listener")
    """
    try:
        call()
    except Exception as error:
        log.exception("%s failed; the query runs on", what)
        return f"{what} failed: {type(error).__name__}: {error}"
    return None


class Worker:
    """A daemon thread that takes turns until it is stopped. The constructor starts nothing.

    Attributes:
        problem: What went wrong in the last turn; None when nothing did.
        failures: Failed turns in a row.
        replaced: How often the thread was replaced because it hung or had died.
        period_seconds: Between two turns; may be changed at any time.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], object],
        period_seconds: float | None,
        *,
        what: str = "a turn",
        after_turn: Callable[[], object] | None = None,
        close: Callable[[], object] | None = None,
        before_replacing: Callable[[], object] | None = None,
        min_pause_seconds: float = 0.0,
        hung_after_seconds: float = math.inf,
    ) -> None:
        """Prepare a thread.

        Args:
            name: The name of the thread.
            turn: What one turn does.
            period_seconds: Between two turns; None takes turns only when woken.
            what: The name of a turn in messages, such as "a control cycle".
            after_turn: Called after every turn, whether it failed or not; `problem` is up to date by then.
            close: Called in the thread after its last turn.
            before_replacing: Called by `check` before a new thread takes over.
            min_pause_seconds: Between two turns, however often the worker is woken.
            hung_after_seconds: After this long `check` considers a turn hung.
        """
        self.name, self._turn, self.period_seconds, self._what = name, turn, period_seconds, what
        self._after_turn, self._close, self._before_replacing = after_turn, close, before_replacing
        self._min_pause_seconds, self._hung_after_seconds = min_pause_seconds, hung_after_seconds
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._abandoned: list[threading.Thread] = []
        self._turn_began: float | None = None
        self.problem: str | None = None
        self.failures = self.replaced = 0

    def start(self) -> Self:
        """Start the thread."""
        self._turn_began = None
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()
        return self

    def wake(self) -> None:
        """Take the next turn now instead of at the end of the period."""
        self._woken.set()

    def stop(self, timeout_seconds: float | None = 5.0) -> bool:
        """End after the turn under way, and wait for that; False when it takes longer. May be called from a turn."""
        self._stopping.set()
        self._woken.set()
        return self.join(timeout_seconds)

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the thread has ended; False when it has not, or when it is the caller itself."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)
        return not self.alive

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def abandoned(self) -> bool:
        """Whether the calling thread was replaced while its turn hung; such a turn must have no effect."""
        return threading.current_thread() in self._abandoned

    def check(self) -> bool:
        """Replace a thread whose turn hangs or that has died; returns whether that was necessary."""
        began, thread = self._turn_began, self._thread
        hangs = began is not None and time.monotonic() - began > self._hung_after_seconds
        if self._stopping.is_set() or thread is None or (thread.is_alive() and not hangs):
            return False
        cause = f"hung for {self._hung_after_seconds:g} s" if hangs else "died"
        self.problem = f"{self._what} {cause}; a new thread has taken over"
        log.error("%s", self.problem)
        self._abandoned.append(thread)
        self.replaced += 1
        if self._before_replacing is not None:
            guarded(self._before_replacing, f"replacing {self.name}")
        self.start()
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(self.period_seconds)
            self._woken.clear()
            if self._stopping.is_set():
                break
            self._take_turn()
            if self.abandoned:
                return
            self._stopping.wait(self._min_pause_seconds)
        if self._close is not None:
            guarded(self._close, f"the end of {self.name}")

    def _take_turn(self) -> None:
        self._turn_began = time.monotonic()
        problem = guarded(self._turn, self._what)
        if self.abandoned:
            return
        self._turn_began, self.problem = None, problem
        self.failures = 0 if problem is None else self.failures + 1
        if self._after_turn is not None:
            guarded(self._after_turn, f"what follows {self._what}")
