"""A pipeline in a few figures: whether it is well, its latency against the target, load, cost and last decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foretide.control.target_record import TargetRecord, describe_target, verdict
from foretide.control_folder.folder import ControlStatus
from foretide.formatting import format_duration
from foretide.status.views.decisions import DecisionLine, line_of
from foretide.status.views.seen import STALE_SECONDS, Seen

Health = Literal["starting", "healthy", "warning", "missed", "stale", "ended"]
Mode = Literal["act", "advise", "pause", "none"]


@dataclass(frozen=True, slots=True)
class Overview:
    """A pipeline in a few figures. Latencies are in seconds; what is not known is None.

    Attributes:
        why: What its health rests on, in a sentence.
        busy_cores: Processors that work on tuples, on average.
        mode: What the control loop does; `none` without one.
    """

    id: str
    name: str
    running: bool
    pid: int | None
    health: Health
    why: str
    at: float
    updated: float | None
    batch: int | None
    target: str
    target_seconds: float | None
    quantile: str
    p50: float | None
    p95: float | None
    p99: float | None
    rows_per_second: float | None
    lag: float | None
    executors: int | None
    cores: int | None
    busy_cores: float | None
    mode: Mode
    policies: tuple[str, ...]
    last_decision: DecisionLine | None
    held: tuple[str, ...]
    alarms: tuple[str, ...]
    problems: tuple[str, ...]


def overview(seen: Seen) -> Overview:
    """The overview of a pipeline."""
    control = None if seen.state is None else seen.state.control
    target = control.target if control is not None else None if seen.world is None else seen.world.target
    batch = None if seen.state is None else seen.state.batch
    health, why = _health(seen, control)
    executors, cores = _executors(seen)
    acted = [each for each in seen.decisions if each.chosen or each.by_hand]
    return Overview(
        id=seen.id,
        name=seen.name,
        running=seen.running,
        pid=seen.pid,
        health=health,
        why=why,
        at=seen.at,
        updated=seen.updated if batch is None else max(batch.finished, seen.updated or 0.0),
        batch=_batch(seen),
        target="no latency target" if target is None else describe_target(target),
        target_seconds=None if target is None else target.latency,
        quantile="p99" if target is None else target.quantile,
        p50=_seconds(seen, "latency_p50_ms"),
        p95=_seconds(seen, "latency_p95_ms"),
        p99=_seconds(seen, "latency_p99_ms"),
        rows_per_second=seen.value("input_rows_per_second"),
        lag=seen.value("total_lag"),
        executors=executors,
        cores=cores,
        busy_cores=_busy(seen),
        mode=mode_of(seen),
        policies=() if control is None else control.policies,
        last_decision=line_of(acted[-1]) if acted else None,
        held=_held(seen),
        alarms=() if batch is None else batch.alarms,
        problems=_problems(seen, control),
    )


def mode_of(seen: Seen) -> Mode:
    """What the control loop does."""
    control = None if seen.state is None else seen.state.control
    if control is None or control.ended or not seen.running:
        return "none"
    return "pause" if control.paused else control.mode


def _batch(seen: Seen) -> int | None:
    if seen.state is not None and seen.state.batch is not None:
        return seen.state.batch.batch
    stored = seen.value("batch")
    return None if stored is None else int(stored)


def _held(seen: Seen) -> tuple[str, ...]:
    held = {} if seen.state is None else seen.state.held
    return tuple(f"{subject}: {order.describe()}" for subject, order in held.items() if order.holds(seen.at))


def _problems(seen: Seen, control: ControlStatus | None) -> tuple[str, ...]:
    state = seen.state
    of_batch = () if state is None or state.batch is None else state.batch.problems
    of_loop = () if control is None or control.ended else control.problems
    return (*seen.problems, *(() if state is None else state.problems), *of_batch, *of_loop)


def _health(seen: Seen, control: ControlStatus | None) -> tuple[Health, str]:
    batch = None if seen.state is None else seen.state.batch
    if not seen.running:
        return "ended", "no process on this machine runs it now; this is what it wrote last"
    if batch is None and not seen.samples:
        return "starting", "no batch has finished yet"
    if batch is not None and batch.idle:
        return "starting", "it waits for rows, and none has come yet"
    age = seen.at - max(seen.updated or 0.0, 0.0 if batch is None else batch.finished)
    if age > STALE_SECONDS:
        return "stale", f"nothing was reported for {format_duration(age)}"
    return _health_of_reports(seen, control)


def _health_of_reports(seen: Seen, control: ControlStatus | None) -> tuple[Health, str]:
    batch = None if seen.state is None else seen.state.batch
    record = None if control is None else control.record
    if record is not None and record.held is False:
        return "missed", _missed(record)
    if batch is not None and batch.alarms:
        return "warning", batch.alarms[-1]
    unread = (*seen.problems, *(() if seen.state is None else seen.state.problems))
    if unread:
        return "warning", unread[0]
    return "healthy", "batches are committed" if record is None else verdict(record)


def _missed(record: TargetRecord) -> str:
    cause = "" if record.cause is None else f"; likely cause: {record.cause}"
    return f"{verdict(record)}{cause}"


def _seconds(seen: Seen, metric: str) -> float | None:
    value = seen.value(metric)
    return None if value is None else value / 1000.0


def _executors(seen: Seen) -> tuple[int | None, int | None]:
    """Executors that are alive, and the tasks that they can run at the same time."""
    if seen.world is None or not seen.world.observed.executors:
        return None, None
    alive = len(seen.world.observed.executors)
    return alive, alive * seen.world.setup.cores_per_executor


def _busy(seen: Seen) -> float | None:
    busy, active = seen.of("utilization"), seen.of("active_tasks")
    known = [share * active[name] for name, share in busy.items() if name in active]
    return sum(known) if known else None
