"""Rows that a batch may take from each spout: Storm's tuner of max-spout-pending, or one for a latency target.

A tuner decides every `period` seconds, from the progress that was committed in the meantime (storm-at-twitter, 3.3). It
goes on from the limit in force, whatever became of its last wish. A spout without a limit begins with what batches take
of it, or with what arrives between two batches if that is more. A spout whose limit takes a restart (Kafka) is left
alone: a tuner finds its limit in many steps, and each would cost a restart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import SetAdmission
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.setup import Setup
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.planning.admission import LatencyState, LatencyTuner, Observation, ProgressState, ProgressTuner


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
    """

    start: float
    state: ProgressState | LatencyState | None = None
    limit: int = 0
    batch: int | None = None
    rates: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()
    pending: float = 0.0
    arrived: float = 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    """Tunes the limit of every spout that has one."""

    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    name: str = "admission"

    @staticmethod
    def left_alone(setup: Setup) -> str | None:
        """Which spouts are not tuned, and what to do about it."""
        spouts = ", ".join(sorted(setup.admit_by_restart))
        if not spouts:
            return None
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
        return after, wishes

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
