"""When a worker counts as bad and as healthy again, and what is remembered of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.policies.worker_health import HEALTH_METRICS, HealthMetric
from foretide.durations import Seconds

Phase = Literal["watched", "rerouted", "out", "probation"]


@dataclass(frozen=True, slots=True)
class BypassSettings(Bounded):
    """When a worker is taken out of service, and when it is let back in."""

    section: ClassVar[str] = "bypass"

    health_metrics: Annotated[
        tuple[HealthMetric, ...], Doc("Metrics that are high when something is wrong with a worker."), Scope.PYTHON_ONLY
    ] = HEALTH_METRICS
    slow: Annotated[
        float,
        Gt(1),
        Doc("From this many times its reference on, a worker is suspect: a smaller share, and out if it lasts."),
    ] = 1.75
    bad: Annotated[float, Gt(1), Doc("From this many times its reference on, a worker is taken out at once.")] = 2.5
    patience: Annotated[
        int, Ge(1), Doc("Control cycles in a row after which a suspect worker is taken out."), Scope.ADVANCED
    ] = 2
    min_in_service: Annotated[
        float, Interval(ge=0, le=1), Doc("Share of the live workers that stays in service; at least one does.")
    ] = 0.5
    first_wait: Annotated[
        Seconds, Ge(0), Doc("Seconds out of service before the first probe; doubled after every failed one.")
    ] = 300.0
    max_wait: Annotated[Seconds, Ge(0), Doc("Maximum seconds between two probes."), Scope.ADVANCED] = 1800.0
    early_release_factor: Annotated[
        float,
        Ge(0),
        Doc(
            "If latency has risen by this factor since a worker was taken out, it is probed without waiting: it may "
            "not have been the cause, or is needed anyway."
        ),
        Scope.ADVANCED,
    ] = 3.0
    probe_share: Annotated[
        float,
        Interval(gt=0, lt=1),
        Doc("Part of a stream that tasks on bad workers still get in real time, to see how these workers do."),
        Scope.PYTHON_ONLY,
    ] = 0.005
    healthy_for: Annotated[
        Seconds,
        Ge(0),
        Doc(
            "Seconds for which a worker must be healthy before it gets its share back in real time; doubled each time "
            "that it is slow again."
        ),
        Scope.PYTHON_ONLY,
    ] = 5.0
    quarantine_after: Annotated[
        Seconds,
        Ge(0),
        Doc(
            "Seconds with a smaller share after which a worker that is still slow is taken out at the next batch in "
            "real time, unless the latency target is met."
        ),
        Scope.PYTHON_ONLY,
    ] = 10.0
    probation: Annotated[
        Seconds, Ge(0), Doc("Seconds for which a worker must be healthy after it was let in."), Scope.PYTHON_ONLY
    ] = 30.0
    max_age: Annotated[
        Seconds, Ge(0), Doc("Seconds after which a measured value is too old to be used."), Scope.PYTHON_ONLY
    ] = 60.0
    horizon: Annotated[
        Seconds | None,
        Ge(0),
        Doc("Seconds ahead of the forecasts that are considered; none to act on what is measured only."),
        Scope.ADVANCED,
    ] = 15.0

    def conflicts(self) -> Iterator[str]:
        """Thresholds and waits out of order."""
        if self.bad < self.slow:
            yield f"bypass.bad must be at least bypass.slow ({self.slow:g}), got {self.bad:g}"
        if self.max_wait < self.first_wait:
            yield f"bypass.max_wait must be at least first_wait ({self.first_wait:g} s), got {self.max_wait:g} s"


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker that is suspect, out of service or on probation.

    Attributes:
        since: When its phase began.
        seen: When the worker was last seen in that phase.
        strikes: Cycles in a row in which it was suspect.
        rerouted: When its share became smaller, in real time; None if it has not.
        ratio: The largest ratio that counts for its share.
        failures: Probes that it has failed.
        shares: Weights of edges from before it got a smaller share.
        latency: The latency that is held, in milliseconds, when the worker was taken out, if known.
    """

    phase: Phase
    since: float
    seen: float = 0.0
    strikes: int = 0
    failures: int = 0
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    latency: float | None = None
    rerouted: float | None = None
    ratio: float = 1.0


WorkerRecords = Mapping[str, WorkerRecord]
