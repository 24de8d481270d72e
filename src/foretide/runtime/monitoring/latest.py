"""The newest figure of everything, smoothed where asked for. Many threads write; a snapshot is a copy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key, Snapshot, freeze

if TYPE_CHECKING:
    from foretide.metrics.smoothing import Smoother

_MOST_SUBJECTS = 100_000
_FORGET_AFTER = 3600.0


class LatestValues:
    """Keeps what was measured last. `smoothers` makes one for each series of the metrics it names."""

    def __init__(self, query: str, smoothers: Mapping[str, Callable[[], Smoother]] | None = None) -> None:
        self._query = query
        self._make = smoothers or {}
        self._smoothers: dict[Key, Smoother] = {}
        self._figures: dict[Key, tuple[float, float]] = {}
        self._forecasts: dict[Key, float] = {}
        self._lock = threading.Lock()

    def put(self, samples: Iterable[Sample]) -> None:
        """Take samples in. An older one than what is there is kept too: it may be the clock that jumped back."""
        with self._lock:
            for sample in samples:
                key = (sample.metric, sample.subject)
                self._figures[key] = (self._smoothed(key, sample.value), sample.at)
            if len(self._figures) > _MOST_SUBJECTS:
                self._forget_old()

    def foresee(self, forecasts: Mapping[Key, float]) -> None:
        """Replace what is expected."""
        with self._lock:
            self._forecasts = dict(forecasts)

    def snapshot(self, at: float, problems: tuple[str, ...] = ()) -> Snapshot:
        """Everything as it stands."""
        with self._lock:
            return Snapshot(at, self._query, freeze(self._figures), freeze(self._forecasts), problems)

    def _smoothed(self, key: Key, value: float) -> float:
        make = self._make.get(key[0])
        if make is None:
            return value
        smoother = self._smoothers.get(key)
        if smoother is None:
            smoother = self._smoothers[key] = make()
        return smoother.add(value)

    def _forget_old(self) -> None:
        newest = max(measured for _, measured in self._figures.values())
        self._figures = {key: kept for key, kept in self._figures.items() if kept[1] >= newest - _FORGET_AFTER}
        self._smoothers = {key: smoother for key, smoother in self._smoothers.items() if key in self._figures}
