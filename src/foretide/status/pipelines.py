"""The pipelines that run on this machine, and their state as their control folders show it.

Each has one small file, by which other processes find it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from platformdirs import user_data_path

from foretide.control.world.setup import ControlMode
from foretide.control_folder.filesystem import local_path
from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus
from foretide.errors import ControlFolderError, PipelineNotFoundError
from foretide.files import atomic_write

_PRIVATE = 0o600  # the URL of a store may contain a password


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """A running pipeline in one line. `batch` is None before the first batch, `mode` without a control loop."""

    name: str
    pid: int
    control_folder: str
    store: str | None
    batch: int | None
    mode: ControlMode | None
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The last batch, the control loop, and what people have ordered."""

    batch: PipelineStatus | None
    control: ControlStatus | None
    drained: tuple[str, ...]
    admission: Mapping[str, int]

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
    return [
        PipelineSummary(
            running.name,
            running.pid,
            running.control_folder,
            running.store,
            None if (batch := folder.status.pipeline()) is None else batch.batch,
            None if (control := folder.status.control()) is None else control.mode,
            () if control is None else control.policies,
        )
        for running in list_running()
        for folder in [ControlFolder(running.control_folder)]
    ]


def find_folder(app: str | None, control_folder: str | None) -> ControlFolder:
    """The control folder given, or that of the running pipeline.

    Raises:
        PipelineNotFoundError: No folder was given, and no such pipeline runs, or several do.
        ControlFolderError: No pipeline has ever used the folder.
    """
    folder = ControlFolder(control_folder or find_running(app).control_folder)
    if not folder.routes().edges and folder.status.pipeline() is None:
        raise ControlFolderError(f"'{folder.location}' is not a control folder: it has neither routes nor a status")
    return folder


def read_state(folder: ControlFolder) -> PipelineState:
    """The state of a pipeline."""
    orders, status = folder.orders, folder.status
    return PipelineState(status.pipeline(), status.control(), tuple(sorted(orders.drained())), orders.admission())


def read_routes(folder: ControlFolder) -> RoutesState:
    """The routes of a pipeline."""
    table, batch = folder.routes(), folder.status.pipeline()
    flows = (batch.edges if batch is not None else None) or {}
    edges = {
        name: EdgeState(route.pool, route.shares, flows[name].per_task if name in flows else None)
        for name, route in table.edges.items()
    }
    return RoutesState(table.version, edges, batch)


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


def default_store(control_folder: str, pipeline: str) -> str:
    """Where a pipeline keeps its metrics by default: in its control folder if that is local, else in Foretide's."""
    local = local_path(control_folder)
    return str(foretide_home() / "metrics" / f"{pipeline}.db" if local is None else local / "metrics.db")


def running_store(running: Running) -> str:
    """The store of a running pipeline."""
    return running.store or default_store(running.control_folder, running.name)


def announce(running: Running) -> None:
    """Let other processes find a pipeline."""
    atomic_write(_file(running), json.dumps(asdict(running)), _PRIVATE)


def withdraw(running: Running) -> None:
    """Remove a pipeline from the list."""
    _file(running).unlink(missing_ok=True)


def list_running() -> list[Running]:
    """All pipelines whose process is alive. Files of dead ones are deleted."""
    found = []
    for file in sorted((foretide_home() / "running").glob("*.json")):
        try:
            running = Running(**json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, OSError):
            continue
        if _alive(running.pid):
            found.append(running)
        else:
            file.unlink(missing_ok=True)
    return found


def find_running(name: str | None, instead: str = "--control-folder") -> Running:
    """The running pipeline of that name, or the only one; `instead` is the option that does without a running one."""
    running = list_running()
    found = [each for each in running if name in (None, each.name)]
    if len(found) == 1:
        return found[0]
    if not running:
        raise PipelineNotFoundError(f"no pipeline runs on this machine; start one, or use {instead}")
    names = ", ".join(f"{each.name} (process {each.pid}, {each.control_folder})" for each in running)
    if found:
        raise PipelineNotFoundError(f"several pipelines match; choose one with --app or {instead}. Running: {names}")
    raise PipelineNotFoundError(f"no pipeline '{name}' runs on this machine; use {instead}. Running: {names}")


def _file(running: Running) -> Path:
    return foretide_home() / "running" / f"{running.name}-{running.pid}.json"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # a process of another user
    return True
