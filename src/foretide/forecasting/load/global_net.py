"""One net for all series, after NHITS: it sees a series at several rates and forecasts few knots, a line in between.

It comes trained on generated series (`python -m benchmarks.forecasting_global`), so it forecasts from the first value
on, and each fit tunes a copy of it to its own series. Its inputs and outputs are logarithms less the recent level, in
units of the recent spread, at the same places for every series: neither size, step, seasons nor horizons change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.history import windows
from foretide.forecasting.load.lags import LEVEL, level_of
from foretide.forecasting.load.neural import Layers, NeuralNet

FOLDER = Path(__file__).parent.parent / "weights" / "load"
KNOTS = (1, 2, 3, 6, 12, 24, 48)
"""Steps ahead that the net forecasts."""

_RATES = ((1, 16), (4, 12), (16, 14))
"""Values in an average, and the number of averages: the last 16 values, 48 by fours, 224 by sixteens."""

_REACH = max(size * count for size, count in _RATES)
_SPREAD = 96
_MIN_UNIT = 0.01
_SEASONS = 2
"""The shortest and the longest season are seen."""


class GlobalNet(NeuralNet):
    """A net that comes trained on generated series, tuned to its own series by each fit."""

    name: ClassVar[str] = "global net"
    rate = 1e-3
    epochs = 30

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        found = trained()
        if found is not None:
            layers, self._scale = found
            weights, bias = layers[-1]
            share = _between(KNOTS, self.horizons)
            self._layers = (*layers[:-1], (share @ weights, share @ bias))

    @property
    def reach(self) -> int:
        """The slowest rate, or the longest season with the level and the knots around it."""
        return max(_REACH, *(season + LEVEL + KNOTS[-1] for season in self._seasons), 0)

    def features(self, logs: Floats, level: Floats) -> Floats:
        """Rows x columns: averages at each rate, and each season; the last column is the unit."""
        unit = _MIN_UNIT + logs[:, -_SPREAD:].std(axis=1)
        rates = [
            logs[:, -size * count :].reshape(len(logs), count, size).mean(axis=2) - level[:, None]
            for size, count in _RATES
        ]
        seen = [self._season(logs, season) for season in self._seen_seasons()]
        none = [np.zeros((len(logs), len(KNOTS) + 1))] * (_SEASONS - len(seen))
        relative = np.concatenate([*rates, *seen, *none], axis=1) / unit[:, None]
        there = np.tile([1.0] * len(seen) + [0.0] * len(none), (len(logs), 1))
        return np.concatenate([relative, there, unit[:, None]], axis=1)

    def _seen_seasons(self) -> list[int]:
        return sorted({min(self._seasons), max(self._seasons)}) if self._seasons else []

    def _season(self, logs: Floats, season: int) -> Floats:
        """What came at each knot and now, one season earlier or as many as needed, less the level at that time."""
        columns = []
        for knot in (0, *KNOTS):
            back = max(1, -(-knot // season)) * season
            around = range(knot - knot // 6, knot + knot // 6 + 1)
            lags = [lag for lag in (back - ahead for ahead in around) if lag >= 0]
            columns.append(logs[:, [-1 - lag for lag in lags]].mean(axis=1))
        end = logs.shape[1] - season
        relative: Floats = np.column_stack(columns) - logs[:, end - LEVEL : end].mean(axis=1)[:, None]
        return relative

    def feature_names(self) -> list[str]:
        """The columns of `features`, in words."""
        rates = [f"average log of {size} from {size * (count - 1 - at)} back, less level" for size, count in _RATES
                 for at in range(count)]  # fmt: skip
        seasons = [f"season {which + 1}, {knot} ahead" for which in range(_SEASONS) for knot in (0, *KNOTS)]
        return [*rates, *seasons, *(f"season {which + 1} is known" for which in range(_SEASONS)), "recent spread"]

    def regress(self, features: Floats, targets: Floats) -> None:
        """Tune, in units of the recent spread."""
        super().regress(features[:, :-1], targets / features[:, -1:])

    def regressed(self, features: Floats) -> Floats:
        """A pass through the layers."""
        expected: Floats = super().regressed(features[:, :-1]) * features[:, -1:]
        return expected


def _rows(values: Floats, seasons: Sequence[int]) -> tuple[Floats, Floats]:
    """The features of a series, and what came at the knots, in units of the spread."""
    net = GlobalNet(KNOTS, seasons)
    net.restore_fitted({**net.fitted(), "seasons": seasons})
    first, last = net.reach, len(values) - KNOTS[-1]
    logs = np.log1p(values)
    seen = windows(logs[:last], first, net.reach)
    level = level_of(seen)
    found = net.features(seen, level)
    targets = np.array([logs[first + knot : last + knot] - level for knot in KNOTS]).T
    return found[:, :-1], targets / found[:, -1:]


def train(series: Sequence[tuple[Floats, Sequence[int]]], seed: int, epochs: int) -> tuple[Layers, Any]:
    """The layers and the scale of a net for many series, each with its seasons."""
    each = [_rows(values, seasons) for values, seasons in series]
    features, targets = (np.concatenate(parts) for parts in zip(*each, strict=True))
    order = np.random.default_rng(seed).permutation(len(features))  # the last rows validate
    net = NeuralNet(KNOTS, (), seed)
    net.epochs, net.rate = epochs, NeuralNet.rate
    net.regress(features[order], np.clip(targets[order], -20.0, 20.0))
    state = net.fitted()
    layers = tuple((state[f"weights_{at}"], state[f"bias_{at}"]) for at in range(state["layers"]))
    return layers, (state["middle"], state["scale"])


@cache
def trained() -> tuple[Layers, tuple[Floats, Floats]] | None:
    """The net that comes with Foretide: its layers and the scale of its inputs."""
    from foretide.forecasting.saved import load_state  # noqa: PLC0415 it imports this folder

    if not (FOLDER / "model.json").exists():
        return None
    state, _ = load_state(FOLDER)
    parts = [state[name].astype(np.float64) for name in sorted(state)]
    return tuple(zip(parts[2::2], parts[3::2], strict=True)), (parts[0], parts[1])


def _between(own: Sequence[int], horizons: Sequence[int]) -> Floats:
    """Horizons x knots: the share of each knot, on a line in between, the last one beyond."""
    at = np.array(horizons, dtype=np.float64)
    return np.array([np.interp(at, own, column) for column in np.eye(len(own))]).T
