"""What is forecast live, by which models, and when they are fitted again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, OneOf, Scope
from foretide.durations import Seconds
from foretide.forecasting.load.registry import LAST_VALUE, NUMPY_MODELS
from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.metrics.from_batch import SLOWNESS

LIGHT_MODELS: tuple[str, ...] = (*NUMPY_MODELS, "neural net")
"""Models that, once fitted in another process, are updated here from their state without fitting anything."""


WORKER_TARGETS = (
    SLOWNESS,
    "worker_tuple_execution_time_ms",
    "worker_inbound_queuing_time_ms",
    "worker_outbound_batch_sending_time_ms",
    "worker_cpu_user_percent",
)
"""What the policies compare workers by, where it is known between batches, and the targets of predictive-control."""


def worker_net() -> WorkerNetSettings:
    """The net that forecasts workers live, and that comes with Foretide."""
    return WorkerNetSettings(
        targets=WORKER_TARGETS, portable=True, horizon=3, hidden=16, keep=720, budget=TrainingBudget(kept=3)
    )


@dataclass(frozen=True, slots=True)
class ForecastSettings(Bounded):
    """What is forecast, by which models, and when they are fitted again."""

    section: ClassVar[str] = "forecasts"

    spouts: Annotated[
        tuple[str, ...] | None, Doc("Spouts whose `arrival_rate` is forecast; none for all that have this metric.")
    ] = None
    step: Annotated[
        Seconds,
        Gt(0),
        Doc(
            "Seconds of a step of the load, about the time between two batches: steps without a batch are gaps, and "
            "of several batches in a step the mean is taken."
        ),
        Scope.ADVANCED,
    ] = 1.0
    horizons: Annotated[
        tuple[Seconds, ...], Doc("Seconds ahead for which the load is forecast, multiples of the step.")
    ] = (1.0, 3.0, 10.0, 30.0, 60.0)
    models: Annotated[
        tuple[str, ...], OneOf(LIGHT_MODELS), Doc("Models that are combined; see `foretide forecast`.")
    ] = NUMPY_MODELS
    seasons: Annotated[
        tuple[Seconds, ...] | None,
        Doc("Known seasons in seconds, multiples of the step; none to detect one."),
        Scope.ADVANCED,
    ] = None
    seed: Annotated[int, Doc("Seed of everything random."), Scope.PYTHON_ONLY] = 0
    max_history: Annotated[
        Seconds, Gt(0), Doc("Maximum seconds of load that a model is fitted on."), Scope.PYTHON_ONLY
    ] = 7200.0
    min_history: Annotated[
        Seconds,
        Gt(0),
        Doc("Seconds of load before the first fit; until then models that need no fit are combined."),
        Scope.ADVANCED,
    ] = 120.0
    retrain_every: Annotated[
        Seconds, Gt(0), Doc("Seconds between two fits of one series; drift triggers one sooner."), Scope.ADVANCED
    ] = 300.0
    held_out: Annotated[
        float,
        Interval(gt=0, le=0.5),
        Doc("Share of the history, the latest, on which a new model and the one in use are scored."),
        Scope.PYTHON_ONLY,
    ] = 0.2
    max_held_out: Annotated[Seconds, Gt(0), Doc("Maximum seconds that are held out."), Scope.PYTHON_ONLY] = 600.0
    training_limit: Annotated[Seconds, Gt(0), Doc("Seconds after which a fit is cancelled."), Scope.PYTHON_ONLY] = 120.0
    niceness: Annotated[int, Interval(ge=0, le=19), Doc("Niceness of processes that train."), Scope.PYTHON_ONLY] = 15
    workers: Annotated[
        bool, Doc("Whether workers are forecast by a net in a process of its own, if its packages are installed.")
    ] = True
    worker_step: Annotated[
        Seconds,
        Gt(0),
        Doc("Seconds of a step of the workers. The net that comes along was trained for the default."),
        Scope.PYTHON_ONLY,
    ] = 5.0
    workers_min_history: Annotated[
        Seconds, Gt(0), Doc("Seconds of workers' metrics before a net is trained."), Scope.PYTHON_ONLY
    ] = 900.0
    workers_retrain_every: Annotated[
        Seconds, Gt(0), Doc("Seconds between two trainings of the net."), Scope.PYTHON_ONLY
    ] = 3600.0
    keys: Annotated[
        bool, Doc("Whether hot keys of joins are forecast by a net in a process of its own, if its packages are there.")
    ] = True
    keys_min_windows: Annotated[
        int,
        Ge(20),
        Doc("Windows of keys before that net is trained; until then simpler models are used."),
        Scope.PYTHON_ONLY,
    ] = 40
    pretrained: Annotated[
        bool,
        Doc("Whether nets begin with the weights that come with Foretide, instead of waiting for enough history."),
        Scope.PYTHON_ONLY,
    ] = True
    net: Annotated[
        WorkerNetSettings,
        Doc("Which net forecasts workers, of which metrics, how many steps ahead, and how long it may train."),
        Scope.PYTHON_ONLY,
    ] = field(default_factory=worker_net)

    def conflicts(self) -> Iterator[str]:
        """Horizons and seasons that do not fit the step, no models, and too little history."""
        if not (self.horizons and self.models):
            yield f"forecasts.{'models' if self.horizons else 'horizons'} must not be empty"
        for name, values in (("horizons", self.horizons), ("seasons", self.seasons or (self.step,))):
            if any(each < self.step or not _whole(each / self.step) for each in values):
                yield f"forecasts.{name} must be multiples of the step ({self.step:g} s), got {values}"
        if list(self.horizons) != sorted(set(self.horizons)):
            yield f"forecasts.horizons must be in ascending order, each once, got {self.horizons}"
        if self.max_history < 2 * self.min_history:
            yield f"forecasts.max_history must be at least twice min_history, got {self.max_history:g} s"

    @property
    def steps_ahead(self) -> tuple[int, ...]:
        """The horizons in steps."""
        return tuple(round(each / self.step) for each in self.horizons)

    @property
    def season_steps(self) -> tuple[int, ...] | None:
        """The seasons in steps; None if one is to be detected."""
        return None if self.seasons is None else tuple(round(each / self.step) for each in self.seasons)

    @property
    def member_names(self) -> tuple[str, ...]:
        """The models of the ensemble in order: the last value is always the first of them."""
        return (LAST_VALUE, *(name for name in self.models if name != LAST_VALUE))

    def steps(self, seconds: float) -> int:
        """Seconds as whole steps, at least one."""
        return max(1, round(seconds / self.step))


def _whole(number: float) -> bool:
    return math.isclose(number, round(number), abs_tol=1e-6)
