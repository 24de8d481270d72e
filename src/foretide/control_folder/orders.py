"""What people ask of a running pipeline, from any terminal.

admission.json  rows per batch of each spout whose limit was set
target.json     changes of the target
drained.json    hosts and workers that are taken out of service
restart.json    the supervised restart that was requested last
restarted.json  the last restart that the control loop has taken up: it takes each one up once
mode.json       whether the control loop acts, advises or is paused
stop.json       whether the pipeline is to stop
held.json       who set a route, a limit, the target or a drained host by hand, when, and for how long it holds

A file that cannot be read is never taken for an empty one, nor replaced: somebody has to delete it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from foretide.codec import from_json, to_json
from foretide.control.world.setup import Quantile, Target
from foretide.control_folder.filesystem import LOCK_SECONDS, Filesystem
from foretide.dates import local_date
from foretide.errors import CodecError, ControlFolderError, DamagedFileError
from foretide.formatting import format_duration

ADMISSION = "admission.json"
TARGET = "target.json"
DRAINED = "drained.json"
RESTART = "restart.json"
RESTARTED = "restarted.json"
MODE = "mode.json"
STOP = "stop.json"
HELD = "held.json"

HELD_TARGET = "target"
"""The subject of a hold on the target; others are those of actions, such as `edge parse` and `spout lines`."""

HELD_MODE = "mode"
"""The subject of a hold on the mode of the control loop."""

LoopMode = Literal["act", "advise", "pause"]
"""What the control loop does by itself. Paused, it still carries out what people order."""

MAX_ROWS = 2**63 - 1
"""The largest admission limit: rows are counted in 64 bits."""

MAX_LATENCY_SECONDS = 86_400.0
MAX_BUDGET = 1_000_000

_REMEDY = "delete it, and give the orders again that were in it"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class TargetOrder:
    """Changes of the target. A field that is None stays as it is; "none" means no latency target, or no budget."""

    latency: float | Literal["none"] | None = None
    relaxed: float | None = None
    quantile: Quantile | None = None
    budget: int | Literal["none"] | None = None

    def __post_init__(self) -> None:
        times = [each for each in (self.latency, self.relaxed) if isinstance(each, float)]
        if max(times, default=0.0) > MAX_LATENCY_SECONDS:
            longest = format_duration(max(times))
            raise ControlFolderError(f"a latency target is at most a day (86,400 s), got {longest}")
        if isinstance(self.budget, int) and self.budget > MAX_BUDGET:
            raise ControlFolderError(f"a budget is at most {MAX_BUDGET} processors")

    def merge(self, later: TargetOrder) -> TargetOrder:
        """Both changes, of which the later one wins."""
        return replace(self, **later._given())

    def apply(self, target: Target) -> Target:
        """The changed target; SettingsError if it is impossible."""
        changes: Any = {name: None if value == "none" else value for name, value in self._given().items()}
        return replace(target, **changes)

    def _given(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RestartOrder:
    """A supervised restart, with what is to change: partitions of Spark's state, tasks behind edges, limits of spouts.

    Its `id` tells it from all others: clocks of terminals may be wrong.
    """

    id: str
    reason: str = "requested by a user"
    state_partitions: int | None = None
    pools: dict[str, int] = field(default_factory=dict)
    admission: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldOrder:
    """What a person set by hand, and the control loop leaves alone.

    Attributes:
        by: The user and host of the terminal.
        at: When, in seconds since 1970.
        words: What was set.
        until: When it ends by itself; None if it holds until it is released.
    """

    by: str
    at: float
    words: str
    until: float | None = None

    def holds(self, now: float) -> bool:
        """Whether it still holds."""
        return self.until is None or now < self.until

    def describe(self) -> str:
        """What was set, by whom, when, and for how long."""
        return f"{self.words}, {self.origin}"

    @property
    def origin(self) -> str:
        """By whom it was set, when, and for how long."""
        end = "until it is released" if self.until is None else f"until {local_date(self.until)}"
        return f"set by {self.by} on {local_date(self.at)}, {end}"


def held_place(place: str) -> str:
    """The subject of a hold on a drained host or worker."""
    return f"drained {place}"


def new_order_id() -> str:
    """An id that no other order has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class _Drained:
    places: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Restarted:
    id: str | None = None


@dataclass(frozen=True, slots=True)
class _Mode:
    mode: LoopMode | None = None


@dataclass(frozen=True, slots=True)
class _Stop:
    stop: bool = False


def read_record(files: Filesystem, kind: type[Record], name: str) -> Record | None:
    """What a file of a control folder holds, None if it does not exist; DamagedFileError if it cannot be read."""
    text = files.read(name)
    try:
        return None if text is None else from_json(kind, text)
    except CodecError as error:
        raise damaged(files, name, str(error)) from error


def damaged(files: Filesystem, name: str, reason: str) -> DamagedFileError:
    """The error for a file of a control folder that was read, and does not hold what it should."""
    where = files.url(name).removeprefix("file://")
    return DamagedFileError(f"'{where}' is damaged, or was written by another version: {reason}")


class OrderFiles:
    """The orders in a control folder. DamagedFileError names a file that cannot be read."""

    def __init__(self, files: Filesystem, lock_seconds: float = LOCK_SECONDS) -> None:
        self._files, self._lock_seconds = files, lock_seconds

    def admission(self) -> dict[str, int]:
        """Rows per batch of each spout with a limit."""
        limits = self._read(dict[str, int], ADMISSION) or {}
        if not all(1 <= rows <= MAX_ROWS for rows in limits.values()):
            raise damaged(self._files, ADMISSION, f"a limit is not between 1 and {MAX_ROWS}; {_REMEDY}")
        return limits

    def limit_admission(self, spout: str, rows: int | None) -> None:
        """Set the rows per batch of a spout, from the next batch on; None lifts the limit."""
        if rows is not None and not 1 <= rows <= MAX_ROWS:
            bound = "at least 1 row" if rows < 1 else f"at most {MAX_ROWS} rows"
            raise ControlFolderError(f"the admission limit of '{spout}' must be {bound}, got {rows}")
        with self._files.lock(self._lock_seconds):
            limits = self.admission()
            limits.pop(spout, None)
            self._files.write(ADMISSION, to_json(limits if rows is None else {**limits, spout: rows}))

    def target(self) -> TargetOrder:
        """The changes of the target."""
        return self._read(TargetOrder, TARGET) or TargetOrder()

    def set_target(self, order: TargetOrder) -> None:
        """Change the target from the next control cycle on."""
        with self._files.lock(self._lock_seconds):
            self._files.write(TARGET, to_json(self.target().merge(order)))

    def drained(self) -> frozenset[str]:
        """Hosts and workers that are out of service."""
        return (self._read(_Drained, DRAINED) or _Drained()).places

    def drain(self, place: str, *, release: bool = False) -> frozenset[str]:
        """Take a host or worker out of service, or release it, from the next control cycle on."""
        with self._files.lock(self._lock_seconds):
            places = self.drained() - {place} if release else self.drained() | {place}
            self._files.write(DRAINED, to_json(_Drained(places)))
            return places

    def release_target(self) -> None:
        """Go back to the target that the loop began with."""
        with self._files.lock(self._lock_seconds):
            self.target()  # a damaged file is named, not replaced
            self._files.write(TARGET, to_json(TargetOrder()))

    def mode(self) -> LoopMode | None:
        """What the control loop is to do; None for what it began with."""
        return (self._read(_Mode, MODE) or _Mode()).mode

    def set_mode(self, mode: LoopMode | None) -> None:
        """Change that from the next control cycle on; None goes back to what it began with."""
        with self._files.lock(self._lock_seconds):
            self.mode()  # a damaged file is named, not replaced
            self._files.write(MODE, to_json(_Mode(mode)))

    def held(self) -> dict[str, HeldOrder]:
        """What people hold, by subject, ended or not."""
        return self._read(dict[str, HeldOrder], HELD) or {}

    def hold(self, subject: str, order: HeldOrder) -> HeldOrder | None:
        """Keep the control loop from changing a subject; what was held before, None if nothing was."""
        with self._files.lock(self._lock_seconds):
            held = self.held()
            self._files.write(HELD, to_json({**held, subject: order}))
            return held.get(subject)

    def release(self, subject: str) -> HeldOrder | None:
        """Let the control loop change a subject again; what was held, None if nothing was."""
        with self._files.lock(self._lock_seconds):
            held = self.held()
            found = held.pop(subject, None)
            if found is not None:
                self._files.write(HELD, to_json(held))
            return found

    def restart(self) -> RestartOrder | None:
        """The restart that was requested last, or None."""
        return self._read(RestartOrder, RESTART)

    def request_restart(self, order: RestartOrder) -> RestartOrder | None:
        """Ask for a supervised restart. Returns the order that it replaces, if that was not taken up yet."""
        with self._files.lock(self._lock_seconds):
            before, taken_up = self.restart(), self.last_restarted()
            self._files.write(RESTART, to_json(order))
            return None if before is None or before.id == taken_up else before

    def last_restarted(self) -> str | None:
        """The id of the last restart order that was taken up."""
        return (self._read(_Restarted, RESTARTED) or _Restarted()).id

    def note_restarted(self, order: str) -> None:
        """Note that a restart order is taken up, so that nobody does it a second time."""
        self._files.write(RESTARTED, to_json(_Restarted(order)))

    def stop_requested(self) -> bool:
        """Whether the pipeline is to stop after its batch. What cannot be read stops nothing."""
        try:
            return (self._read(_Stop, STOP) or _Stop()).stop
        except ControlFolderError:
            return False

    def request_stop(self, *, stop: bool = True) -> None:
        """Ask the pipeline to stop after its batch, or withdraw that."""
        if stop != self.stop_requested():
            self._files.write(STOP, to_json(_Stop(stop)))

    def _read(self, kind: type[Record], name: str) -> Record | None:
        try:
            return read_record(self._files, kind, name)
        except DamagedFileError as error:
            raise DamagedFileError(f"{error}; {_REMEDY}") from error
