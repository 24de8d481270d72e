"""Everything that is known at one instant, as a value: what a control cycle reads. And the smoothing of figures.

```python
figure = snapshot.figure("utilization", "extract")
match figure:
    case Known(value, age): ...
    case Unknown(reason): ...
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeVar

from foretide.errors import SettingsError
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level, Sample

Key = tuple[str, str]
"""A metric and its subject."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Known:
    """A figure, smoothed where smoothing is on, and how many seconds ago it was measured."""

    value: float
    age: float


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no figure. A state of its own: neither 0 nor NaN."""

    reason: str = "not yet known"


Figure = Known | Unknown


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All levels at one instant.

    `figures` are values and the times they are from (seconds since 1970), by metric and subject; `forecasts` are values
    that are expected. `problems` say what monitoring cannot see at present.
    """

    at: float
    query: str
    figures: Mapping[Key, tuple[float, float]] = field(default_factory=dict)
    forecasts: Mapping[Key, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def figure(self, metric: str, subject: str | None = None) -> Figure:
        """A figure and its age, or that it is not known. The subject is the query itself by default."""
        found = self.figures.get((metric, self.query if subject is None else subject))
        if found is None:
            return Unknown() if metric in CATALOGUE else Unknown(f"'{metric}' is not in the catalogue")
        value, measured = found
        return Known(value, max(0.0, self.at - measured))

    def value(self, metric: str, subject: str | None = None, *, within: float | None = None) -> float | None:
        """The bare value, None when it is not known or older than `within` seconds."""
        figure = self.figure(metric, subject)
        if isinstance(figure, Unknown) or (within is not None and figure.age > within):
            return None
        return figure.value

    def subjects(self, level: Level) -> list[str]:
        """Everything of a level that was ever measured, in order."""
        of_level = {name for name, metric in CATALOGUE.items() if metric.level is level}
        return sorted({subject for metric, subject in self.figures if metric in of_level})

    def of(self, metric: str) -> dict[str, Known]:
        """A metric for all its subjects."""
        return {
            subject: Known(value, max(0.0, self.at - measured))
            for (name, subject), (value, measured) in self.figures.items()
            if name == metric
        }

    def samples(self) -> Iterator[Sample]:
        """Everything as samples."""
        for (metric, subject), (value, measured) in self.figures.items():
            yield Sample(metric, subject, measured, value)


def freeze(figures: Mapping[Key, V]) -> Mapping[Key, V]:
    """A copy that nobody can change: what makes a snapshot cheap however much is measured."""
    return MappingProxyType(dict(figures))


# ---- smoothing (DRS, section V): let the past fade, or average a window


class Smoother(Protocol):
    """Takes measurements in, one by one, and gives the smoothed value back."""

    def add(self, value: float) -> float:
        """The smoothed value, this measurement included."""


@dataclass
class Fading:
    """D(n) = alpha D(n-1) + (1 - alpha) d(n): alpha weighs the PAST. It starts at the first measurement.

    >>> fading = Fading(alpha=0.75)
    >>> [fading.add(value) for value in (8.0, 16.0)]
    [8.0, 10.0]
    """

    alpha: float = 0.5
    _smoothed: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise SettingsError(f"alpha weighs the past and lies in [0, 1), not at {self.alpha:g}")

    def add(self, value: float) -> float:
        """The smoothed value, this measurement included."""
        before = value if self._smoothed is None else self._smoothed
        self._smoothed = self.alpha * before + (1 - self.alpha) * value
        return self._smoothed


@dataclass
class Window:
    """The mean of the last w measurements; of those there are, until there are w."""

    size: int = 6
    _values: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingsError(f"a window holds at least one measurement, not {self.size}")

    def add(self, value: float) -> float:
        """The smoothed value, this measurement included."""
        self._values.append(value)
        while len(self._values) > self.size:
            self._values.popleft()
        return sum(self._values) / len(self._values)
