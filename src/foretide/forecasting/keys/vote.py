"""The choice among forecasts of key frequencies: each window scores every model, and the best recent one is used.

```python
vote = KeyVote()
vote.learn({"a": 7, "b": 3})
vote.add("key-net", {"a": 0.4, "b": 0.6})  # from a net in another process
vote.best.model, vote.best.shares
```
"""

from __future__ import annotations

from dataclasses import dataclass

from foretide.forecasting.keys.models import KeyEwma, KeyModel, LastWindow, Shares, Window, shares_of

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
