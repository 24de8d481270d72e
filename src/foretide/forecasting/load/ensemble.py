"""An online ensemble: combines the forecasts of its members with weights from their recent errors.

```python
ensemble = make_ensemble(horizons=(1, 3), seasons=(288,))  # from the registry
ensemble.learn(history)
ensemble.forecast(3).mean
ensemble.explain(horizon=3).sentence
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import LEVELS, MEDIAN, Floats, SeriesForecast, State
from foretide.forecasting.history import Mask, checked
from foretide.forecasting.load.base import Issued, LoadModel
from foretide.forecasting.load.counts import SmallCounts
from foretide.forecasting.load.ensemble_weights import Weights, log_pinball
from foretide.forecasting.load.registry import ENSEMBLE


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The weights of one member and its recent average errors. The loss is in logarithms: 0.1 is about 10 %."""

    name: str
    ready: bool
    weight_in_mean: float
    weight_in_quantiles: float
    rmse: float
    loss: float


@dataclass(frozen=True, slots=True)
class EnsembleReport:
    """The members at a horizon, highest weight first, and the reason for the weights in a sentence."""

    horizon: int
    members: tuple[MemberReport, ...]
    mean_falls_back: bool
    quantiles_fall_back: bool
    sentence: str


class _Table(NamedTuple):
    """Forecasts of all members after some steps, and the combined forecasts before any fall-back."""

    means: Floats  # steps x horizons x members
    quantiles: Floats  # steps x horizons x members x levels
    combined_mean: Floats  # steps x horizons
    combined_quantiles: Floats  # steps x horizons x levels


class Ensemble:
    """All members, weighted by their recent errors at each horizon. The first one is the last value, the fall-back."""

    name: ClassVar[str] = ENSEMBLE

    def __init__(self, members: Sequence[LoadModel]) -> None:
        """Combine models that share their horizons and have learnt nothing yet."""
        self.members = tuple(members)
        self.horizons = self.members[0].horizons
        self._weights = Weights(len(self.horizons), len(self.members))
        self._counts = SmallCounts(len(self.horizons), 1 + len(self.members))
        shape = (0, len(self.horizons))
        self._pending = _Table(
            np.empty((*shape, len(self.members))), np.empty((*shape, len(self.members), len(LEVELS))),
            np.empty(shape), np.empty((*shape, len(LEVELS))),
        )  # fmt: skip

    @property
    def count(self) -> int:
        """The number of values learnt."""
        return self.members[0].count

    @property
    def drifts(self) -> int:
        """How often members detected drift, in total."""
        return sum(member.drifts for member in self.members)

    # ---- learning

    def learn(self, seen: Sequence[float | None]) -> None:
        """Learn the next values, oldest first; None is a gap."""
        self.advance(seen)

    def retrain(self) -> None:
        """Fit every member now."""
        for member in self.members:
            member.retrain()

    def advance(self, seen: Sequence[float | None]) -> Issued:
        """Learn, and return the forecasts made after each value, from what was known by then."""
        return self.combine(seen, [member.advance(seen) for member in self.members])

    def combine(self, seen: Sequence[float | None], issued: Sequence[Issued]) -> Issued:
        """Combine the forecasts that the members issued while they learnt `seen`."""
        values, known = checked(seen)
        skipped = len(values) - len(issued[0].mean)
        values, known = values[skipped:], known[skipped:]
        table = self._extended(issued)
        ready = np.stack([each.ready for each in issued], axis=1)
        mean = np.empty((len(values), len(self.horizons)))
        quantiles = np.empty((*mean.shape, len(LEVELS)))
        losses = self._losses(table, values)
        for step in range(len(values)):
            self._check(table, step, values[step], losses[step], known=bool(known[step]))
            mean[step], quantiles[step] = self._forecast_from(table, len(self._pending.means) + step, ready[step])
        self._pending = _Table(*(array[-max(self.horizons) :].copy() for array in table))
        return Issued(mean, quantiles, np.ones(len(values), dtype=np.bool_))

    def _extended(self, issued: Sequence[Issued]) -> _Table:
        """The pending forecasts followed by those just issued, with room for the combined ones."""
        means = np.stack([each.mean for each in issued], axis=2)
        quantiles = np.stack([each.quantiles for each in issued], axis=2)
        before = self._pending
        return _Table(
            np.concatenate([before.means, means]),
            np.concatenate([before.quantiles, quantiles]),
            np.concatenate([before.combined_mean, np.zeros(means.shape[:2])]),
            np.concatenate([before.combined_quantiles, np.zeros((*means.shape[:2], len(LEVELS)))]),
        )

    def _losses(self, table: _Table, values: Floats) -> Floats:
        """Steps x horizons x members: the losses of the forecasts of each value, where there were any."""
        steps = len(self._pending.means) + np.arange(len(values))
        by_horizon = [
            log_pinball(values[:, None], table.quantiles[np.maximum(steps - horizon, 0), place])
            for place, horizon in enumerate(self.horizons)
        ]
        return np.stack(by_horizon, axis=1)

    def _check(self, table: _Table, step: int, value: float, loss: Floats, *, known: bool) -> None:
        """Update the weights with the errors of the forecasts of a value."""
        places = len(self._pending.means) + step - np.array(self.horizons)
        checks = (places >= 0) & known
        places, each = np.maximum(places, 0), np.arange(len(self.horizons))
        self._weights.update(
            checks,
            table.means[places, each] - value,
            loss,
            table.combined_mean[places, each] - value,
            log_pinball(np.full(len(self.horizons), value), table.combined_quantiles[places, each]),
        )
        self._weights.restack()
        if known:
            medians = _all_medians(table.combined_quantiles[places, each], table.quantiles[places, each])
            self._counts.see(value, table.combined_mean[places, each], medians, checks)

    def _forecast_from(self, table: _Table, now: int, ready: Mask) -> tuple[Floats, Floats]:
        """Combine the members' forecasts in a row of the table, store the result there, and apply the fall-back."""
        table.combined_mean[now] = (self._weights.for_mean(ready) * table.means[now]).sum(axis=1)
        table.combined_quantiles[now] = _averaged(self._weights.for_quantiles(ready), table.quantiles[now])
        mean = np.where(self._weights.mean_falls_back(), table.means[now, :, 0], table.combined_mean[now])
        if self._counts.on:
            return mean, self._counts.quantiles(mean, _all_medians(table.combined_quantiles[now], table.quantiles[now]))
        last = self._weights.quantiles_fall_back()[:, None]
        return mean, np.where(last, table.quantiles[now, :, 0], table.combined_quantiles[now])

    # ---- forecasting

    def forecast(self, horizon: int) -> SeriesForecast:
        """A distribution for each of the next `horizon` steps."""
        each = [member.forecast(horizon) for member in self.members]
        means = np.stack([one.mean for one in each], axis=1)
        quantiles = np.stack([one.quantiles for one in each], axis=1)
        for_mean, for_quantiles = (self._at_steps(weights, horizon) for weights in self._in_force())
        mean = (for_mean * means).sum(axis=1)
        if self._counts.on:
            medians = _all_medians(_averaged(for_quantiles, quantiles), quantiles)
            return SeriesForecast(mean, self._counts.quantiles_at(mean, medians, self.horizons))
        return SeriesForecast(mean, _averaged(for_quantiles, quantiles))

    def _in_force(self) -> tuple[Floats, Floats]:
        """The weights of the mean and of the quantiles, after any fall-back."""
        last = np.zeros(len(self.members))
        last[0] = 1.0
        ready, weights = np.array([member.ready for member in self.members]), self._weights
        return (
            np.where(weights.mean_falls_back()[:, None], last, weights.for_mean(ready)),
            np.where(weights.quantiles_fall_back()[:, None], last, weights.for_quantiles(ready)),
        )

    @property
    def weights_of_mean(self) -> Floats:
        """Horizons x members, whether or not the last value is used instead."""
        return self._weights.for_mean(np.array([member.ready for member in self.members]))

    def _at_steps(self, weights: Floats, horizon: int) -> Floats:
        """Weights at every step, in between on a line, beyond the last horizon as there."""
        steps = np.arange(1.0, horizon + 1)
        return np.stack([np.interp(steps, self.horizons, column) for column in weights.T], axis=1)

    # ---- explaining

    def leader(self, horizon: int = 1) -> str:
        """The name of the model with the highest weight at a horizon."""
        return self.explain(horizon).members[0].name

    def explain(self, horizon: int = 1) -> EnsembleReport:
        """The weights at the nearest of the horizons, and the reason for them."""
        place = int(np.argmin(np.abs(np.array(self.horizons) - horizon)))
        for_mean, for_quantiles = self._in_force()
        rmse, loss = np.sqrt(self._weights.recent("square")), self._weights.recent("loss")
        members = [
            MemberReport(
                member.name, member.ready, float(for_mean[place, k]), float(for_quantiles[place, k]),
                float(rmse[place, k]), float(loss[place, k]),
            )
            for k, member in enumerate(self.members)
        ]  # fmt: skip
        ranked = sorted(members, key=lambda one: -(one.weight_in_mean + one.weight_in_quantiles))
        fallen = bool(self._weights.mean_falls_back()[place]), bool(self._weights.quantiles_fall_back()[place])
        sentence = self._sentence(place, tuple(ranked), fallen)
        return EnsembleReport(self.horizons[place], tuple(ranked), *fallen, sentence)

    def _sentence(self, place: int, ranked: tuple[MemberReport, ...], fallen: tuple[bool, bool]) -> str:
        steps = "1 step" if self.horizons[place] == 1 else f"{self.horizons[place]:,} steps"
        if self._weights.too_few_checked()[place]:
            return f"{steps} ahead the last value is used: too few forecasts have been checked."
        if all(fallen):
            return f"{steps} ahead the last value is used: no model has beaten it recently."
        main = [one for one in ranked if one.weight_in_mean + one.weight_in_quantiles >= 0.1][:3]  # noqa: PLR2004 - a tenth
        parts = [
            f"{one.name} ({one.weight_in_mean:.0%} of mean, {one.weight_in_quantiles:.0%} of quantiles)" for one in main
        ]
        last = self._weights.recent("loss")[place, 0]
        gain = self._weights.recent("combined_loss")[place] / last - 1 if last > 0 else 0.0
        only = {(True, False): " The mean is the last value.", (False, True): " Quantiles are the last value's."}
        return (
            f"{steps} ahead {' and '.join(parts)} have the highest weights; the recent loss of the ensemble is "
            f"{gain:+.0%} against the last value.{only.get(fallen, '')}"
        )

    # ---- state

    def state(self) -> State:
        """The states of the members, the weights, and the forecasts still to be checked."""
        return {
            "model": self.name,
            "names": [member.name for member in self.members],
            "members": {str(place): member.state() for place, member in enumerate(self.members)},
            "weights": self._weights.state(),
            "counts": self._counts.state(),
            **self._pending._asdict(),
        }

    def restore(self, state: State) -> None:
        """Continue from a saved state. Raises `ModelFolderError` when it has other members."""
        names = [member.name for member in self.members]
        if list(state["names"]) != names:
            raise ModelFolderError(
                f"the saved ensemble has the members {', '.join(state['names'])}, expected {', '.join(names)}."
            )
        for place, member in enumerate(self.members):
            member.restore(state["members"][str(place)])
        self.horizons = self.members[0].horizons
        self._weights = Weights(len(self.horizons), len(self.members))
        self._weights.restore(state["weights"])
        self._counts = SmallCounts(len(self.horizons), 1 + len(self.members))
        if "counts" in state:  # not in models of earlier releases
            self._counts.restore(state["counts"])
        self._pending = _Table(*(np.array(state[name]) for name in _Table._fields))


def _all_medians(combined: Floats, quantiles: Floats) -> Floats:
    """Rows x medians: that of the ensemble, then those of the members."""
    return np.concatenate([combined[:, [MEDIAN]], quantiles[:, :, MEDIAN]], axis=1)


def _averaged(weights: Floats, quantiles: Floats) -> Floats:
    """Quantiles averaged in logarithms: steps x levels, from weights (steps x members) and steps x members x levels."""
    averaged: Floats = np.expm1((weights[:, :, None] * np.log1p(quantiles)).sum(axis=1))
    return averaged
