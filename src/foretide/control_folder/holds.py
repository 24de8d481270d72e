"""Roles that one process at a time has in a control folder: its driver, which runs the query, and its control loop.

driver.lock, loop.lock   locked while the role is taken; the operating system unlocks them when the process dies
driver.json, loop.json   who took the role last

In an object store there are no locks: there a role is exclusive within one process only.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from foretide.codec import to_json
from foretide.control_folder.filesystem import LocalFilesystem, local_path
from foretide.control_folder.orders import read_record
from foretide.dates import local_date
from foretide.errors import ControlFolderError
from foretide.files import PRIVATE

Role = Literal["driver", "loop"]

_WAIT_SECONDS = 1.0
"""How long a role is waited for: a query that was stopped gives it up a moment later."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a role: the name of the query, and the process."""

    query: str
    pid: int
    host: str
    since: float

    def __str__(self) -> str:
        return f"query '{self.query}' (process {self.pid} on host {self.host}, since {local_date(self.since)})"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a streaming query: the id of the query, which its checkpoint knows, and that of the run."""

    query: str
    id: str
    is_active: Callable[[], bool]


@dataclass(slots=True, eq=False)
class Hold:
    """A role that this process has: until `release`, or, if a run took it, until that run has ended."""

    holder: Holder
    run: Run | None
    _key: tuple[str, Role]
    _lock: FileLock | None
    _of_run: bool
    _controlled: str | None = None

    @property
    def runs(self) -> bool:
        """Whether a query runs under it."""
        return self.run is not None and self.run.is_active()

    @property
    def taken(self) -> bool:
        """Whether nobody else may have it."""
        return self.runs or not self._of_run

    def release(self) -> None:
        """Give the role up; more than once does no harm."""
        with _guard:
            if _held.get(self._key) is self:
                del _held[self._key]
            if self._lock is not None:
                self._lock.release()


_held: dict[tuple[str, Role], Hold] = {}
_guard = threading.RLock()


def take(location: str, role: Role, query: str, run: Run | None = None) -> Hold:
    """Take a role in the control folder, for the query of that name; without a run, until it is released.

    Raises:
        ControlFolderError: Another query, or another process, has it.
    """
    key = _key(location, role)
    with _guard:
        held = _held.get(key)
        if held is not None and held.taken:
            raise _refusal(location, role, held.holder)
        if held is not None:
            held.release()
        holder = Holder(query, os.getpid(), socket.gethostname(), time.time())
        lock = _locked(location, role, _WAIT_SECONDS)
        hold = _held[key] = Hold(holder, run, key, lock, run is not None)
    folder = local_path(location)
    if folder is not None:
        with suppress(ControlFolderError):  # then others are not told who has it
            LocalFilesystem(folder).write(f"{role}.json", to_json(holder))
    return hold


def take_loop(location: str, query: str, query_id: str) -> Hold:
    """Take the control loop's role in a folder for the query with this id, which has one loop, whatever its folder.

    Raises:
        ControlFolderError: Another loop has the folder or controls the query.
    """
    with _guard:
        for held in _held.values():
            if held._controlled == query_id:  # noqa: SLF001 - of this module
                raise _refusal(held._key[0], "loop", held.holder)  # noqa: SLF001 - of this module
        hold = take(location, "loop", query)
        hold._controlled = query_id  # noqa: SLF001 - of this module
        return hold


def take_for_run(location: str, query: str, run: Run) -> Hold:
    """Take the driver's role for a run; one that this process has for the same query, or for none yet, is used."""
    with _guard:
        held = _held.get(_key(location, "driver"))
        if held is not None and (held.run is None or held.run.query == run.query):
            held.run = run
            return held
        return take(location, "driver", query, run)


def end_run(run: str) -> None:
    """Give up the roles that a run has taken."""
    with _guard:
        for held in list(_held.values()):
            if held._of_run and held.run is not None and held.run.id == run:  # noqa: SLF001 - of this module
                held.release()


def running_query(location: str) -> Holder | None:
    """Who runs a query with this control folder now."""
    with _guard:
        held = _held.get(_key(location, "driver"))
        if held is not None:
            return held.holder if held.runs else None
        return _other_process(location, "driver")


def dead_loop(location: str) -> Holder | None:
    """Who ran the control loop last, if that process was on this host and has ended; None if nothing tells so."""
    folder = local_path(location)
    with _guard:
        if folder is None or _key(location, "loop") in _held or _other_process(location, "loop") is not None:
            return None
    last = _last_holder(folder, "loop")
    return last if last.host == socket.gethostname() else None


def check_driver(location: str, query: str) -> None:
    """Refuse a control folder that another query than the one with this id has taken."""
    with _guard:
        held = _held.get(_key(location, "driver"))
        if held is None:
            holder = _other_process(location, "driver")
        else:
            mine = held.run is not None and held.run.query == query
            holder = held.holder if held.taken and not mine else None
    if holder is not None:
        raise _refusal(location, "driver", holder)


def _key(location: str, role: Role) -> tuple[str, Role]:
    folder = local_path(location)
    return (location.rstrip("/") if folder is None else os.path.realpath(folder)), role


def _locked(location: str, role: Role, wait_seconds: float) -> FileLock | None:
    """The lock, which any thread may release; None in an object store."""
    folder = local_path(location)
    if folder is None:
        return None
    lock = _lock(folder, role, wait_seconds)
    try:
        LocalFilesystem(folder).create()
        lock.acquire()
    except Timeout:
        raise _refusal(location, role, _last_holder(folder, role)) from None
    except (OSError, ValueError) as error:
        raise _cannot_lock(folder, role, error) from error
    return lock


def _other_process(location: str, role: Role) -> Holder | None:
    folder = local_path(location)
    if folder is None:
        return None
    try:
        if not (folder / f"{role}.lock").exists():
            return None
        with _lock(folder, role, 0):
            return None
    except Timeout:
        return _last_holder(folder, role)
    except (OSError, ValueError) as error:
        raise _cannot_lock(folder, role, error) from error


def _lock(folder: Path, role: Role, wait_seconds: float) -> FileLock:
    return FileLock(folder / f"{role}.lock", timeout=wait_seconds, thread_local=False, mode=PRIVATE)


def _cannot_lock(folder: Path, role: Role, error: Exception) -> ControlFolderError:
    reason = getattr(error, "strerror", None) or error
    return ControlFolderError(f"cannot lock '{folder / role}.lock': {reason}")


def _last_holder(folder: Path, role: Role) -> Holder:
    try:
        known = read_record(LocalFilesystem(folder), Holder, f"{role}.json")
    except ControlFolderError:
        known = None
    return known or Holder("unknown", 0, "unknown", time.time())


def _refusal(location: str, role: Role, holder: Holder) -> ControlFolderError:
    if role == "loop":
        return ControlFolderError(
            f"a control loop is attached to {holder} already, with the control folder '{location}'; stop that loop "
            "first"
        )
    return ControlFolderError(
        f"the control folder '{location}' is used by {holder}; stop it, or give this query a checkpoint and a control "
        "folder of its own"
    )
