"""Everything that is known at one instant, as a value: what a control cycle reads.

```python
figure = snapshot.figure("utilization", "extract")
match figure:
    case Known(value, age): ...
    case Unknown(reason): ...
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from foretide.metrics.catalogue.registry import CATALOGUE
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

    Attributes:
        at: The instant, in seconds since 1970.
        query: The name of the query.
        figures: Values and the times they are from, by metric and subject.
        forecasts: Values that are expected, by metric and subject, where something forecasts them.
        problems: What monitoring cannot see at present, in sentences.
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
        return sorted({subject for metric, subject in self.figures if _level(metric) is level})

    def of(self, metric: str) -> dict[str, Known]:
        """A metric for all its subjects."""
        return dict(self._of(metric))

    def _of(self, metric: str) -> Iterator[tuple[str, Known]]:
        for name, subject in self.figures:
            figure = self.figure(name, subject) if name == metric else None
            if isinstance(figure, Known):
                yield subject, figure

    def samples(self) -> Iterator[Sample]:
        """Everything as samples."""
        for (metric, subject), (value, measured) in self.figures.items():
            yield Sample(metric, subject, measured, value)


def _level(metric: str) -> Level | None:
    found = CATALOGUE.get(metric)
    return found.level if found else None


def freeze(figures: Mapping[Key, V]) -> Mapping[Key, V]:
    """A copy that nobody can change: what makes a snapshot cheap however much is measured."""
    return MappingProxyType(dict(figures))
