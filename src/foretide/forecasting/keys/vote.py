"""Whose forecast of key frequencies counts: each window judges every model, and the best of late is asked.

```python
vote = KeyVote()
vote.learn({"a": 7, "b": 3})
vote.hear("key-net", {"a": 0.4, "b": 0.6})  # from a net in another process
vote.best.model, vote.best.shares
```
"""

from __future__ import annotations

from dataclasses import dataclass

from foretide.forecasting.keys.models import KeyEwma, KeyModel, LastWindow, Shares, Window, shares_of

_NEWEST = 0.2
_JUDGED_BEFORE_TRUSTED = 3


@dataclass(frozen=True, slots=True)
class KeyOutlook:
    """The shares that are expected in the next window, and by which model."""

    model: str
    shares: Shares


@dataclass(frozen=True, slots=True)
class _Record:
    """How a model did: its error, smoothed, over so many windows."""

    error: float = 0.0
    windows: int = 0

    def after(self, error: float) -> _Record:
        smooth = self.error + _NEWEST * (error - self.error) if self.windows else error
        return _Record(smooth, self.windows + 1)


class KeyVote:
    """The last window, a smoothed one, and whoever else is heard. Who does worse than another is not asked."""

    def __init__(self) -> None:
        self._models: tuple[KeyModel, ...] = (LastWindow(), KeyEwma())
        self._said: dict[str, Shares] = {}
        self._records: dict[str, _Record] = {}

    def learn(self, window: Window) -> None:
        """Judge by a window what was said of it, and let the models learn it."""
        truth = shares_of(window)
        if not truth:
            return
        for model, said in self._said.items():
            self._records[model] = self._records.get(model, _Record()).after(distance(said, truth))
        for each in self._models:
            each.learn([window])
        self._said = {each.name: each.forecast(1)[0].shares() for each in self._models}

    def hear(self, model: str, shares: Shares) -> None:
        """What another model says of the next window."""
        self._said[model] = shares

    @property
    def best(self) -> KeyOutlook | None:
        """What the best model of late says; None before the first window."""
        trusted = {model: error for model, error in self.errors.items() if model in self._said}
        model = min(trusted, key=lambda name: trusted[name], default=self._models[0].name)
        return KeyOutlook(model, self._said[model]) if self._said else None

    @property
    def errors(self) -> dict[str, float]:
        """The share of rows that each model has of late put to wrong keys, of those that were judged often enough."""
        return {
            model: record.error for model, record in self._records.items() if record.windows >= _JUDGED_BEFORE_TRUSTED
        }


def distance(one: Shares, other: Shares) -> float:
    """The share of rows that would have to change their key to make one of the other.

    >>> distance({"a": 0.75, "b": 0.25}, {"a": 0.5, "c": 0.5})
    0.5
    """
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {**one, **other}) / 2
