"""Training a model that people keep: learn a series, score what was held back, go on later where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np

from foretide.errors import ModelFolderError
from foretide.forecasting.backtest import roll
from foretide.forecasting.load.base import HORIZONS, LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.lags import LagModel
from foretide.forecasting.load.registry import make
from foretide.forecasting.saved import ModelCard
from foretide.forecasting.seasons import calendar_seasons
from foretide.forecasting.series import Series

VALIDATION = 0.2
"""The share at the end of a series that a new model's scores are taken from, before it learns them."""

_COMPARED = 50
_CHUNK = 250


def seasons_of(series: Series, given: Sequence[int]) -> tuple[int, ...] | None:
    """Seasons in steps: those that were given, else day and week if the step is known, else None: to be found."""
    if given:
        return tuple(given)
    return None if series.step_seconds is None else calendar_seasons(series.step_seconds)


def train(
    series: Series,
    name: str = Ensemble.name,
    horizons: Sequence[int] = HORIZONS,
    seasons: Sequence[int] = (),
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[LoadModel | Ensemble, ModelCard]:
    """A new model that has learnt the whole series, with its scores on the last part, each forecast out of sample."""
    chosen = seasons_of(series, seasons)
    model = make(name, horizons, chosen, seed)
    rolled = roll(model, series.values, VALIDATION, progress, clock)
    scores = {str(each.steps): asdict(each.scores) for each in rolled.horizons}
    card = ModelCard(
        model.name, series.name, series.step_seconds, model.horizons, chosen, seed, len(series.values),
        features_of(model), scores,
    )  # fmt: skip
    return model, card


def go_on(
    model: LoadModel | Ensemble,
    card: ModelCard,
    series: Series,
    *,
    retrain: bool = True,
    progress: Callable[[float], None] = lambda _: None,
) -> ModelCard:
    """Learn what the series has beyond what the model knows, then fit it again from where it was (warm start).

    Raises:
        ModelFolderError: The series is not the one that the model has learnt, or is shorter.
    """
    _same_series(model, card, series)
    fresh = series.values[card.values :]
    for start in range(0, len(fresh), _CHUNK):
        model.learn(fresh[start : start + _CHUNK])
        progress(min(1.0, (start + _CHUNK) / len(fresh)))
    if retrain and fresh:
        model.retrain()
    return replace(card, values=len(series.values))


def _same_series(model: LoadModel | Ensemble, card: ModelCard, series: Series) -> None:
    known = (model.experts[0] if isinstance(model, Ensemble) else model).state()["values"][-_COMPARED:]
    theirs = series.values[: card.values][-len(known) :]
    alike = len(theirs) == len(known) and all(
        value is None or np.isclose(value, own) for value, own in zip(theirs, known, strict=True)
    )
    if not alike:
        raise ModelFolderError(
            f"the model has learnt {card.values} values of '{card.series}', and '{series.name}' does not begin with "
            "them; give the same series with what came after, or train anew."
        )


def features_of(model: LoadModel | Ensemble) -> dict[str, list[str]]:
    """What each regression on lags looks at, in words."""
    models = model.experts if isinstance(model, Ensemble) else (model,)
    return {each.name: each.feature_names() for each in models if isinstance(each, LagModel)}
