"""The pipelines that run on this machine: one small file each, by which other processes find them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from platformdirs import user_data_path

from foretide.control_folder.filesystem import local_path
from foretide.errors import PipelineNotFoundError
from foretide.files import atomic_write

_PRIVATE = 0o600  # the URL of a store may contain a password


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
    atomic_write(_file(running.name, running.pid), json.dumps(asdict(running)), _PRIVATE)


def withdraw(running: Running) -> None:
    """Remove a pipeline from the list."""
    _file(running.name, running.pid).unlink(missing_ok=True)


def list_running() -> list[Running]:
    """All pipelines whose process is alive. Files of dead ones are deleted."""
    found = []
    for file in sorted(_folder().glob("*.json")):
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


def _folder() -> Path:
    return foretide_home() / "running"


def _file(name: str, pid: int) -> Path:
    return _folder() / f"{name}-{pid}.json"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
