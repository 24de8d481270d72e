"""How the live loop forecasts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from foretide.durations import Seconds
from foretide.errors import ControlSettingError
from foretide.forecasting.load.registry import LAST_VALUE, NUMPY_MODELS
from foretide.forecasting.settings import WorkerNetSettings

LIGHT: tuple[str, ...] = (*NUMPY_MODELS, "neural net")
"""Models that, once fitted elsewhere, go on from their state without fitting anything here."""

SYMPTOMS = ("worker_slowness", "worker_tuple_execution_time_ms", "worker_inbound_queuing_time_ms")
"""What the policies judge workers by."""

_NICEST = 19
_FEWEST_KEY_WINDOWS = 20


def _net() -> WorkerNetSettings:
    return WorkerNetSettings(targets=SYMPTOMS, process_features=frozenset(), keep=720)


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """What is forecast, by what, and when models are fitted again.

    Attributes:
        spouts: Operators whose `arrival_rate` is forecast; None takes every one that has such a figure.
        step: Seconds of a step of the load. About the time between two batches is right: steps without a batch are
            gaps, and of several batches in a step the mean is taken.
        horizons: Seconds ahead that the load is forecast for, multiples of the step.
        models: The models that are mixed, by their names in the catalogue; only those that are light once fitted.
        seasons: Known seasons in seconds, multiples of the step; None lets one be found.
        seed: Of everything random.
        remember: Seconds of load that a model is fitted on, at most.
        least_history: Seconds of load before the first fit; until then models that need none are mixed.
        retrain_every: Seconds between two fits of one series; drift calls for one sooner.
        held_out: Share of what was observed, the latest, that a new model and the one in place are scored on.
        most_held_out: Seconds that it never exceeds.
        training_limit: Seconds after which a fit is given up.
        niceness: How far training stands back behind other processes, 0 to 19.
        workers: Whether workers are forecast by nets (in a process of its own), if their packages are installed.
        worker_step: Seconds of a step of the workers; about the time between two readings.
        workers_least_history: Seconds of workers' figures before a net is trained; until then no net is started.
        workers_retrain_every: Seconds between two trainings of the net.
        keys: Whether the hot keys of joins are forecast by a net (in a process of its own), if its packages are there.
        keys_least_windows: Windows of keys before that net is trained; until then simpler models are asked.
        net: Which net, of which metrics, how far ahead (in steps), and how long it may train.
    """

    spouts: tuple[str, ...] | None = None
    step: Seconds = 1.0
    horizons: tuple[Seconds, ...] = (1.0, 3.0, 10.0, 30.0, 60.0)
    models: tuple[str, ...] = NUMPY_MODELS
    seasons: tuple[Seconds, ...] | None = None
    seed: int = 0
    remember: Seconds = 7200.0
    least_history: Seconds = 120.0
    retrain_every: Seconds = 300.0
    held_out: float = 0.2
    most_held_out: Seconds = 600.0
    training_limit: Seconds = 120.0
    niceness: int = 15
    workers: bool = True
    worker_step: Seconds = 5.0
    workers_least_history: Seconds = 900.0
    workers_retrain_every: Seconds = 3600.0
    keys: bool = True
    keys_least_windows: int = 40
    net: WorkerNetSettings = field(default_factory=_net)

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        self._check_numbers()
        for name, values in (("horizons", self.horizons), ("seasons", self.seasons or (self.step,))):
            if not values or any(each < self.step or not _whole(each / self.step) for each in values):
                raise _refused(name, values, f"give multiples of the step, {self.step:g} s")
        if list(self.horizons) != sorted(set(self.horizons)):
            raise _refused("horizons", self.horizons, "give each once, the nearest first")
        heavy = [name for name in self.models if name not in LIGHT]
        if heavy or not self.models:
            raise _refused("models", self.models, f"choose among {', '.join(LIGHT)}")
        if self.remember < 2 * self.least_history:
            raise _refused("remember", self.remember, "give at least twice least_history")

    def _check_numbers(self) -> None:
        for name in (
            "step", "remember", "least_history", "retrain_every", "most_held_out", "training_limit", "worker_step",
            "workers_least_history", "workers_retrain_every",
        ):  # fmt: skip
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise _refused(name, value, "give seconds, more than 0")
        if not 0 < self.held_out <= 0.5:  # noqa: PLR2004 - half
            raise _refused("held_out", self.held_out, "give a share above 0, at most 0.5")
        if self.keys_least_windows < _FEWEST_KEY_WINDOWS:
            raise _refused("keys_least_windows", self.keys_least_windows, f"give at least {_FEWEST_KEY_WINDOWS}")
        if not 0 <= self.niceness <= _NICEST:
            raise _refused("niceness", self.niceness, "give 0 to 19")

    @property
    def steps_ahead(self) -> tuple[int, ...]:
        """The horizons in steps."""
        return tuple(round(each / self.step) for each in self.horizons)

    @property
    def season_steps(self) -> tuple[int, ...] | None:
        """The seasons in steps; None if one is to be found."""
        return None if self.seasons is None else tuple(round(each / self.step) for each in self.seasons)

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The models in the order of a mix: the last value is always in, and first."""
        return (LAST_VALUE, *(name for name in self.models if name != LAST_VALUE))

    def steps(self, seconds: float) -> int:
        """Seconds as whole steps, at least one."""
        return max(1, round(seconds / self.step))


def _whole(number: float) -> bool:
    return math.isclose(number, round(number), abs_tol=1e-6)


def _refused(name: str, value: object, remedy: str) -> ControlSettingError:
    return ControlSettingError(f"seer: {name} is {value}; {remedy}")
