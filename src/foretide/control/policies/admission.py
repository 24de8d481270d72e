"""How many rows a batch may take from each spout: Storm's tuner of max-spout-pending, or one for a latency target.

A tuner takes a turn every `period` seconds, on the progress that was committed meanwhile (storm-at-twitter, 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foretide.control.actions.registry import SetAdmission
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import ControlSettingError
from foretide.planning.admission import LatencyState, LatencyTuner, Observation, ProgressState, ProgressTuner


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Which tuner, and how often it takes a turn.

    Attributes:
        tuner: `progress` for the most progress with the fewest rows, `latency` to hold the latency target.
        period: Seconds of a turn; 120 in the paper.
        least: Fewest rows a batch.
        most: Most rows a batch.
    """

    tuner: Literal["progress", "latency"] = "progress"
    period: Seconds = 120.0
    least: int = 100
    most: int = 100_000_000

    def __post_init__(self) -> None:
        if not (self.period > 0 and 1 <= self.least <= self.most) or self.tuner not in {"progress", "latency"}:
            raise ControlSettingError(f"admission: {self} makes no sense; a period above 0 and 1 <= least <= most")


@dataclass(frozen=True, slots=True)
class TunerPeriod:
    """What a spout has shown in the turn so far, and the tuner's own state."""

    began: float
    tuned: ProgressState | LatencyState | None = None
    batch: int | None = None
    rates: tuple[float, ...] = ()
    latencies: tuple[float, ...] = ()
    pending: float = 0.0


@dataclass(frozen=True, slots=True)
class Admission:
    """Tunes the limit of every spout that has one."""

    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    name: str = "admission"

    def start(self) -> Mapping[str, TunerPeriod]:
        """No turn has begun."""
        return {}

    def wish(self, state: Mapping[str, TunerPeriod], world: World) -> tuple[Mapping[str, TunerPeriod], list[Wish]]:
        """Note what each spout shows; at the end of its turn, let the tuner say how much it may take."""
        after: dict[str, TunerPeriod] = {}
        wishes: list[Wish] = []
        for spout in sorted(world.setup.can_admit):
            turn = _noted(state.get(spout, TunerPeriod(world.at)), world, spout)
            if world.at - turn.began >= self.settings.period and turn.rates:
                turn, wish = self._tune(turn, world, spout)
                wishes += [] if wish is None else [wish]
            after[spout] = turn
        return after, wishes

    def _tune(self, turn: TunerPeriod, world: World, spout: str) -> tuple[TunerPeriod, Wish | None]:
        tuner = self._tuner(world)
        if tuner is None:
            return TunerPeriod(world.at), None
        seen = Observation(
            _mean(turn.rates) * self.settings.period,
            _mean(turn.latencies) / 1000.0 if turn.latencies else None,
            turn.pending,
        )
        tuned, verdict = tuner.step(self._in_step(tuner, turn, world, spout), seen)
        expected = Expectation(f"{verdict.action.value} of what is in flight", world.target.metric)
        wish = Wish(self.name, SetAdmission(spout, verdict.limit), verdict.reason, expected)
        return TunerPeriod(world.at, tuned, turn.batch), wish

    def _in_step(self, tuner: ProgressTuner | LatencyTuner, turn: TunerPeriod, world: World, spout: str) -> Any:
        """The tuner's state, begun anew if its limit is not the one in force: somebody else has changed it."""
        limit = world.observed.admission.get(spout)
        if turn.tuned is not None and turn.tuned.limit == limit:
            return turn.tuned
        return tuner.start(max(1, math.ceil(turn.pending)) if limit is None else limit)

    def _tuner(self, world: World) -> ProgressTuner | LatencyTuner | None:
        if self.settings.tuner == "progress":
            return ProgressTuner(min_limit=self.settings.least, max_limit=self.settings.most)
        if world.target.latency is None:
            return None
        return LatencyTuner(world.target.latency, min_limit=self.settings.least, max_limit=self.settings.most)


def _noted(turn: TunerPeriod, world: World, spout: str) -> TunerPeriod:
    """With what the last batch showed of the spout, if that is a new one."""
    rows = world.snapshot.value("processed", spout)
    rate = world.snapshot.value("input_rows_per_second")
    if rows is None or rate is None or (world.batch is not None and world.batch == turn.batch):
        return turn
    every = sum(world.snapshot.value("processed", other) or 0.0 for other in world.setup.spouts)
    latency = world.snapshot.value(world.target.metric)
    return replace(
        turn,
        batch=world.batch,
        rates=(*turn.rates, rate * rows / every if every else 0.0),
        latencies=turn.latencies if latency is None else (*turn.latencies, latency),
        pending=max(turn.pending, rows),
    )


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
