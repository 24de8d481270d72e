"""Rows that a batch may take from each spout: Storm's tuner of max-spout-pending, or one for a latency target.

A tuner decides every `period` seconds, from the progress that was committed in the meantime (storm-at-twitter, 3.3). It
goes on from the limit in force, whatever became of its last wish. A spout without a limit begins with what batches take
of it, or with what arrives between two batches if that is more.

Where a limit takes a restart (Kafka), Storm's tuner is not used: it finds its limit in many steps, and each would cost
a restart. The latency tuner cuts such a limit in one step, and only if what that saves is more than what the restart
costs; see `_restart`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import Restart, SetAdmission
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.setup import Setup
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.formatting import format_duration
from foretide.planning.admission import (
    LatencyState,
    LatencyTuner,
    Observation,
    ProgressState,
    ProgressTuner,
    TunerMove,
)


@dataclass(frozen=True, slots=True)
class AdmissionSettings(Bounded):
    """Which tuner, and how often it decides."""

    section: ClassVar[str] = "admission"

    tuner: Annotated[
        Literal["progress", "latency"],
        Doc("`progress` for the highest progress with the fewest rows, `latency` to hold the latency target."),
    ] = "progress"
    period: Annotated[Seconds, Gt(0), Doc("Seconds between two decisions of the tuner; 120 in the paper.")] = 120.0
    min_rows: Annotated[int, Ge(1), Doc("Minimum rows per batch."), Scope.PYTHON_ONLY] = 100
    max_rows: Annotated[int, Ge(1), Doc("Maximum rows per batch."), Scope.PYTHON_ONLY] = 100_000_000
    useful_for: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds for which a limit that takes a restart is expected to be useful; the least between two of them."),
        Scope.PYTHON_ONLY,
    ] = 600.0

    def conflicts(self) -> Iterator[str]:
        """A maximum below the minimum."""
        if self.max_rows < self.min_rows:
            yield f"admission.max_rows must be at least min_rows ({self.min_rows}), got {self.max_rows}"


@dataclass(frozen=True, slots=True)
class TunerPeriod:
    """What was measured of a spout in the current period, and the tuner's own state.

    Attributes:
        limit: The limit in force when the tuner decided last.
        pending: Most rows that a batch took.
        arrived: Most rows that arrived between two batches.
        restarted: When a restart for its limit was wished for last.
    """

    start: float
    state: ProgressState | LatencyState | None = None
    limit: int = 0
    batch: int | None = None
    rates: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()
    pending: float = 0.0
    arrived: float = 0.0
    restarted: float = -math.inf


@dataclass(frozen=True, slots=True)
class Admission:
    """Tunes the limit of every spout that has one."""

    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    name: str = "admission"

    def left_alone(self, setup: Setup) -> str | None:
        """Which spouts are not tuned step by step, and what to do about it."""
        spouts = ", ".join(sorted(setup.admit_by_restart))
        if not spouts:
            return None
        if self.settings.tuner == "latency":
            return (
                f"another admission limit of {spouts} takes a restart: it is set only where the latency that it saves "
                f"within {format_duration(self.settings.useful_for)} is more than the restart costs"
            )
        return (
            f"the admission limit of {spouts} is not tuned: each step would cost a restart; set it once with "
            "`foretide admission set SPOUT ROWS --restart`"
        )

    def start(self) -> Mapping[str, TunerPeriod]:
        """No period has begun."""
        return {}

    def wish(self, state: Mapping[str, TunerPeriod], world: World) -> tuple[Mapping[str, TunerPeriod], list[Wish]]:
        """Record the metrics of each spout; at the end of its period, ask the tuner for its limit."""
        after: dict[str, TunerPeriod] = {}
        wishes: list[Wish] = []
        for spout in sorted(world.setup.can_admit):
            period = _updated(state.get(spout, TunerPeriod(world.at)), world, spout)
            if world.at - period.start >= self.settings.period and period.rates:
                period, wish = self._tune(period, world, spout)
                wishes += [] if wish is None else [wish]
            after[spout] = period
        for spout in sorted(world.setup.admit_by_restart) if self.settings.tuner == "latency" else ():
            period = _updated(state.get(spout, TunerPeriod(world.at)), world, spout)
            if world.at - period.start >= self.settings.period and period.latencies:
                restart = self._restart(period, world, spout)
                wishes += [] if restart is None else [restart]
                period = TunerPeriod(world.at, restarted=period.restarted if restart is None else world.at)
            after[spout] = period
        return after, wishes

    def _restart(self, period: TunerPeriod, world: World, spout: str) -> Wish | None:
        """A restart with a lower limit, if it pays.

        Each tuple of the time in which the limit is useful is faster by what latency is above the target. The restart
        delays what is in flight by its length, and what arrives meanwhile by half of it and again while it is worked
        off. Where more arrives than is processed, a lower limit makes tuples wait in the topic instead: it never pays.
        """
        goal, latency = world.target.latency, _mean(period.latencies) / 1000.0
        arrival = world.snapshot.value("arrival_rate", spout)
        if goal is None or arrival is None or arrival > _mean(period.rates):
            return None
        tuner = LatencyTuner(goal, max_cut=1.0, min_limit=self.settings.min_rows, max_limit=self.settings.max_rows)
        limit = world.observed.admission.get(spout) or math.ceil(max(period.pending, period.arrived, 1.0))
        _, step = tuner.step(tuner.start(limit), Observation(_mean(period.rates), latency, period.pending))
        pause, useful = Restart.cost.seconds, self.settings.useful_for
        gain, cost = (latency - goal) * useful, pause * (latency + pause)
        if step.action is not TunerMove.DECREASE or gain <= cost or world.at - period.restarted < useful:
            return None
        reason = (
            f"{step.reason}; it pays: {gain:,.0f} s saved for each tuple a second within {format_duration(useful)}, "
            f"against {cost:,.0f} s for a restart of {format_duration(pause)}"
        )
        expected = Expectation(f"latency of about {format_duration(goal)}", world.target.metric, goal * 1000)
        return Wish(
            self.name, Restart(f"another admission limit of {spout}", admission={spout: step.limit}), reason, expected
        )

    def _tune(self, period: TunerPeriod, world: World, spout: str) -> tuple[TunerPeriod, Wish | None]:
        tuner = self._tuner(world)
        if tuner is None:
            return TunerPeriod(world.at), None
        observation = Observation(
            _mean(period.rates) * self.settings.period,
            _mean(period.latencies) / 1000.0 if period.latencies else None,
            period.pending,
        )
        begun = self._tuner_state(tuner, period, world, spout)
        state, step = tuner.step(begun, observation)
        expected = Expectation(f"{step.action.value} of what is in flight", world.target.metric)
        wish = Wish(self.name, SetAdmission(spout, step.limit), step.reason, expected)
        return TunerPeriod(world.at, state, begun.limit, period.batch), wish

    def _tuner_state(self, tuner: ProgressTuner | LatencyTuner, period: TunerPeriod, world: World, spout: str) -> Any:
        """The tuner's state at the limit in force: a guard may have stopped its last wish, or somebody changed it."""
        limit = world.observed.admission.get(spout)
        if limit is None:
            return tuner.start(max(1, math.ceil(max(period.pending, period.arrived))))
        if isinstance(tuner, ProgressTuner) and isinstance(period.state, ProgressState):
            return tuner.resume(period.state, period.limit, limit)
        if isinstance(tuner, LatencyTuner) and isinstance(period.state, LatencyState):
            return tuner.resume(period.state, period.limit, limit)
        return tuner.start(limit)

    def _tuner(self, world: World) -> ProgressTuner | LatencyTuner | None:
        if self.settings.tuner == "progress":
            return ProgressTuner(min_limit=self.settings.min_rows, max_limit=self.settings.max_rows)
        if world.target.latency is None:
            return None
        return LatencyTuner(world.target.latency, min_limit=self.settings.min_rows, max_limit=self.settings.max_rows)


def _updated(period: TunerPeriod, world: World, spout: str) -> TunerPeriod:
    """With the spout's metrics of the last batch, if that is a new one."""
    rows = world.snapshot.value("processed", spout)
    rate = world.snapshot.value("input_rows_per_second")
    if rows is None or rate is None or (world.batch is not None and world.batch == period.batch):
        return period
    total = sum(world.snapshot.value("processed", other) or 0.0 for other in world.setup.spouts)
    between = max((world.snapshot.value("input_rows") or 0.0) / rate if rate else 0.0, world.setup.trigger)
    arrived = (world.snapshot.value("arrival_rate", spout) or 0.0) * between
    latency = world.snapshot.value(world.target.metric)
    return replace(
        period,
        batch=world.batch,
        rates=(*period.rates, rate * rows / total if total else 0.0),
        latencies=period.latencies if latency is None else (*period.latencies, latency),
        pending=max(period.pending, rows),
        arrived=max(period.arrived, arrived),
    )


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
