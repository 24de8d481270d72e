"""What a pipeline and its control loop report of themselves, for people and programs to read.

status.json   the last batch: written by the pipeline
control.json  the control loop: written by it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from foretide.codec import from_json, to_json
from foretide.control.world.setup import ControlMode, Target
from foretide.control_folder.filesystem import Filesystem
from foretide.errors import CodecError
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport, EdgeFlow

STATUS = "status.json"
CONTROL = "control.json"


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The last batch that took rows. `route_version` is None if the default split was in force."""

    batch: int
    finished: float
    input_rows: int
    route_version: int | None = None
    edges: Mapping[str, EdgeFlow] | None = None
    alarms: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: BatchReport, alarms: Iterable[AuditFailure]) -> Self:
        """The status after a batch."""
        messages = tuple(alarm.message for alarm in alarms)
        return cls(report.batch, report.finished, report.input_rows, report.route_version, report.edges, messages)


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision in one line."""

    id: int
    at: float
    summary: str


@dataclass(frozen=True, slots=True)
class ControlStatus:
    """The control loop after a cycle. `restarts` counts how often the loop itself was started again."""

    at: float
    mode: ControlMode
    policies: tuple[str, ...]
    target: Target
    cycles: int = 0
    restarts: int = 0
    decisions: tuple[DecisionSummary, ...] = ()
    problems: tuple[str, ...] = ()
    forecasts: tuple[str, ...] = ()
    ended: bool = False


class StatusFiles:
    """The two status files of a control folder. What cannot be read counts as not written."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files

    def pipeline(self) -> PipelineStatus | None:
        """The last batch, or None before the first."""
        try:
            return from_json(PipelineStatus, self._files.read(STATUS) or "")
        except CodecError:
            return None

    def control(self) -> ControlStatus | None:
        """The control loop, or None if none was attached."""
        try:
            return from_json(ControlStatus, self._files.read(CONTROL) or "")
        except CodecError:
            return None

    def write(self, status: PipelineStatus | ControlStatus) -> None:
        """Replace the status of the pipeline or of the control loop."""
        self._files.write(STATUS if isinstance(status, PipelineStatus) else CONTROL, to_json(status))
