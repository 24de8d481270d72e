"""Which pipelines run on this machine: one small file each, so that another terminal can find them by name."""

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
    """A running pipeline, where its control folder is, and where its metrics are kept."""

    name: str
    pid: int
    control: str
    store: str | None = None


def foretide_home() -> Path:
    """Foretide's own folder: `FORETIDE_HOME`, or the user's folder for application data."""
    return Path(os.environ.get("FORETIDE_HOME") or user_data_path("foretide"))


def default_store(control_folder: str, pipeline: str) -> str:
    """Where a pipeline keeps its metrics by default: in its control folder if that is local, else in Foretide's."""
    local = local_path(control_folder)
    return str(foretide_home() / "metrics" / f"{pipeline}.db" if local is None else local / "metrics.db")


def announce(running: Running) -> None:
    """Let other terminals find a pipeline."""
    atomic_write(_file(running.name, running.pid), json.dumps(asdict(running)), _PRIVATE)


def withdraw(running: Running) -> None:
    """Take a pipeline off the list."""
    _file(running.name, running.pid).unlink(missing_ok=True)


def list_running() -> list[Running]:
    """All pipelines whose process is alive; what dead ones left behind is cleared away."""
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


def find_running(name: str | None) -> Running:
    """The pipeline of that name, or the only one there is."""
    there = [running for running in list_running() if name in (None, running.name)]
    if len(there) == 1:
        return there[0]
    everywhere = list_running()
    names = ", ".join(f"{running.name} (process {running.pid}, {running.control})" for running in everywhere)
    if not everywhere:
        raise PipelineNotFoundError("no pipeline runs on this machine; start one, or give its folder with --control")
    if len(there) > 1:
        raise PipelineNotFoundError(f"several pipelines fit; say which with --app or --control. Running: {names}")
    raise PipelineNotFoundError(f"no pipeline '{name}' runs here. Running: {names}")


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
