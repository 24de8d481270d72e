"""Cases of bad workers that outlast the driver: known by their host and their place on it, as ids begin anew.

A new executor in the place of one that was out of service, or has failed probes, is on probation: it is taken out as
soon as it is measured to be slow, and for as long as its failed probes call for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foretide.control.policies.worker_records import WorkerRecord, WorkerRecords
from foretide.control.world.setup import Observed

MAX_CASES = 200
_FORGET_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class WorkerCase:
    """The place of a bad worker: its host, the how manieth executor there, when it was last bad, and failed probes."""

    host: str
    slot: int
    at: float
    failures: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """Host and slot."""
        return self.host, self.slot


def places(observed: Observed) -> dict[str, tuple[str, int]]:
    """The host of each worker and its number there, in the order of their ids.

    >>> places(Observed(executors={"10": "a", "2": "a", "3": "b"}))
    {'2': ('a', 0), '3': ('b', 0), '10': ('a', 1)}
    """
    found: dict[str, tuple[str, int]] = {}
    count: dict[str, int] = {}
    for worker in sorted(observed.executors, key=lambda name: (len(name), name)):
        host = observed.executors[worker]
        found[worker] = (host, count.get(host, 0))
        count[host] = count.get(host, 0) + 1
    return found


def kept_cases(
    before: Iterable[WorkerCase], records: WorkerRecords, observed: Observed, at: float
) -> tuple[WorkerCase, ...]:
    """The cases to be kept: those of live workers as they are now, and earlier ones of places without a worker.

    A case that stays as it was keeps its time, so that what is kept changes rarely.
    """
    known = {case.place: case for case in before if 0 <= at - case.at < _FORGET_SECONDS}
    for worker, place in places(observed).items():
        record, old = records.get(worker), known.pop(place, None)
        if record is not None and (record.failures or record.phase != "watched"):
            same = old is not None and old.failures == record.failures
            known[place] = old if same and old is not None else WorkerCase(*place, at, record.failures)
    return tuple(sorted(known.values(), key=lambda case: (-case.at, case.place))[:MAX_CASES])


def recalled_records(cases: Iterable[WorkerCase], observed: Observed, at: float) -> Mapping[str, WorkerRecord]:
    """The records that a loop begins with: workers in the places of earlier cases are on probation."""
    known = {case.place: case for case in cases if 0 <= at - case.at < _FORGET_SECONDS}
    return {
        worker: WorkerRecord("probation", at, at, failures=known[place].failures)
        for worker, place in places(observed).items()
        if place in known
    }
