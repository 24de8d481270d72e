"""What is checked of a campaign beside its rows: audit, status, journal of decisions, and what is left over."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, Self

from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.holds import running_query
from foretide.errors import ForetideError
from foretide.soak.layout import NAME, Layout
from foretide.soak.processes import left_over
from foretide.store.metric_store import MetricStore

MAX_STATUS_LAG = 2
"""Batches after a fault by which the status has to be true again."""

UNWRITTEN_SECONDS = 15.0
"""Decisions of so many seconds before a kill may not have been written yet, while the store was locked."""


@dataclass(frozen=True, slots=True)
class NotesRead:
    """What the application has noted: its processes and applications, what batches read, and alarms.

    `decisions` are the times of those that must be in the store: a driver that is killed may lose its last ones.
    """

    drivers: tuple[int, ...]
    applications: tuple[str, ...]
    routes: frozenset[int]
    plans: frozenset[int]
    alarms: tuple[str, ...]
    decisions: Mapping[int, float]

    @property
    def lives(self) -> int:
        """How often the application got as far as to start Spark."""
        return len(self.drivers)

    @classmethod
    def of(cls, layout: Layout) -> Self:
        """Read them; a line that a kill has cut off is left out."""
        notes = list(_lines(layout))
        starts = [note for note in notes if note["event"] == "start"]
        batches = [note for note in notes if note["event"] == "batch"]
        return cls(
            tuple(note["pid"] for note in starts),
            tuple(note["app"] for note in starts),
            frozenset(note["routes"] for note in batches if note["routes"] is not None),
            frozenset(plan for note in batches for plan in note["plans"] if plan is not None),
            tuple(alarm for note in batches for alarm in note["alarms"]),
            dict(_written_decisions(notes)),
        )


def _lines(layout: Layout) -> Iterator[dict[str, Any]]:
    text = layout.notes.read_text(errors="replace") if layout.notes.exists() else ""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _written_decisions(notes: Sequence[dict[str, Any]]) -> Iterator[tuple[int, float]]:
    """Decisions, except those of the last seconds of a driver that did not end by itself."""
    lives = [place for place, note in enumerate(notes) if note["event"] == "start"]
    for begin, end in pairwise([*lives, len(notes)]):
        life = notes[begin:end]
        until = math.inf if life[-1]["event"] == "end" else life[-1]["at"] - UNWRITTEN_SECONDS
        yield from ((note["id"], note["at"]) for note in life if note["event"] == "decision" and note["at"] <= until)


class StatusWatch:
    """Watches whether the status is true again soon after each fault.

    Attributes:
        lag: The most batches that were committed after a fault before the status showed one of them.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._status = layout, ControlFolder(str(layout.control_folder)).status
        self._faults: list[int] = []
        self._new: SimpleQueue[int] = SimpleQueue()
        self.lag = 0

    def note_fault(self) -> None:
        """A fault has happened now."""
        self._new.put(self._layout.committed_batch())

    def turn(self) -> None:
        """Compare the status with what was committed before it was read."""
        while not self._new.empty():
            self._faults.append(self._new.get())
        committed = self._layout.committed_batch()
        try:
            status = self._status.pipeline()
        except ForetideError:
            status = None
        shown = -1 if status is None else status.batch
        waiting = [fault for fault in self._faults if shown <= fault]
        self.lag = max([self.lag, *(committed - fault - 1 for fault in waiting)])
        self._faults = waiting


def find_problems(layout: Layout, notes: NotesRead, store_deleted: float, watch: StatusWatch) -> Iterator[str]:
    """Everything that is not as promised, once the pipeline has ended."""
    yield from (f"the audit raised an alarm although no row is lost: {alarm}" for alarm in notes.alarms[:3])
    if watch.lag > MAX_STATUS_LAG:
        yield f"the status was not true again {watch.lag} batches after a fault"
    yield from _status_problems(layout)
    yield from _journal_problems(layout, notes, store_deleted)
    if left := left_over(notes.drivers, notes.applications):
        yield f"processes are left over: {', '.join(map(str, left))}"


def _status_problems(layout: Layout) -> Iterator[str]:
    folder = ControlFolder(str(layout.control_folder))
    try:
        status, control = folder.status.pipeline(), folder.status.control()
    except ForetideError as error:
        yield f"the status cannot be read: {error}"
        return
    if status is None or status.batch != layout.committed_batch():
        shown = "none" if status is None else status.batch
        yield f"the status shows batch {shown}, and the last one that was committed is {layout.committed_batch()}"
    if control is None or not control.ended:
        yield "the status does not say that the control loop has ended"
    if (holder := running_query(str(layout.control_folder))) is not None:
        yield f"the control folder is still held by {holder}"


def _journal_problems(layout: Layout, notes: NotesRead, store_deleted: float) -> Iterator[str]:
    """Every decision since the store was deleted last has to be in it."""
    try:
        with MetricStore.open(str(layout.store), create=False) as store:
            kept = {decision.id for decision in store.decisions(NAME)}
    except ForetideError as error:
        yield f"the decisions cannot be read: {error}"
        return
    missing = sorted(number for number, at in notes.decisions.items() if at > store_deleted and number not in kept)
    if missing:
        yield f"decisions are missing: {', '.join(map(str, missing))}"
