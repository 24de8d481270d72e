"""What the supervisor of a driver says of itself: `supervisor.json` in the control folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foretide.codec import to_json
from foretide.control_folder.filesystem import LocalFilesystem
from foretide.control_folder.orders import read_record

SUPERVISOR = "supervisor.json"


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    """The supervisor of a driver.

    Attributes:
        pid: Its process.
        restarts: How often it has started the driver again.
        max_restarts: How often it does so in a row.
        last_exit: How the driver ended last, and `at`, when, in seconds since 1970; None if it never did.
        ended: Whether it has ended.
    """

    pid: int
    restarts: int = 0
    max_restarts: int = 0
    last_exit: str | None = None
    at: float | None = None
    ended: bool = False


def read_supervisor(folder: Path) -> SupervisorStatus | None:
    """The supervisor of the pipeline with this control folder; None if it has none."""
    return read_record(LocalFilesystem(folder), SupervisorStatus, SUPERVISOR)


def write_supervisor(folder: Path, status: SupervisorStatus) -> None:
    """Replace the status of the supervisor."""
    LocalFilesystem(folder).write(SUPERVISOR, to_json(status))
