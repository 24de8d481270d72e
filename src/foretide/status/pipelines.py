"""The pipelines that run on this machine, and their state as their control folders show it.

Each has one small file, by which other processes find it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from platformdirs import user_data_path

from foretide.codec import from_json, to_json
from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import ControlMode
from foretide.control_folder.filesystem import absolute, local_path
from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus
from foretide.control_folder.orders import HeldOrder
from foretide.control_folder.supervision import SupervisorStatus, read_supervisor
from foretide.errors import CodecError, ControlFolderError, PipelineNotFoundError, RegistryError
from foretide.files import atomic_write
from foretide.metrics.batch import EdgeFlow
from foretide.secrets import masked_url
from foretide.text import printable

_log = logging.getLogger(__name__)

Value = TypeVar("Value")

_PRIVATE = 0o600  # the URL of a store may contain a password
_PRIVATE_FOLDER = 0o700
_MAX_PID = 2**31 - 1
_MAX_NAME = 60
_MAX_BYTES = 100_000
_MAX_HOME = 200


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """A running pipeline in one line. `batch` is None before the first batch, `mode` without a control loop.

    `problems` says which files of its control folder cannot be read.
    """

    name: str
    pid: int
    control_folder: str
    store: str | None
    batch: int | None
    mode: ControlMode | None
    policies: tuple[str, ...]
    problems: tuple[str, ...] = ()
    target: TargetRecord | None = None


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The last batch, the control loop, what people have ordered, and the supervisor of the driver.

    `problems` says which files cannot be read.
    """

    batch: PipelineStatus | None
    control: ControlStatus | None
    drained: tuple[str, ...]
    admission: Mapping[str, int]
    problems: tuple[str, ...] = ()
    supervisor: SupervisorStatus | None = None
    held: Mapping[str, HeldOrder] = field(default_factory=dict)

    @property
    def controlled(self) -> bool:
        """Whether a control loop runs."""
        return self.control is not None and not self.control.ended


@dataclass(frozen=True, slots=True)
class EdgeState:
    """An edge: the share of each task as published, and the rows of each task in the last batch, if known."""

    pool: int
    shares: tuple[float, ...]
    rows: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class RoutesState:
    """The published routes, and the last batch, which shows the version in force."""

    version: int
    edges: Mapping[str, EdgeState]
    in_force: PipelineStatus | None


def list_pipelines() -> list[PipelineSummary]:
    """The pipelines that run on this machine."""
    return [_summary(running) for running in list_running()]


def _summary(running: Running) -> PipelineSummary:
    problems: list[str] = []
    folder = readable(lambda: ControlFolder(running.control_folder), problems)
    batch = None if folder is None else readable(folder.status.pipeline, problems)
    control = None if folder is None else readable(folder.status.control, problems)
    return PipelineSummary(
        running.name,
        running.pid,
        running.control_folder,
        None if running.store is None else masked_url(running.store),
        None if batch is None or batch.idle else batch.batch,
        None if control is None else control.mode,
        () if control is None else control.policies,
        tuple(problems),
        None if control is None else control.record,
    )


def readable(read: Callable[[], Value], problems: list[str]) -> Value | None:
    """What a file holds; None if it cannot be read, and `problems` gets a sentence more."""
    try:
        return read()
    except ControlFolderError as error:
        problems.append(str(error))
        return None


def find_folder(app: str | None, control_folder: str | None) -> ControlFolder:
    """The control folder given, or that of the running pipeline.

    Raises:
        PipelineNotFoundError: No folder was given, and no such pipeline runs, or several do; or both were given.
        ControlFolderError: No pipeline has ever used the folder.
    """
    if app is not None and control_folder is not None:
        raise PipelineNotFoundError(
            f"give either the name of the pipeline ('{app}') or its control folder ('{control_folder}'), not both"
        )
    folder = ControlFolder(absolute(control_folder or find_running(app).control_folder))
    if not folder.in_use:
        raise ControlFolderError(f"'{folder.location}' is not a control folder: it has neither routes nor a status")
    return folder


def read_state(folder: ControlFolder) -> PipelineState:
    """The state of a pipeline, as far as it can be read."""
    orders, status = folder.orders, folder.status
    problems: list[str] = []
    batch = readable(status.pipeline, problems)
    control = readable(status.control, problems)
    drained = readable(orders.drained, problems)
    admission = readable(orders.admission, problems)
    for read in (orders.target, orders.mode, orders.restart, orders.last_restarted, status.facts):
        readable(read, problems)
    local = local_path(folder.location)
    supervisor = None if local is None else readable(lambda: read_supervisor(local), problems)
    places = tuple(sorted(drained or ()))
    held = readable(orders.held, problems) or {}
    return PipelineState(batch, control, places, admission or {}, tuple(problems), supervisor, held)


def read_routes(folder: ControlFolder) -> RoutesState:
    """The routes of a pipeline."""
    table, batch = folder.routes(), folder.status.pipeline()
    flows = (batch.edges if batch is not None else None) or {}
    edges = {
        name: EdgeState(route.pool, route.shares, _rows(flows.get(name), route.pool))
        for name, route in table.edges.items()
    }
    return RoutesState(table.version, edges, batch)


def _rows(flow: EdgeFlow | None, pool: int) -> tuple[int, ...] | None:
    """The rows of each task, unless the batch ran with another pool."""
    rows = None if flow is None else flow.per_task
    return rows if rows is not None and len(rows) == pool else None


@dataclass(frozen=True)
class Running:
    """A running pipeline: its process, its control folder, and the store of its metrics."""

    name: str
    pid: int
    control_folder: str
    store: str | None = None


def foretide_home() -> Path:
    """Foretide's own folder: `FORETIDE_HOME`, or the user's folder for application data."""
    return Path(os.environ.get("FORETIDE_HOME") or user_data_path("foretide"))


def private_home() -> Path:
    """Foretide's own folder; if it has to be created, only the user can read it.

    Raises:
        RegistryError: It cannot be created.
    """
    home = foretide_home()
    try:
        home.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise RegistryError(_home_problem("created", error)) from error
    return home


def default_store(control_folder: str, pipeline: str) -> str:
    """Where a pipeline keeps its metrics by default: in its control folder if that is local, else in Foretide's."""
    local = local_path(control_folder)
    return str(foretide_home() / "metrics" / f"{file_name(pipeline)}.db" if local is None else local / "metrics.db")


def file_name(name: str) -> str:
    """A name as part of the name of a file; what is not safe in one is replaced, and a hash keeps names apart.

    >>> file_name("url-count"), file_name("../../outside")
    ('url-count', 'outside-e28b700f')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_MAX_NAME].strip(".-")
    if safe == name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{safe}-{digest}" if safe else digest


def running_store(running: Running) -> str:
    """The store of a running pipeline."""
    return running.store or default_store(running.control_folder, running.name)


def announce(running: Running) -> None:
    """Let other processes find a pipeline.

    Raises:
        RegistryError: Foretide's own folder cannot be written.
    """
    file = _file(running)
    private_home()
    try:
        file.parent.mkdir(_PRIVATE_FOLDER, exist_ok=True)
        file.parent.chmod(_PRIVATE_FOLDER)
        atomic_write(file, to_json(running), _PRIVATE)
    except OSError as error:
        raise RegistryError(_home_problem("written", error)) from error


def withdraw(running: Running) -> None:
    """Remove a pipeline from the list."""
    with suppress(OSError):
        _file(running).unlink(missing_ok=True)


def list_running() -> list[Running]:
    """All pipelines whose process is alive. Files of dead ones are deleted; one that is damaged is logged.

    Raises:
        RegistryError: Foretide's own folder cannot be read.
    """
    folder = foretide_home() / "running"
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RegistryError(_home_problem("read", error)) from error
    return [running for file in files if (running := _read(file)) is not None]


def _read(file: Path) -> Running | None:
    """The pipeline that a file announces, None if it has ended or the file is damaged."""
    try:
        with file.open("rb") as opened:
            running = _checked(from_json(Running, opened.read(_MAX_BYTES)))
    except FileNotFoundError:  # withdrawn meanwhile
        return None
    except (OSError, CodecError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        _log.warning("'%s' does not describe a running pipeline: %s; delete it", printable(file), printable(problem))
        return None
    if _alive(running.pid):
        return running
    with suppress(OSError):
        file.unlink(missing_ok=True)
    return None


def _checked(running: Running) -> Running:
    if not 0 < running.pid <= _MAX_PID:
        raise CodecError("pid", "is not the id of a process")
    for name, text in (("name", running.name), ("control_folder", running.control_folder)):
        if not text or "\0" in text or not _is_utf8(text):
            raise CodecError(name, "must be text, without NUL and lone surrogates, and not empty")
    return running


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _home_problem(done: str, error: OSError) -> str:
    home = printable(foretide_home())
    shown = home if len(home) <= _MAX_HOME else f"{home[:_MAX_HOME]}..."
    reason = error.strerror or error
    return f"Foretide's own folder '{shown}' cannot be {done}: {reason}; set FORETIDE_HOME to another one"


def is_running(folder: ControlFolder) -> bool:
    """Whether a process on this machine runs a pipeline with this control folder and follows it."""
    return any(running.control_folder == folder.location for running in list_running())


def list_starting() -> list[str]:
    """Names of `foretide run` and `foretide demo` whose process is alive, but whose pipeline does not run."""
    known = {running.name for running in list_running()}
    locks = sorted((foretide_home() / "running").glob("*.lock"))
    return [lock.stem for lock in locks if lock.stem not in known and _is_held(lock)]


def _is_held(lock: Path) -> bool:
    """Whether the process that a lock file names is alive; it empties the file at its end."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        pid = json.loads(lock.read_bytes()[:_MAX_BYTES])["pid"]
        return isinstance(pid, int) and 0 < pid <= _MAX_PID and _alive(pid)
    return False


def starting_words() -> str:
    """What is being started, as a part of a sentence; empty if nothing is."""
    names = list_starting()
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {verb} starting or ending: try again in a moment" if names else ""


def find_running(name: str | None, instead: str = "--control-folder") -> Running:
    """The running pipeline of that name, or the only one; `instead` is the option that does without a running one."""
    running = list_running()
    found = [each for each in running if name in (None, each.name)]
    if len(found) == 1:
        return found[0]
    starting = starting_words()
    if not running:
        advice = starting or f"start one, or use {instead}"
        raise PipelineNotFoundError(f"no pipeline runs on this machine; {advice}")
    names = ", ".join(f"{each.name} (process {each.pid}, {each.control_folder})" for each in running)
    if found:
        raise PipelineNotFoundError(f"several pipelines match; choose one with --app or {instead}. Running: {names}")
    advice = starting or f"use {instead}"
    raise PipelineNotFoundError(f"no pipeline '{name}' runs on this machine; {advice}. Running: {names}")


def _file(running: Running) -> Path:
    return foretide_home() / "running" / f"{file_name(running.name)}-{running.pid}.json"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # a process of another user
    return True
