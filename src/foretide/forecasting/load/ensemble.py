"""The mix: asks every model, weighs them by how well they did lately, and can say at any time who is trusted and why.

```python
mix = make_mix(horizons=(1, 3), seasons=(288,))  # from the catalogue
mix.learn(history)
mix.forecast(3).mean
mix.explain(horizon=3).sentence
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast, State
from foretide.forecasting.history import Mask, checked
from foretide.forecasting.load.base import Issued, LoadModel
from foretide.forecasting.load.ensemble_weights import Weights, log_pinball


@dataclass(frozen=True, slots=True)
class MemberReport:
    """How much one model counts. Errors are recent averages; the loss is in logarithms, so 0.1 is about 10 %."""

    name: str
    awake: bool
    weight_in_mean: float
    weight_in_quantiles: float
    rmse: float
    loss: float


@dataclass(frozen=True, slots=True)
class EnsembleReport:
    """Who is trusted at a horizon, most trusted first, and the reason in a sentence."""

    horizon: int
    experts: tuple[MemberReport, ...]
    mean_falls_back: bool
    quantiles_fall_back: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class _Table:
    """Forecasts of all experts after some steps, and what the mix made of them before any fall-back."""

    means: Floats  # steps x horizons x experts
    quantiles: Floats  # steps x horizons x experts x levels
    mixed_mean: Floats  # steps x horizons
    mixed_quantiles: Floats  # steps x horizons x levels


class Ensemble:
    """An online mix of load models. The first of them has to be the last value: it is what the mix falls back to."""

    name: ClassVar[str] = "mix"
    summary: ClassVar[str] = "all models, weighed by their recent errors at each horizon"

    def __init__(self, experts: Sequence[LoadModel]) -> None:
        """The experts must share their horizons, and have learnt nothing yet."""
        self.experts = tuple(experts)
        self.horizons = self.experts[0].horizons
        self._weights = Weights(len(self.horizons), len(self.experts))
        shape = (0, len(self.horizons))
        self._pending = _Table(
            np.empty((*shape, len(self.experts))), np.empty((*shape, len(self.experts), len(LEVELS))),
            np.empty(shape), np.empty((*shape, len(LEVELS))),
        )  # fmt: skip

    @property
    def count(self) -> int:
        """How many values were learnt."""
        return self.experts[0].count

    @property
    def drifts(self) -> int:
        """How often the experts noticed drift, in all."""
        return sum(expert.drifts for expert in self.experts)

    # ---- learning

    def learn(self, seen: Sequence[float | None]) -> None:
        """Take in what came next, oldest first; None is a gap."""
        self.advance(seen)

    def retrain(self) -> None:
        """Fit every expert now."""
        for expert in self.experts:
            expert.retrain()

    def advance(self, seen: Sequence[float | None]) -> Issued:
        """Learn, and say what was forecast after each value: only from what was known by then."""
        return self.combine(seen, [expert.advance(seen) for expert in self.experts])

    def combine(self, seen: Sequence[float | None], issued: Sequence[Issued]) -> Issued:
        """Mix what the experts have just issued while they learnt `seen`."""
        values, known = checked(seen)
        skipped = len(values) - len(issued[0].mean)
        values, known = values[skipped:], known[skipped:]
        table = self._extended(issued)
        awake = np.stack([each.awake for each in issued], axis=1)
        mean, quantiles = (
            np.empty((len(values), len(self.horizons))),
            np.empty((len(values), *table.mixed_quantiles.shape[1:])),
        )
        losses = self._losses(table, values)
        for step in range(len(values)):
            self._check(table, step, values[step], losses[step], known=bool(known[step]))
            mean[step], quantiles[step] = self._forecast_from(table, len(self._pending.means) + step, awake[step])
        self._pending = _tail(table, max(self.horizons))
        return Issued(mean, quantiles, np.ones(len(values), dtype=np.bool_))

    def _extended(self, issued: Sequence[Issued]) -> _Table:
        """What is pending, and behind it what was issued just now, with room for what the mix makes of it."""
        means = np.stack([each.mean for each in issued], axis=2)
        quantiles = np.stack([each.quantiles for each in issued], axis=2)
        before = self._pending
        return _Table(
            np.concatenate([before.means, means]),
            np.concatenate([before.quantiles, quantiles]),
            np.concatenate([before.mixed_mean, np.zeros(means.shape[:2])]),
            np.concatenate([before.mixed_quantiles, np.zeros((*means.shape[:2], len(LEVELS)))]),
        )

    def _losses(self, table: _Table, values: Floats) -> Floats:
        """Steps x horizons x experts: the losses of the forecasts that were made of each value, if there were any."""
        steps = len(self._pending.means) + np.arange(len(values))
        by_horizon = [
            log_pinball(values[:, None], table.quantiles[np.maximum(steps - horizon, 0), place])
            for place, horizon in enumerate(self.horizons)
        ]
        return np.stack(by_horizon, axis=1)

    def _check(self, table: _Table, step: int, value: float, loss: Floats, *, known: bool) -> None:
        """Weigh the experts anew by the forecasts that were made of a value."""
        places = len(self._pending.means) + step - np.array(self.horizons)
        checks = (places >= 0) & known
        places, each = np.maximum(places, 0), np.arange(len(self.horizons))
        self._weights.update(
            checks,
            table.means[places, each] - value,
            loss,
            table.mixed_mean[places, each] - value,
            log_pinball(np.full(len(self.horizons), value), table.mixed_quantiles[places, each]),
        )
        self._weights.restack()

    def _forecast_from(self, table: _Table, now: int, awake: Mask) -> tuple[Floats, Floats]:
        """Mix what the experts say at a place of the table, note it there, and fall back where that is better."""
        table.mixed_mean[now] = (self._weights.for_mean(awake) * table.means[now]).sum(axis=1)
        table.mixed_quantiles[now] = _averaged(self._weights.for_quantiles(awake), table.quantiles[now])
        mean = np.where(self._weights.mean_falls_back(), table.means[now, :, 0], table.mixed_mean[now])
        last = self._weights.quantiles_fall_back()[:, None]
        return mean, np.where(last, table.quantiles[now, :, 0], table.mixed_quantiles[now])

    # ---- forecasting

    def forecast(self, horizon: int) -> SeriesForecast:
        """A distribution for each of the next `horizon` steps."""
        each = [expert.forecast(horizon) for expert in self.experts]
        means = np.stack([one.mean for one in each], axis=1)
        quantiles = np.stack([one.quantiles for one in each], axis=1)
        for_mean, for_quantiles = (self._at_steps(weights, horizon) for weights in self._in_force())
        return SeriesForecast((for_mean * means).sum(axis=1), _averaged(for_quantiles, quantiles))

    def _awake(self) -> Mask:
        return np.array([expert.awake for expert in self.experts])

    def _in_force(self) -> tuple[Floats, Floats]:
        """The weights of the mean and of the quantiles, after any fall-back."""
        last = np.zeros(len(self.experts))
        last[0] = 1.0
        awake, weights = self._awake(), self._weights
        return (
            np.where(weights.mean_falls_back()[:, None], last, weights.for_mean(awake)),
            np.where(weights.quantiles_fall_back()[:, None], last, weights.for_quantiles(awake)),
        )

    def _at_steps(self, weights: Floats, horizon: int) -> Floats:
        """Weights at every step, in between on a line, beyond the last horizon as there."""
        steps = np.arange(1.0, horizon + 1)
        return np.stack([np.interp(steps, self.horizons, column) for column in weights.T], axis=1)

    # ---- saying why

    def trusted(self, horizon: int = 1) -> str:
        """The name of the model that counts most at a horizon."""
        return self.explain(horizon).experts[0].name

    def explain(self, horizon: int = 1) -> EnsembleReport:
        """Who counts how much at the nearest horizon that is watched, and why."""
        place = int(np.argmin(np.abs(np.array(self.horizons) - horizon)))
        for_mean, for_quantiles = self._in_force()
        rmse, loss = np.sqrt(self._weights.recent("square")), self._weights.recent("loss")
        experts = [
            MemberReport(
                expert.name, expert.awake, float(for_mean[place, k]), float(for_quantiles[place, k]),
                float(rmse[place, k]), float(loss[place, k]),
            )
            for k, expert in enumerate(self.experts)
        ]  # fmt: skip
        ranked = sorted(experts, key=lambda one: -(one.weight_in_mean + one.weight_in_quantiles))
        fallen = bool(self._weights.mean_falls_back()[place]), bool(self._weights.quantiles_fall_back()[place])
        sentence = self._sentence(place, tuple(ranked), fallen)
        return EnsembleReport(self.horizons[place], tuple(ranked), *fallen, sentence)

    def _sentence(self, place: int, ranked: tuple[MemberReport, ...], fallen: tuple[bool, bool]) -> str:
        steps = "1 step" if self.horizons[place] == 1 else f"{self.horizons[place]} steps"
        if self._weights.young()[place]:
            return f"{steps} ahead the last value is used: too few forecasts were checked to trust another."
        if all(fallen):
            return f"{steps} ahead the last value is used: nothing has beaten it lately."
        most = [one for one in ranked if one.weight_in_mean + one.weight_in_quantiles >= 0.1][:3]  # noqa: PLR2004 a tenth
        parts = [
            f"{one.name} ({one.weight_in_mean:.0%} of mean, {one.weight_in_quantiles:.0%} of quantiles)" for one in most
        ]
        last = self._weights.recent("loss")[place, 0]
        gain = self._weights.recent("mixed_loss")[place] / last - 1 if last > 0 else 0.0
        only = {(True, False): " The mean is the last value.", (False, True): " Quantiles are the last value's."}
        return (
            f"{steps} ahead {' and '.join(parts)} count most; lately the loss of the mix is {gain:+.0%} against the "
            f"last value.{only.get(fallen, '')}"
        )

    # ---- keeping

    def state(self) -> State:
        """The experts' states, the weights, and what is still to be checked."""
        return {
            "model": self.name,
            "names": [expert.name for expert in self.experts],
            "experts": {str(place): expert.state() for place, expert in enumerate(self.experts)},
            "weights": self._weights.state(),
            "means": self._pending.means,
            "quantiles": self._pending.quantiles,
            "mixed_mean": self._pending.mixed_mean,
            "mixed_quantiles": self._pending.mixed_quantiles,
        }

    def restore(self, state: State) -> None:
        """Go on from a kept state. Raises `ModelFolderError` when it is of other experts."""
        names = [expert.name for expert in self.experts]
        if list(state["names"]) != names:
            raise ModelFolderError(f"the state is of a mix of {', '.join(state['names'])}, not of {', '.join(names)}.")
        for place, expert in enumerate(self.experts):
            expert.restore(state["experts"][str(place)])
        self.horizons = self.experts[0].horizons
        self._weights = Weights(len(self.horizons), len(self.experts))
        self._weights.restore(state["weights"])
        arrays = (np.array(state[name]) for name in ("means", "quantiles", "mixed_mean", "mixed_quantiles"))
        self._pending = _Table(*arrays)


def _averaged(weights: Floats, quantiles: Floats) -> Floats:
    """Quantiles averaged in logarithms: steps x levels, from weights (steps x experts) and steps x experts x levels."""
    averaged: Floats = np.expm1((weights[:, :, None] * np.log1p(quantiles)).sum(axis=1))
    return averaged


def _tail(table: _Table, size: int) -> _Table:
    return _Table(
        *(array[-size:].copy() for array in (table.means, table.quantiles, table.mixed_mean, table.mixed_quantiles))
    )
