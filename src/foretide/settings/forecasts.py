"""What is forecast live, by which models, and when they are fitted again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, OneOf, Scope
from foretide.durations import Seconds
from foretide.forecasting.events import problems_of
from foretide.forecasting.load.registry import LAST_VALUE, MODELS, NUMPY_MODELS
from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.metrics.from_batch import SLOWNESS


@dataclass(frozen=True, slots=True)
class Resolution:
    """A coarser step in which the load is forecast farther ahead, all in seconds.

    Attributes:
        step: Seconds of a step.
        horizons: Seconds ahead, beyond those of the finer steps.
        seasons: Seasons that the load is expected to have.
        max_history: The history that a model is fitted on: at least two of the longest season.
        min_history: The history before the first fit; until then nothing is forecast in this step.
        retrain_every: Between two fits.
        max_held_out: The latest part, on which a new model is scored.
    """

    step: Seconds
    horizons: tuple[Seconds, ...]
    seasons: tuple[Seconds, ...]
    max_history: Seconds
    min_history: Seconds
    retrain_every: Seconds
    max_held_out: Seconds


_TRAINED_STEPS = 20_000
"""As many as a trained model remembers."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
LONGER: tuple[Resolution, ...] = (
    Resolution(
        _MINUTE, (120.0, 300.0, 600.0, 1800.0, _HOUR), (_DAY,), 4 * _DAY, 2 * _HOUR, _HOUR / 2, 6 * _HOUR
    ),
    Resolution(
        _HOUR, tuple(_HOUR * hours for hours in (2, 4, 8, 16, 36, 84, 172)), (_DAY, 7 * _DAY), 56 * _DAY, 2 * _DAY,
        6 * _HOUR, 10 * _DAY,
    ),
)  # fmt: skip
"""Minutes for an hour ahead, and hours for a week.

Beyond a day no horizon is a whole number of days: there the last value is as good as a model of the day, and the
weights that models earn would not hold for the hours in between.
"""


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
        tuple[str, ...],
        OneOf(MODELS),
        Doc(
            "Models that are combined; see `foretide forecast`. Those beyond the default need `foretide[forecast]`, "
            "and stay only if they are worth the CPU time of their fits."
        ),
    ] = NUMPY_MODELS
    min_gain: Annotated[
        float,
        Ge(0),
        Doc(
            "Share of the error that a model must save for each CPU second of its fit; one that saves less is left out "
            "of the next seven fits."
        ),
        Scope.PYTHON_ONLY,
    ] = 0.001
    seasons: Annotated[
        tuple[Seconds, ...] | None,
        Doc("Known seasons in seconds, multiples of the step; none to detect one."),
        Scope.ADVANCED,
    ] = None
    longer: Annotated[
        tuple[Resolution, ...],
        Doc("Coarser steps beside `step`, for horizons beyond its own, in ascending order."),
        Scope.PYTHON_ONLY,
    ] = LONGER
    history: Annotated[
        tuple[str, ...],
        Doc(
            "Earlier load to learn from at the start: files (CSV, Parquet, the JSON of a Prometheus range query) "
            "and stores."
        ),
    ] = ()
    model: Annotated[
        str | None, Doc("Folder of a model of `foretide train`, for a pipeline with one source; its step is used.")
    ] = None
    events: Annotated[
        tuple[str, ...],
        Doc("Announced events, each such as `2026-11-27 18:00 1h x3`: begin, length, and the load over the usual one."),
    ] = ()
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
    training_limit: Annotated[Seconds, Gt(0), Doc("Seconds after which a fit is cancelled."), Scope.PYTHON_ONLY] = 240.0
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
        """Horizons and seasons that do not fit the step, no models, too little history, and events that are none."""
        yield from map("forecasts.{}".format, problems_of(self.events))
        if not (self.horizons and self.models):
            yield f"forecasts.{'models' if self.horizons else 'horizons'} must not be empty"
        for name, values in (("horizons", self.horizons), ("seasons", self.seasons or (self.step,))):
            if any(each < self.step or not _whole(each / self.step) for each in values):
                yield f"forecasts.{name} must be multiples of the step ({self.step:g} s), got {values}"
        if list(self.horizons) != sorted(set(self.horizons)):
            yield f"forecasts.horizons must be in ascending order, each once, got {self.horizons}"
        if self.max_history < 2 * self.min_history:
            yield f"forecasts.max_history must be at least twice min_history, got {self.max_history:g} s"

    def at(self, resolution: Resolution) -> ForecastSettings:
        """The settings of a coarser step."""
        return replace(
            self, step=resolution.step, horizons=resolution.horizons, seasons=resolution.seasons, longer=(),
            max_history=resolution.max_history, min_history=resolution.min_history,
            retrain_every=resolution.retrain_every, max_held_out=resolution.max_held_out,
        )  # fmt: skip

    def of_trained(self, step: float, horizons: Sequence[int]) -> ForecastSettings:
        """The settings of a model that was trained elsewhere, with its horizons in steps."""
        ahead, longest = tuple(step * each for each in horizons), max(_TRAINED_STEPS * step, self.max_history)
        return replace(self, step=step, horizons=ahead, seasons=None, longer=(), max_history=longest)

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
