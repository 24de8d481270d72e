"""The pipelines that can be shown, running or recorded, read for any number of viewers at once.

What was read is kept for a moment, so that a page more costs hardly anything, and the pipeline nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedForecasts, RecordedWorld
from foretide.control.world.world import World
from foretide.control_folder.folder import ControlFolder
from foretide.errors import (
    ControlFolderError,
    DecisionNotFoundError,
    ForetideError,
    PipelineNotFoundError,
    ReplayError,
    StoreError,
)
from foretide.metrics.metric import Sample
from foretide.routing.table import RouteTable
from foretide.status.pipelines import PipelineState, file_name, list_running, read_state, running_store
from foretide.status.stored import Recording
from foretide.status.views.seen import Seen
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

FRESH_SECONDS = 0.8
"""What was read counts as current for so long."""

_WORLDS_FRESH_SECONDS = 5.0
_WORLDS_SECONDS = 900.0
_DECISIONS = 50
_MAX_ENTRIES = 100
_MAX_CACHED = 500

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Entry:
    """A pipeline that can be shown. `control_folder` is None for one of which only the store is known."""

    id: str
    name: str
    store: str
    control_folder: str | None = None
    pid: int | None = None
    running: bool = False


@dataclass
class _Cached:
    read_at: float = float("-inf")
    value: Any = None
    lock: Lock = field(default_factory=Lock)


class Sources:
    """Reads pipelines: those that run on this machine, those that ran since this object was made, and recorded ones."""

    def __init__(self, stores: Sequence[str] = (), clock: Callable[[], float] = time.time) -> None:
        self._recorded, self._clock = tuple(stores), clock
        self._stores: dict[str, MetricStore] = {}
        self._known: dict[str, Entry] = {}
        self._cache: dict[tuple[object, ...], _Cached] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Close the stores."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores.clear()

    # ---- which pipelines there are

    def entries(self) -> tuple[Entry, ...]:
        """All pipelines, those that run first."""
        return self._kept(("entries",), FRESH_SECONDS, self._entries)

    def _entries(self) -> tuple[Entry, ...]:
        running = {}
        for each in list_running():
            name = f"{file_name(each.name)}-{each.pid}"
            running[name] = Entry(name, each.name, running_store(each), each.control_folder, each.pid, running=True)
        ended = {
            name: Entry(name, old.name, old.store, old.control_folder, old.pid)
            for name, old in self._known.items()
            if name not in running
        }
        self._known = dict(list({**ended, **running}.items())[-_MAX_ENTRIES:])
        shown = {entry.store for entry in self._known.values()}
        return (*running.values(), *ended.values(), *(each for each in self._of_stores() if each.store not in shown))

    def _of_stores(self) -> Iterator[Entry]:
        for number, location in enumerate(self._recorded, 1):
            for name in self._store(location).pipelines():
                yield Entry(f"{file_name(name)}-store{number}", name, location)

    def find(self, name: str) -> Entry:
        """The pipeline with that id, or the only one of that name, those that run first.

        Raises:
            PipelineNotFoundError: There is none, or there are several.
        """
        entries = self.entries()
        exact = [each for each in entries if each.id == name]
        named = [each for each in entries if each.name == name]
        found = exact or [each for each in named if each.running] or named
        if len(found) == 1:
            return found[0]
        known = ", ".join(each.id for each in (found or entries)[:10]) or "none"
        problem = f"several pipelines are called '{name[:60]}'" if found else f"there is no pipeline '{name[:60]}'"
        raise PipelineNotFoundError(f"{problem}; there are: {known}")

    # ---- what is known of one

    def seen(self, name: str) -> Seen:
        """All that is known of a pipeline now."""
        entry = self.find(name)
        return self._kept(("seen", entry), FRESH_SECONDS, lambda: self._seen(entry))

    def _seen(self, entry: Entry) -> Seen:
        problems: list[str] = []
        state, routes = self._of_folder(entry, problems)
        samples: list[Sample] = []
        setups: list[RecordedWorld] = []
        decisions: list[Decision] = []
        try:
            store = self._store(entry.store)
            samples = store.latest(entry.name)
            setups = store.setups(entry.name, last=1, on_problem=problems.append)
            decisions = store.decisions(entry.name, last=_DECISIONS, on_problem=problems.append)
        except StoreError as error:
            if not entry.running or (state is not None and state.batch is not None):
                problems.append(str(error))
        return Seen(
            entry.id,
            entry.name,
            self._clock(),
            entry.running,
            entry.pid,
            state,
            routes,
            {(sample.metric, sample.subject): sample for sample in samples},
            setups[-1] if setups else None,
            tuple(decisions),
            tuple(problems),
        )

    def _of_folder(self, entry: Entry, problems: list[str]) -> tuple[PipelineState | None, RouteTable | None]:
        if entry.control_folder is None:
            return None, None
        try:
            folder = ControlFolder(entry.control_folder)
            state = read_state(folder)
        except ControlFolderError as error:
            problems.append(str(error))
            return None, None
        try:
            return state, folder.routes()
        except ForetideError as error:
            problems.append(str(error))
            return state, None

    def folder(self, name: str) -> ControlFolder:
        """The control folder of a running pipeline.

        Raises:
            PipelineNotFoundError: It does not run.
        """
        entry = self.find(name)
        if entry.control_folder is None or not entry.running:
            raise PipelineNotFoundError(f"'{entry.name}' does not run on this machine: nobody would carry out an order")
        return ControlFolder(entry.control_folder)

    def samples(
        self, name: str, metrics: Collection[str], subjects: Collection[str] | None, since: float, limit: int
    ) -> list[Sample]:
        """Samples of a pipeline in the order of time, at most the newest `limit`."""
        entry = self.find(name)
        key = ("samples", entry, tuple(metrics), None if subjects is None else tuple(subjects), round(since), limit)
        return self._kept(
            key,
            FRESH_SECONDS,
            lambda: self._store(entry.store).read(
                entry.name, metrics=metrics, subjects=subjects, since=since, limit=limit
            ),
        )

    def forecasts(self, name: str, since: float) -> list[RecordedForecasts]:
        """What was forecast, in the order of time."""
        entry = self.find(name)
        return self._kept(
            ("forecasts", entry, round(since)),
            FRESH_SECONDS,
            lambda: self._store(entry.store).forecasts(entry.name, since=since, on_problem=_ignored),
        )

    def decisions(self, name: str, last: int, since: float | None = None) -> list[Decision]:
        """The last decisions, the newest last."""
        entry = self.find(name)
        return self._kept(
            ("decisions", entry, last, since),
            FRESH_SECONDS,
            lambda: self._store(entry.store).decisions(entry.name, last=last, since=since, on_problem=_ignored),
        )

    def decision(self, name: str, number: int) -> Decision:
        """One decision; DecisionNotFoundError if there is none of that number."""
        entry = self.find(name)
        store = self._store(entry.store)
        found = store.decisions(entry.name, ids=[number], on_problem=_ignored)
        if not found:
            raise DecisionNotFoundError(entry.name, number, store.last_decision_id(entry.name))
        return found[0]

    def alarms(self, name: str, last: int) -> list[AlarmRecord]:
        """The last alarms, the newest last."""
        entry = self.find(name)
        return self._kept(
            ("alarms", entry, last), FRESH_SECONDS, lambda: self._store(entry.store).alarms(entry.name, limit=last)
        )

    def worlds(self, name: str) -> list[World]:
        """The worlds of the last minutes, as the control loop saw them."""
        entry = self.find(name)
        return self._kept(("worlds", entry), _WORLDS_FRESH_SECONDS, lambda: self._worlds(entry))

    def _worlds(self, entry: Entry) -> list[World]:
        store = self._store(entry.store)
        newest = store.read(entry.name, metrics=["batch"], subjects=[entry.name], limit=1)
        if not newest:
            return []
        try:
            since = newest[-1].at - _WORLDS_SECONDS
            return list(Recording.of(store, entry.name, since=since, on_problem=_ignored).worlds())
        except ReplayError:
            return []

    # ---- stores, and what was read

    def _store(self, location: str) -> MetricStore:
        with self._lock:
            known = self._stores.get(location)
            if known is not None and known.deleted:
                known.close()
                known = None
            if known is None:
                known = self._stores[location] = MetricStore.open(location, create=False)
            return known

    def _kept(self, key: tuple[object, ...], seconds: float, read: Callable[[], Value]) -> Value:
        """What was read a moment ago, else what is read now; others that ask for the same wait for it."""
        with self._lock:
            if len(self._cache) > _MAX_CACHED:
                self._cache.clear()
            cached = self._cache.setdefault(key, _Cached())
        with cached.lock:
            if time.monotonic() - cached.read_at >= seconds:
                cached.value = read()
                cached.read_at = time.monotonic()
            value: Value = cached.value
            return value


def _ignored(_problem: str) -> None:
    """Damaged records are left out; `seen` tells of them."""
