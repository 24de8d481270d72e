"""How a latency target is kept: what was measured, how long it was held or missed, the likely cause, and remedies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from foretide.control.actions.registry import Restart
from foretide.control.decisions.decision import Decision
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.formatting import format_duration, format_number
from foretide.metrics.alarm_rules import likely_source, waits_for_cores

_BUSY = 0.8
_MAX_GAP_SECONDS = 120.0
"""A longer silence, such as an idle source, is time in which nothing is held or missed."""

_MAX_REMEDIES = 3
OUT_OF_REACH = "out of reach"


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """How a target was kept since the loop began, or since the target was changed.

    Attributes:
        measured: Seconds that tuples took, as measured last; None before the first measurement.
        measured_at: When that was, in seconds since 1970.
        worst: The most seconds that were measured.
        measurements: Measurements that were judged, and `missed` of them above the target. Warm-up is not judged.
        seconds: Time between them, and `missed_seconds` of it above the target.
        missed_since: When the present miss began; None while the target is held.
        held_since: When the target began to be held; None while it is missed.
        warming_up: Whether workers are still too new to be judged.
        cause: Where the trouble probably came from when the target was missed last.
        remedies: What would have helped then.
    """

    target: Target = field(default_factory=Target)
    measured: float | None = None
    measured_at: float | None = None
    worst: float | None = None
    measurements: int = 0
    missed: int = 0
    seconds: float = 0.0
    missed_seconds: float = 0.0
    missed_since: float | None = None
    held_since: float | None = None
    warming_up: bool = False
    cause: str | None = None
    remedies: tuple[str, ...] = ()

    @property
    def held(self) -> bool | None:
        """Whether the target is held at present; None if that is not known, as during warm-up."""
        return None if not self.measurements or self.target.latency is None else self.missed_since is None

    def after(self, world: World, decision: Decision) -> TargetRecord:
        """The record after a control cycle."""
        record = self if self.target == world.target else TargetRecord(world.target)
        found = world.snapshot.figures.get((world.target.metric, world.snapshot.query))
        if world.target.latency is None or found is None:
            return record
        value, at = found
        was_missed = record.missed_since is not None
        young = bool(world.observed.executors) and world.observed.young >= frozenset(world.observed.executors)
        if at != record.measured_at:
            record = record.with_measured(value / 1000.0, at, warming_up=young)
        if record.missed_since is None:
            return record
        cause = likely_source(world.snapshot) or _long_batches(world)
        before = record.remedies if was_missed else ()
        said_before = (each for each in before if OUT_OF_REACH in each)  # policies say it once
        offered = dict.fromkeys((*said_before, *remedies(world, decision)))
        return replace(record, cause=cause, remedies=tuple(offered)[:_MAX_REMEDIES])

    def with_measured(self, seconds: float, at: float, *, warming_up: bool = False) -> TargetRecord:
        """The record with one more measurement, which stands for the time since the one before it."""
        record = replace(self, measured=seconds, measured_at=at, warming_up=warming_up)
        if warming_up or self.target.latency is None:
            return record
        gap = 0.0 if self.measured_at is None or self.warming_up else at - self.measured_at
        gap = gap if 0 < gap <= _MAX_GAP_SECONDS else 0.0
        missed = seconds > self.target.latency
        return replace(
            record,
            worst=seconds if self.worst is None else max(self.worst, seconds),
            measurements=self.measurements + 1,
            missed=self.missed + missed,
            seconds=self.seconds + gap,
            missed_seconds=self.missed_seconds + (gap if missed else 0.0),
            missed_since=(at if self.missed_since is None else self.missed_since) if missed else None,
            held_since=None if missed else at if self.held_since is None else self.held_since,
        )


def describe_target(target: Target) -> str:
    """The target in a few words.

    >>> describe_target(Target(2.0, budget=4))
    'p99 latency below 2 s, at most 4 processors'
    """
    latency = f"{target.quantile} latency below {target.latency:g} s" if target.latency else "no latency target"
    relaxed = f", released below {target.relaxed:g} s" if target.relaxed else ""
    return f"{latency}{relaxed}, {f'at most {target.budget} processors' if target.budget else 'no budget'}"


def verdict(record: TargetRecord) -> str:
    """Whether a target is held, in one line.

    >>> record = TargetRecord(Target(2.0)).with_measured(1.0, at=10.0).with_measured(2.41, at=15.0)
    >>> verdict(record.with_measured(3.02, at=20.0))
    'target p99 below 2 s: MISSED for 5 s, measured 3.02 s; missed in 2 of 3 measurements, 100 % of 10 s'
    """
    target = record.target
    if target.latency is None:
        return "no latency target"
    return f"target {target.quantile} below {format_duration(target.latency)}: {standing(record)}"


def standing(record: TargetRecord) -> str:
    """The same without the target itself.

    >>> standing(TargetRecord(Target(2.0)).with_measured(1.0, at=10.0))
    'held, measured 1 s; never missed in 1 measurement'
    """
    if record.measured is None or record.measured_at is None:
        return "unknown, no latency was measured yet"
    measured = f"measured {format_duration(record.measured)}"
    if not record.measurements:
        return f"warming up, {measured}; the first batches are not judged"
    state, since = ("held", record.held_since) if record.missed_since is None else ("MISSED", record.missed_since)
    lasting = 0.0 if since is None else record.measured_at - since
    state += f" for {format_duration(lasting)}" if lasting > 0 else ""
    warm_up = " (warming up, not judged)" if record.warming_up else ""
    return f"{state}, {measured}{warm_up}; {_shares(record)}"


def _shares(record: TargetRecord) -> str:
    percent = 100 * record.missed_seconds / record.seconds if record.seconds else 0.0
    share = f", {percent:.0f} % of {record.seconds:,.0f} s" if record.seconds else ""
    of = "1 measurement" if record.measurements == 1 else f"{record.measurements:,} measurements"
    return f"missed in {record.missed:,} of {of}{share}" if record.missed else f"never missed in {of}"


def reasons(record: TargetRecord) -> Iterator[str]:
    """Why a target is missed, and what would help, in lines; none while it is held."""
    if record.held is False:
        yield from _explained(record, "likely cause", "what would help")


def past_reasons(record: TargetRecord) -> Iterator[str]:
    """Why a target was missed last, for the end of a run: also where it was held again since."""
    if record.held is False:
        yield from reasons(record)
    elif record.missed:
        yield from _explained(record, "likely cause of the last miss", "what would have helped")


def _explained(record: TargetRecord, cause: str, help_: str) -> Iterator[str]:
    yield f"{cause}: {record.cause or 'not known; no worker, edge or operator stands out'}"
    for remedy in record.remedies:
        yield remedy if remedy.startswith("policy '") else f"{help_}: {remedy}"


def remedies(world: World, decision: Decision) -> Iterator[str]:
    """What would help against a missed target, the most likely first; at most three."""
    found = dict.fromkeys((*_by_loop(decision), *_by_people(world), *_by_capacity(world)))
    yield from list(found)[:_MAX_REMEDIES]


def _by_loop(decision: Decision) -> Iterator[str]:
    """What the loop does, or would do if it were let."""
    for wish in decision.chosen:
        what = wish.action.describe()
        advice = f"'{what}', which mode 'act' would do" if decision.mode == "advise" else f"'{what}', requested now"
        yield advice
    yield from (f"'{done.before.describe()}', which guard '{done.guard}' stops for now: {done.reason}"
                for done in decision.guards if done.after is None)  # fmt: skip
    yield from (problem for problem in decision.problems if "cannot plan" in problem or OUT_OF_REACH in problem)


def _by_people(world: World) -> Iterator[str]:
    for target, holder in world.held.items():
        kind, _, name = target.partition(" ")
        command = {"edge": f"route release {name}", "spout": f"admission release {name}"}.get(kind)
        if command is not None:
            yield f"letting the loop change {kind} '{name}' again (`foretide {command}`); {holder}"
    if world.observed.drained:
        yield f"releasing what is drained: {', '.join(sorted(world.observed.drained))} (`foretide drain --release`)"


def _by_capacity(world: World) -> Iterator[str]:
    """What a person can add: tasks behind edges that are used up, and processors."""
    for operator in world.setup.operators:
        busy = world.snapshot.value("capacity", operator.name)
        full = operator.edge is not None and world.replicas(operator.name) >= operator.pool
        if busy is not None and busy > _BUSY and full:
            more = f"`foretide restart --pool {operator.edge}={2 * operator.pool}`"
            yield f"more tasks for '{operator.name}', whose {operator.pool} are all in use and busy {busy:.0%}: {more}"
    if any(isinstance(each.action, Restart) for each in world.requested):
        yield "the restart that was requested"
    if _long_batches(world) is not None:
        yield "fewer rows a batch (policy 'admission', or `foretide admission set`)"
    if waits_for_cores(world.snapshot) is not None:
        yield "less other work on the machines of the executors, or more cores"
    yield "more or faster executors (`max_executors` of ft.control, or a larger cluster), or a higher target"


def _long_batches(world: World) -> str | None:
    """That a batch alone takes longer than the target, if it does."""
    duration, rows = world.snapshot.value("batch_duration_ms"), world.snapshot.value("input_rows")
    limit = world.target.latency
    if world.setup.mode != "micro-batch" or duration is None or limit is None or duration <= 1000.0 * limit:
        return None
    of = "" if rows is None else f" of {format_number(rows)} rows"
    return f"a batch{of} takes {format_duration(duration / 1000.0)}, longer than the target"
