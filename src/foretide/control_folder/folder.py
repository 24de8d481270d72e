"""The control folder of a pipeline: the route table and the join plans that Spark reads, orders, and status.

routes.json     the route table, which every batch reads; routes-copy.json has it again, to repair a damaged one
query.json      the query that the folder belongs to
joins.json      what is fixed for each join
join-X.json     the plan of join X, which every batch reads
past-X.json     what is known of the batches of join X

pipeline.json   what the pipeline is made of, written by it at every start
status.json     the last batch, written by the pipeline
control.json    the control loop, written by it

The other files are in `orders`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from foretide import codec
from foretide.control.forecast_scores import HorizonTrust
from foretide.control.policies.worker_cases import WorkerCase
from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import ControlMode, Target
from foretide.control_folder.claim import Claim, accepting
from foretide.control_folder.facts import FACTS, PipelineFacts
from foretide.control_folder.filesystem import LOCK_SECONDS, Filesystem, open_filesystem
from foretide.control_folder.orders import OrderFiles, damaged, read_record
from foretide.errors import CodecError, DamagedFileError, PlanFormatError, RouteError
from foretide.joins.placement.plan_change import BatchHistory
from foretide.joins.placement.spec import JoinSpec
from foretide.joins.placement.timeline import Timeline, from_json, to_json
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport, EdgeFlow
from foretide.planning.advice import Advice
from foretide.routing.table import RouteTable

if TYPE_CHECKING:
    from collections.abc import Callable

CLAIM = "query.json"
ROUTES = "routes.json"
ROUTES_COPY = "routes-copy.json"
JOINS = "joins.json"
WORKER_CASES = "workers.json"
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

    def __init__(self, location: str, files: Filesystem | None = None, lock_seconds: float = LOCK_SECONDS) -> None:
        self.location = location
        self._files, self._lock_seconds = files or open_filesystem(location, private=True), lock_seconds
        self.orders = OrderFiles(self._files, lock_seconds)
        self.status = StatusFiles(self._files)

    def waiting(self, lock_seconds: float) -> ControlFolder:
        """The same folder, waiting at most so long for others who change it."""
        return ControlFolder(self.location, self._files, lock_seconds)

    @property
    def in_use(self) -> bool:
        """Whether a pipeline has ever used the folder, as far as its files show."""
        return any(self._is_there(name) for name in (ROUTES, JOINS, STATUS, CONTROL, FACTS))

    def _is_there(self, name: str) -> bool:
        try:
            return self._files.read(name) is not None
        except DamagedFileError as error:
            return not isinstance(error.__cause__, NotADirectoryError)

    @property
    def routes_url(self) -> str:
        """Where Spark reads the route table."""
        return self._files.url(ROUTES)

    def routes(self) -> RouteTable:
        """The published table, empty if there is none; RouteError if it cannot be read."""
        remedy = "a pipeline that runs publishes it again after its next batch"
        try:
            text = self._files.read(ROUTES)
            return RouteTable() if text is None else RouteTable.from_json(text)
        except DamagedFileError as error:
            raise RouteError("*", f"{error}; {remedy}") from error
        except RouteError as error:
            raise RouteError(error.edge, f"{damaged(self._files, ROUTES, error.reason)}; {remedy}") from error

    def change_routes(self, change: Callable[[RouteTable], RouteTable], *, repair: bool = False) -> RouteTable:
        """Publish a changed table. A change that raises leaves the old table in place.

        With `repair`, a table that is lost or cannot be read is replaced: by its copy, or else an empty one, changed.
        """
        with self._files.lock(self._lock_seconds):
            before = self._sound_routes() if repair else self.routes()
            after = change(self._copied_routes() if before is None else before)
            if after is not before:
                for name in (ROUTES, ROUTES_COPY):  # running tasks wait for it, and no result depends on it
                    self._files.write(name, after.to_json(), durable=False)
            return after

    def _sound_routes(self) -> RouteTable | None:
        """The published table; None if it is lost or cannot be read."""
        with suppress(RouteError, DamagedFileError):
            return self.routes() if self._files.read(ROUTES) is not None else None
        return None

    def _copied_routes(self) -> RouteTable:
        """The table that was published last, under the next version; empty if there is no copy."""
        with suppress(RouteError, DamagedFileError):
            text = self._files.read(ROUTES_COPY)
            return RouteTable() if text is None else RouteTable.from_json(text).republished()
        return RouteTable()

    def joins(self) -> dict[str, JoinSpec]:
        """What is fixed for each join, by name; PlanFormatError if that cannot be read."""
        try:
            entries = read_record(self._files, dict[str, Any], JOINS) or {}
        except DamagedFileError as error:
            raise PlanFormatError(
                f"{error}; remove it, and start the query again, which describes its joins"
            ) from error
        return {name: JoinSpec.from_data(entry) for name, entry in entries.items()}

    def declare_join(self, name: str, spec: JoinSpec) -> None:
        """Write what is fixed for a join."""
        with self._files.lock(self._lock_seconds):
            entries = {other: each.to_data() for other, each in self.joins().items()}
            self._files.write(JOINS, json.dumps(entries | {name: spec.to_data()}))

    def join_plan_url(self, name: str) -> str:
        """Where Spark reads the plan of a join."""
        return self._files.url(_plan_file(name))

    def join_plan(self, name: str) -> Timeline | None:
        """The published plan of a join, None if there is none; PlanFormatError if it cannot be read."""
        try:
            text = self._files.read(_plan_file(name))
        except DamagedFileError as error:
            raise PlanFormatError(str(error)) from error
        return None if text is None else from_json(text)

    def change_join_plan(self, name: str, change: Callable[[Timeline | None], Timeline]) -> Timeline:
        """Publish a changed plan. Other writers are excluded meanwhile."""
        with self._files.lock(self._lock_seconds):
            before = self.join_plan(name)
            after = change(before)
            if after is not before:
                with accepting(self.claim(), self._token(name), name, before, after):
                    self._write_plan(name, after)
            return after

    def put_join_plan(self, name: str, plan: Timeline) -> None:
        """Put the last published plan in place of one that is damaged."""
        with self._files.lock(self._lock_seconds):
            self._write_plan(name, plan)

    def _write_plan(self, name: str, plan: Timeline) -> None:
        self._files.write(_plan_file(name), to_json(plan, self._token(name)))

    def _token(self, name: str) -> str | None:
        """The token of the query that may use a plan; if the claim cannot be read, that in the plan's file."""
        claim = self.claim()
        if claim is not None:
            return claim.tokens.get(name)
        try:
            return self._object(_plan_file(name)).get("query")
        except (CodecError, DamagedFileError):
            return None

    def claim(self) -> Claim | None:
        """The query that the folder belongs to; None if it belongs to none, or that cannot be read."""
        try:
            return codec.from_json(Claim, self._files.read(CLAIM) or "")
        except (CodecError, DamagedFileError):
            return None

    def write_claim(self, claim: Claim) -> None:
        """Let the folder belong to this query: from now on its batches, and no others, may use the plans."""
        with self._files.lock(self._lock_seconds):
            self._files.write(CLAIM, codec.to_json(claim))
            for name in claim.tokens:
                plan = self.join_plan(name)
                if plan is not None:
                    self._write_plan(name, plan)

    def join_past(self, name: str) -> BatchHistory | None:
        """What is known of a join's past batches; None if that is nothing, or cannot be read."""
        return BatchHistory.from_data(self._object(f"past-{name}.json"))

    def keep_join_past(self, name: str, past: BatchHistory) -> None:
        """Write what is known of a join's past batches."""
        self._files.write(f"past-{name}.json", json.dumps(past.to_data()))

    def worker_cases(self) -> tuple[WorkerCase, ...]:
        """Bad workers of earlier drivers; none if that cannot be read."""
        try:
            return read_record(self._files, tuple[WorkerCase, ...], WORKER_CASES) or ()
        except DamagedFileError:
            return ()

    def keep_worker_cases(self, cases: tuple[WorkerCase, ...]) -> None:
        """Write them."""
        self._files.write(WORKER_CASES, codec.to_json(cases))

    def _object(self, name: str) -> dict[str, Any]:
        """The object in a file, empty if there is none, or it cannot be read."""
        try:
            return read_record(self._files, dict[str, Any], name) or {}
        except DamagedFileError:
            return {}


def _plan_file(name: str) -> str:
    return f"join-{name}.json"


@dataclass(frozen=True, slots=True)
class RaisedAlarm:
    """An alarm of a rule that held when it was written down, and what it is about."""

    rule: str
    severity: str
    subject: str


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The last batch that took rows; the first one as long as none did (`idle`).

    `route_version` is None if the default split was in force.

    Attributes:
        alarms: What the audit found in the batch.
        problems: What monitoring could not do at that time.
        raised: The alarms of rules that held then.
    """

    batch: int
    finished: float
    input_rows: int
    route_version: int | None = None
    edges: Mapping[str, EdgeFlow] | None = None
    alarms: tuple[str, ...] = ()
    duration: float = 0.0
    problems: tuple[str, ...] = ()
    raised: tuple[RaisedAlarm, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether the query has run, and no row has come yet."""
        return not self.input_rows

    @classmethod
    def of(
        cls,
        report: BatchReport,
        alarms: Iterable[AuditFailure],
        problems: Iterable[str] = (),
        raised: Iterable[RaisedAlarm] = (),
    ) -> Self:
        """The status after a batch."""
        return cls(
            report.batch,
            report.finished,
            report.input_rows,
            report.route_version,
            report.edges,
            tuple(alarm.message for alarm in alarms),
            report.duration,
            tuple(problems),
            tuple(raised),
        )


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision in one line."""

    id: int
    at: float
    summary: str


@dataclass(frozen=True, slots=True)
class JoinSummary:
    """A join as the loop sees it: windows of keys, keys that are placed by a plan, and imbalance of the partitions.

    The imbalance (LI) is by how much the load of the fullest partition exceeds the mean, as a share of it; None if it
    is not known.
    """

    windows: int
    placed: tuple[str, ...] = ()
    imbalance: float | None = None
    problem: str | None = None

    def describe(self) -> str:
        """The join in one line."""
        if not self.windows:
            return "counting keys; no window of them is complete yet"
        placed = (
            f"{len(self.placed)} hot keys placed ({', '.join(self.placed[:_MAX_KEYS])})"
            if self.placed
            else "no hot key placed"
        )
        more = (
            ""
            if self.imbalance is None
            else f"; the fullest partition has {self.imbalance:.0%} more load than the mean"
        )
        return f"{placed}{more}"


_MAX_KEYS = 5


@dataclass(frozen=True, slots=True)
class ControlStatus:
    """The control loop after a cycle.

    Attributes:
        restarts: How often the loop itself was started again.
        workers: The workers that it knows, and the host of each.
        drained: Hosts and workers that it keeps out of service.
        record: How the target was kept so far.
        joins: The joins of the query, by name.
        advice: What a person could change, that which saves most first.
        latency_basis: What latency is measured from; None for a topology, which knows it.
        paused: Whether a person has paused it.
        trust: Which forecasts it trusts, and why.
    """

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
    workers: Mapping[str, str] = field(default_factory=dict)
    drained: tuple[str, ...] = ()
    record: TargetRecord | None = None
    joins: Mapping[str, JoinSummary] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    latency_basis: str | None = None
    paused: bool = False
    trust: tuple[HorizonTrust, ...] = ()


class StatusFiles:
    """What the pipeline and its control loop say of themselves. DamagedFileError names a file that cannot be read."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files

    def facts(self) -> PipelineFacts | None:
        """What the pipeline is made of, or None before its first start."""
        return read_record(self._files, PipelineFacts, FACTS)

    def pipeline(self) -> PipelineStatus | None:
        """The last batch, or None before the first."""
        return read_record(self._files, PipelineStatus, STATUS)

    def control(self) -> ControlStatus | None:
        """The control loop, or None if none was attached."""
        return read_record(self._files, ControlStatus, CONTROL)

    def write(self, status: PipelineStatus | ControlStatus | PipelineFacts) -> None:
        """Replace the status of the pipeline or of the control loop, or what the pipeline is made of."""
        self._files.write(_FILES[type(status)], codec.to_json(status), durable=False)


_FILES = {PipelineStatus: STATUS, ControlStatus: CONTROL, PipelineFacts: FACTS}
