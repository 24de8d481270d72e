"""The control folder of a pipeline: the route table and the join plans that Spark reads, orders, and status.

routes.json     the route table, which every batch reads
joins.json      what is fixed for each join
join-X.json     the plan of join X, which every batch reads
past-X.json     what is known of the batches of join X

status.json     the last batch, written by the pipeline
control.json    the control loop, written by it

The other files are in `orders`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from foretide import codec
from foretide.control.world.setup import ControlMode, Target
from foretide.control_folder.filesystem import Filesystem, open_filesystem
from foretide.control_folder.orders import OrderFiles
from foretide.errors import CodecError, RouteError
from foretide.joins.placement.plan_change import BatchHistory
from foretide.joins.placement.spec import JoinSpec
from foretide.joins.placement.timeline import Timeline, from_json, to_json
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport, EdgeFlow
from foretide.routing.table import RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable

ROUTES = "routes.json"
JOINS = "joins.json"
STATUS = "status.json"
CONTROL = "control.json"


class ControlFolder:
    """The control folder of one pipeline.

    >>> import tempfile
    >>> folder = ControlFolder(tempfile.mkdtemp())
    >>> folder.change_routes(lambda table: table.declare("parse", pool=2)).version
    1
    >>> folder.routes().edges["parse"].counts
    (512, 512)
    """

    def __init__(self, location: str, files: Filesystem | None = None) -> None:
        self.location = location
        self._files = files or open_filesystem(location)
        self.orders = OrderFiles(self._files)
        self.status = StatusFiles(self._files)

    @property
    def routes_url(self) -> str:
        """Where Spark reads the route table."""
        return self._files.url(ROUTES)

    def routes(self) -> RouteTable:
        """The published table, empty if there is none; RouteError if it cannot be read."""
        text = self._files.read(ROUTES)
        return RouteTable() if text is None else RouteTable.from_json(text)

    def change_routes(self, change: Callable[[RouteTable], RouteTable], *, repair: bool = False) -> RouteTable:
        """Publish a changed table. A change that raises leaves the old table in place.

        With `repair`, a table that cannot be read counts as empty.
        """
        with self._files.lock():
            before = self._routes_or_empty() if repair else self.routes()
            after = change(before)
            if after is not before:
                self._files.write(ROUTES, after.to_json())
            return after

    def _routes_or_empty(self) -> RouteTable:
        try:
            return self.routes()
        except RouteError:
            return RouteTable()

    def joins(self) -> dict[str, JoinSpec]:
        """What is fixed for each join, by name."""
        entries = self._object(JOINS)
        return {name: JoinSpec.from_data(entry) for name, entry in entries.items()}

    def declare_join(self, name: str, spec: JoinSpec) -> None:
        """Write what is fixed for a join."""
        with self._files.lock():
            entries = {other: each.to_data() for other, each in self.joins().items()}
            self._files.write(JOINS, json.dumps(entries | {name: spec.to_data()}))

    def join_plan_url(self, name: str) -> str:
        """Where Spark reads the plan of a join."""
        return self._files.url(_plan_file(name))

    def join_plan(self, name: str) -> Timeline | None:
        """The published plan of a join, None if there is none; PlanFormatError if it cannot be read."""
        text = self._files.read(_plan_file(name))
        return None if text is None else from_json(text)

    def change_join_plan(self, name: str, change: Callable[[Timeline | None], Timeline]) -> Timeline:
        """Publish a changed plan. Other writers are excluded meanwhile."""
        with self._files.lock():
            before = self.join_plan(name)
            after = change(before)
            if after is not before:
                self._files.write(_plan_file(name), to_json(after))
            return after

    def put_join_plan(self, name: str, plan: Timeline) -> None:
        """Publish a plan in place of one that is damaged."""
        with self._files.lock():
            self._files.write(_plan_file(name), to_json(plan))

    def join_past(self, name: str) -> BatchHistory | None:
        """What is known of a join's past batches, or None."""
        return BatchHistory.from_data(self._object(f"past-{name}.json"))

    def keep_join_past(self, name: str, past: BatchHistory) -> None:
        """Write what is known of a join's past batches."""
        self._files.write(f"past-{name}.json", json.dumps(past.to_data()))

    def _object(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads(self._files.read(name) or "{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def _plan_file(name: str) -> str:
    return f"join-{name}.json"


Status = TypeVar("Status")


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
        return self._read(PipelineStatus, STATUS)

    def control(self) -> ControlStatus | None:
        """The control loop, or None if none was attached."""
        return self._read(ControlStatus, CONTROL)

    def _read(self, kind: type[Status], name: str) -> Status | None:
        try:
            return codec.from_json(kind, self._files.read(name) or "")
        except CodecError:
            return None

    def write(self, status: PipelineStatus | ControlStatus) -> None:
        """Replace the status of the pipeline or of the control loop."""
        self._files.write(STATUS if isinstance(status, PipelineStatus) else CONTROL, codec.to_json(status))
