"""Forecasts of key frequencies: the simple models, and a vote among all models.

```python
model = KeyEwma()
model.learn([{"a": 7, "b": 3}, {"a": 5, "b": 5}])  # oldest first; None is a window that was not counted
model.forecast(1)[0].top(20)

vote = KeyVote()
vote.learn({"a": 7, "b": 3})
vote.add("key-net", {"a": 0.4, "b": 0.6})  # from a net in another process
vote.best.model, vote.best.shares
```
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from foretide.errors import BadSeriesError, ForecastError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS, Floats, State

Key = str | int
Window = Mapping[Key, float]
"""The count of each key."""

Shares = dict[Key, float]

SCORED_KEYS = 50
"""The number of keys, the most frequent by the forecast, whose errors are tracked."""

MAX_ERRORS = 2000
"""The number of errors that are remembered."""

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class KeyForecast:
    """The shares expected in one window: keys, most frequent first, their shares, and quantiles (keys x `LEVELS`).

    What the shares lack to 1 belongs to keys that are not listed.
    """

    keys: tuple[Key, ...]
    mean: Floats
    quantiles: Floats

    def shares(self) -> Shares:
        """The share of each key."""
        return dict(zip(self.keys, self.mean.tolist(), strict=True))

    def top(self, count: int) -> tuple[Key, ...]:
        """The keys with the largest shares."""
        return self.keys[:count]

    def heavy(self, threshold: float) -> tuple[Key, ...]:
        """The keys with at least this share."""
        return self.keys[: int((self.mean >= threshold).sum())]

    def interval(self, coverage: float) -> dict[Key, tuple[float, float]]:
        """The central interval of each key's share that should hold the truth with probability `coverage`."""
        low, high = (1 - coverage) / 2, (1 + coverage) / 2
        ends = ((np.interp(low, LEVELS, row), np.interp(high, LEVELS, row)) for row in self.quantiles)
        return {key: (float(one), float(other)) for key, (one, other) in zip(self.keys, ends, strict=True)}


class KeyModel(ABC):
    """A model of key frequencies. Its intervals come from its errors one window ahead.

    Errors are those of square roots of shares, where the noise of counting is alike for rare and frequent keys. Further
    ahead they grow with the square root of the distance. Windows without rows or without counts are skipped.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self._learnt = False
        self._errors: list[float] = []

    def learn(self, seen: Sequence[Window | None]) -> None:
        """Learn windows, oldest first; None is one that was not counted."""
        for window in seen:
            _check(window)
        for window in seen:
            self._learnt = True
            if window is not None and any(window.values()):
                self._note_errors(shares_of(window))
                self._take({key: float(count) for key, count in window.items() if count > 0})

    def forecast(self, horizon: int) -> list[KeyForecast]:
        """The shares of each of the next windows."""
        if horizon < 1:
            raise ForecastError(f"horizon must be at least 1 window, got {horizon}")
        if not self._learnt:
            raise NotEnoughHistoryError("no window has been learnt yet")
        spread = np.quantile(self._errors, LEVELS) if self._errors else np.zeros(len(LEVELS))
        return [_forecast(shares, spread * math.sqrt(far)) for far, shares in enumerate(self._ahead(horizon), start=1)]

    def state(self) -> State:
        """Everything that another process needs to continue from here."""
        return {"model": self.name, "learnt": self._learnt, "errors": np.array(self._errors), **self._own_state()}

    def restore(self, state: State) -> None:
        """Continue from a saved state: the same windows then give the same forecasts."""
        self._learnt, self._errors = bool(state["learnt"]), np.asarray(state["errors"]).tolist()
        self._restore_own(state)

    @abstractmethod
    def _take(self, window: dict[Key, float]) -> None:
        """Learn from one window with rows."""

    @abstractmethod
    def _ahead(self, horizon: int) -> list[Shares]:
        """The shares of the next windows; empty before the first window with rows."""

    @abstractmethod
    def _own_state(self) -> dict[str, Any]: ...

    @abstractmethod
    def _restore_own(self, state: State) -> None: ...

    def _note_errors(self, truth: Shares) -> None:
        """Remember the errors of the last forecast for its most frequent keys."""
        expected = sorted(self._ahead(1)[0].items(), key=_first_by_share)[:SCORED_KEYS]
        errors = [math.sqrt(truth.get(key, 0.0)) - math.sqrt(share) for key, share in expected]
        self._errors = [*self._errors, *errors][-MAX_ERRORS:]


class LastWindow(KeyModel):
    """The shares of the last window."""

    name: ClassVar[str] = "last-window"

    def __init__(self) -> None:
        super().__init__()
        self._shares: Shares = {}

    def _take(self, window: dict[Key, float]) -> None:
        self._shares = shares_of(window)

    def _ahead(self, horizon: int) -> list[Shares]:
        return [self._shares] * horizon

    def _own_state(self) -> dict[str, Any]:
        return {"keys": list(self._shares), "shares": np.array(list(self._shares.values()))}

    def _restore_own(self, state: State) -> None:
        self._shares = dict(zip(state["keys"], np.asarray(state["shares"]).tolist(), strict=True))


class KeyEwma(LastWindow):
    """Exponentially weighted shares, with weight `alpha` for the last window."""

    name: ClassVar[str] = "key-ewma"

    def __init__(self, alpha: float = 0.5) -> None:
        super().__init__()
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha must be above 0 and at most 1, got {alpha}")
        self.alpha = alpha

    def _take(self, window: dict[Key, float]) -> None:
        new, before = shares_of(window), self._shares or shares_of(window)
        smoothed = {
            key: self.alpha * new.get(key, 0.0) + (1 - self.alpha) * before.get(key, 0.0) for key in {**before, **new}
        }
        self._shares = {key: share for key, share in smoothed.items() if share > _NEGLIGIBLE}


def shares_of(window: Window) -> Shares:
    """Counts as shares of their sum; empty for a window without rows.

    >>> shares_of({"a": 3, "b": 1})
    {'a': 0.75, 'b': 0.25}
    """
    largest = max(window.values(), default=0.0)
    if largest <= 0:
        return {}
    total = sum(count / largest for count in window.values())
    return {key: count / largest / total for key, count in window.items() if count > 0}


def _forecast(shares: Shares, spread: Floats) -> KeyForecast:
    ordered = sorted(shares.items(), key=_first_by_share)
    mean = np.array([share for _, share in ordered])
    quantiles = np.clip(np.sqrt(mean)[:, None] + spread, 0.0, 1.0) ** 2
    return KeyForecast(tuple(key for key, _ in ordered), mean, quantiles)


def _first_by_share(entry: tuple[Key, float]) -> tuple[float, str]:
    """Frequent keys first; ties do not depend on the order of arrival."""
    return -entry[1], str(entry[0])


def _check(window: Window | None) -> None:
    if window is None:
        return
    wrong = [key for key, count in window.items() if not math.isfinite(count) or count < 0]
    if wrong:
        raise BadSeriesError(f"the count of key {wrong[0]!r} must be finite and at least 0, got {window[wrong[0]]}")


_NEWEST_WEIGHT = 0.2
_MIN_SCORED_WINDOWS = 3


@dataclass(frozen=True, slots=True)
class BestShares:
    """The shares that the best model expects in the next window, and its name."""

    model: str
    shares: Shares


@dataclass(frozen=True, slots=True)
class _Record:
    """The smoothed error of a model, and the number of windows that it was scored on."""

    error: float = 0.0
    windows: int = 0

    def after(self, error: float) -> _Record:
        smooth = self.error + _NEWEST_WEIGHT * (error - self.error) if self.windows else error
        return _Record(smooth, self.windows + 1)


class KeyVote:
    """Scores the last window, an EWMA and any other forecast that is added, and returns the best recent one."""

    def __init__(self) -> None:
        self._models: tuple[KeyModel, ...] = (LastWindow(), KeyEwma())
        self._forecasts: dict[str, Shares] = {}
        self._records: dict[str, _Record] = {}

    def learn(self, window: Window) -> None:
        """Score the forecasts of a window, and let the models learn it."""
        truth = shares_of(window)
        if not truth:
            return
        for model, shares in self._forecasts.items():
            self._records[model] = self._records.get(model, _Record()).after(distance(shares, truth))
        for each in self._models:
            each.learn([window])
        self._forecasts = {each.name: each.forecast(1)[0].shares() for each in self._models}

    def add(self, model: str, shares: Shares) -> None:
        """Add the forecast of the next window by another model."""
        self._forecasts[model] = shares

    @property
    def best(self) -> BestShares | None:
        """The forecast of the best recent model; None before the first window."""
        scored = {model: error for model, error in self.errors.items() if model in self._forecasts}
        model = min(scored, key=lambda name: scored[name], default=self._models[0].name)
        return BestShares(model, self._forecasts[model]) if self._forecasts else None

    @property
    def errors(self) -> dict[str, float]:
        """The recent share of rows that each model assigned to wrong keys, for models with enough scored windows."""
        return {model: record.error for model, record in self._records.items() if record.windows >= _MIN_SCORED_WINDOWS}


def distance(one: Shares, other: Shares) -> float:
    """The total variation distance: the share of rows that would have to change their key.

    >>> distance({"a": 0.75, "b": 0.25}, {"a": 0.5, "c": 0.5})
    0.5
    """
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {**one, **other}) / 2
