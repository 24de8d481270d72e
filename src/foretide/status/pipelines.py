"""The state of pipelines, as their control folders show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foretide.control.world.setup import ControlMode
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.status import ControlStatus, PipelineStatus
from foretide.errors import ControlFolderError
from foretide.status.running import find_running, list_running


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
