"""Forecasts of small counts: the recorded series, of which each event is kept by chance, to means of 0.3 to 5 a step.

Of each series the latest 4,000 steps are used, and the last 30 % scored, as in `forecasting`. The models are those that
need no long fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from foretide.forecasting.backtest import Backtest, roll_ensemble
from foretide.forecasting.forecaster import Floats
from foretide.forecasting.history import calendar_seasons
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import NUMPY_MODELS, make_ensemble
from foretide.workloads.traces import TRACES, Trace, load_trace

HORIZONS = (1, 3, 12)
MEANS = (0.3, 1.0, 3.0, 5.0)
LENGTH, QUICK_LENGTH, SHARE = 4000, 700, 0.3
MODELS = (*NUMPY_MODELS, "random forest", "arima", "seasonal trend")
QUICK_MODELS = ("last value", "ewma", "ridge")

Results = dict[str, tuple[Backtest, ...]]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 it writes nothing
    """For each mean and horizon, the mix against the single model that is best over all series."""
    rows = []
    for mean in MEANS[1:2] if quick else MEANS:
        results = {name: backtests(name, mean, quick=quick) for name in (TRACES[-1:] if quick else TRACES)}
        rows += [row(mean, place, results) for place in range(len(HORIZONS))]
    return {"small counts": rows}


def backtests(name: str, mean: float, *, quick: bool) -> tuple[Backtest, ...]:
    trace = load_trace(name)
    values = thinned(trace, mean, QUICK_LENGTH if quick else LENGTH)
    return roll_ensemble(ensemble(trace, QUICK_MODELS if quick else MODELS), values.tolist(), SHARE)


def ensemble(trace: Trace, names: tuple[str, ...]) -> Ensemble:
    return make_ensemble(HORIZONS, calendar_seasons(trace.period_seconds), names=names)


def thinned(trace: Trace, mean: float, length: int) -> Floats:
    """The latest counts, each event kept with the same probability."""
    latest = trace.values[-length:].astype(np.int64)
    rng = np.random.default_rng([TRACES.index(trace.name), round(10 * mean)])
    return rng.binomial(latest, min(1.0, mean / float(latest.mean()))).astype(np.float64)


def row(mean: float, place: int, results: Results) -> dict[str, Any]:
    scores = {name: [each.horizons[place].scores for each in found] for name, found in results.items()}
    names = [each.name for each in next(iter(results.values()))]
    mape = dict(zip(names, np.mean([[one.mape for one in each] for each in scores.values()], axis=0), strict=True))
    logs = np.mean([[np.log(one.relative_rmse) for one in each] for each in scores.values()], axis=0)
    rmse = dict(zip(names, np.exp(logs), strict=True))
    coverage = [each[0].coverage_80 for each in scores.values()]
    best_mape, best_rmse = (min(list(found)[1:], key=found.__getitem__) for found in (mape, rmse))
    return {
        "mean": mean, "ahead": HORIZONS[place], "in 80 %": float(np.mean(coverage)),
        "lowest": min(coverage), "highest": max(coverage),
        "MAPE": 100 * float(mape[names[0]]), "best single": best_mape, "its MAPE": 100 * float(mape[best_mape]),
        "RMSE": float(rmse[names[0]]), "best": best_rmse, "its RMSE": float(rmse[best_rmse]),
    }  # fmt: skip
