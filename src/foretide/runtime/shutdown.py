"""Ends a command on SIGINT or SIGTERM, together with every process that it has started.

The first signal raises `Interrupted` in the main thread, so that each part of the command ends what it has begun. The
second one kills all child processes and ends the command at once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

from foretide.probes.process import child_ids, process_ids, read_stat
from foretide.runtime.threads import guarded

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SIGNAL_EXIT = 128
_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0
_HAS_PROC = Path("/proc/self/stat").exists()


class Interrupted(KeyboardInterrupt):
    """The command is to end because of a signal. Notes that are added to it say what was stopped."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(f"interrupted by {self.signal.name}")

    @property
    def exit_code(self) -> int:
        """As a shell shows a process that a signal has ended: 130 for SIGINT, 143 for SIGTERM."""
        return _SIGNAL_EXIT + self.signal

    @classmethod
    def of(cls, interrupt: KeyboardInterrupt) -> Interrupted:
        """An interrupt that Python or Spark has raised themselves is that of SIGINT."""
        if isinstance(interrupt, Interrupted):
            return interrupt
        found = cls(signal.SIGINT)
        for note in getattr(interrupt, "__notes__", ()):
            found.add_note(note)
        return found

    def __str__(self) -> str:
        return "; ".join([super().__str__(), *getattr(self, "__notes__", ())])


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` at the first SIGINT or SIGTERM, and end at once at the second."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can receive signals
        yield
        return
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        if received:
            kill_all(descendants(os.getpid()))
            os._exit(_SIGNAL_EXIT + number)
        received.append(number)
        raise Interrupted(number)

    before = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def within(seconds: float, call: Callable[[], object], what: str) -> bool:
    """Make a call that may hang, in a thread of its own; False when it takes longer than that or fails.

    Calls to Spark after an interrupt have to be made from another thread: the connection of the interrupted one may
    still hold an answer that nobody has read.
    """
    problems: list[str | None] = []
    thread = threading.Thread(target=lambda: problems.append(guarded(call, what)), name="foretide-end", daemon=True)
    thread.start()
    thread.join(seconds)
    return problems == [None]


Processes = dict[int, int]
"""Start times by process id, which tell a process from a later one of the same id."""


def descendants(pid: int) -> Processes:
    """The children of a process, their children, and so on."""
    found: Processes = {}
    todo = child_ids(pid) if _HAS_PROC else []
    while todo:
        child = todo.pop()
        stat = read_stat(child)
        if stat is not None and child not in found:
            found[child] = stat.started
            todo += child_ids(child)
    return found


def in_session(session: int) -> Processes:
    """The processes of a session: all that its leader has started, also after it has died."""
    found: Processes = {}
    for pid in process_ids() if _HAS_PROC else ():
        with suppress(OSError):
            if os.getsid(pid) == session and (stat := read_stat(pid)) is not None:
                found[pid] = stat.started
    return found


def end_all(processes: Processes, patience_seconds: float) -> None:
    """Ask processes to end, and kill those that have not done so in time."""
    _send(processes, signal.SIGTERM)
    if not _wait_for(processes, patience_seconds):
        kill_all(processes)


def kill_all(processes: Processes) -> None:
    """Kill processes, and wait until they are gone."""
    _send(processes, signal.SIGKILL)
    _wait_for(processes, _KILL_SECONDS)


def _send(processes: Processes, number: signal.Signals) -> None:
    for pid in _alive(processes):
        with suppress(OSError):
            os.kill(pid, number)


def _wait_for(processes: Processes, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while any(_alive(processes)):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _alive(processes: Processes) -> Iterable[int]:
    return filter(partial(_is_alive, processes), processes)


def _is_alive(processes: Processes, pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.ended and stat.started == processes[pid]
