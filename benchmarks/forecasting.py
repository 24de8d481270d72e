"""Forecasts of load: backtests over the last 30 % of five tweet volumes and the taxi counts, 1 to 36 steps ahead.

Every model learns value by value and is fitted again on its own cadence (every 1,000 or 2,000 values, and when it
notices drift); a forecast sees nothing of what it is scored against. The mean is scored by RMSE, the median by MAPE
(positive values), the whole distribution by pinball loss. The series in `HELD_OUT` were not looked at when the
seasonal-trend model and the global net were made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rivals.bootstrap import bootstrap_difference
from foretide.forecasting.backtest import Backtest, Horizon, roll_ensemble
from foretide.forecasting.forecaster import percentage_errors
from foretide.forecasting.history import calendar_seasons
from foretide.forecasting.load.registry import make_ensemble
from foretide.reports.plots import draw_backtest
from foretide.workloads.traces import TRACES, load_trace

HORIZONS = (1, 3, 12, 36)
HELD_OUT = ("tweets-fb", "tweets-ko")
SHARE = 0.3
QUICK_SERIES, QUICK_LENGTH = ("tweets-goog", "taxi"), 1500

Results = dict[str, tuple[Backtest, ...]]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:
    """Tables for each horizon, the comparison of the ensemble with the best single model, and pictures."""
    results = {name: backtests(name, quick=quick) for name in (QUICK_SERIES if quick else TRACES)}
    tables: dict[str, Any] = {}
    for place, steps in enumerate(HORIZONS):
        for title, field, combine in (
            ("RMSE of the mean, relative to the last value's", "relative_rmse", geometric),
            ("MAPE of the median, percent", "mape", average_percent),
            ("pinball loss", "pinball", geometric),
            ("share of truths inside the 80 % interval", "coverage_80", np.mean),
        ):
            tables[f"{steps} ahead: {title}"] = table(results, place, field, combine)
        tables[f"{steps} ahead: MAPE of the ensemble less that of the best single model (block bootstrap, 95 %)"] = (
            compared(results, place)
        )
        tables[f"{steps} ahead: single models that beat the ensemble on both RMSE and MAPE"] = beaten(results, place)
    tables["seconds"] = seconds(results)
    for name, each in results.items():
        tables[f"picture of {name}"] = str(draw_backtest(each[0], 0, folder / f"forecast-{name}.svg", 300))
    return tables


def backtests(name: str, *, quick: bool) -> tuple[Backtest, ...]:
    trace = load_trace(name)
    values = trace.values[:QUICK_LENGTH] if quick else trace.values  # quick runs show nothing of the scored part
    return roll_ensemble(make_ensemble(HORIZONS, calendar_seasons(trace.period_seconds)), values.tolist(), SHARE)


def geometric(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def average_percent(values: list[float]) -> float:
    return float(np.mean(values))


def table(results: Results, place: int, field: str, combine: Any) -> list[dict[str, Any]]:
    rows = []
    factor = 100.0 if field == "mape" else 1.0
    for index, model in enumerate(next(iter(results.values()))):
        figures = {name: factor * getattr(each[index].horizons[place].scores, field) for name, each in results.items()}
        whole = "average" if combine is not geometric else "geometric mean"
        held = [value for name, value in figures.items() if name in HELD_OUT]
        apart = {"held out": float(combine(held))} if held else {}
        rows.append({"model": model.name, **figures, whole: float(combine(list(figures.values()))), **apart})
    return rows


def shares(horizon: Horizon) -> Any:
    return percentage_errors(horizon.median, horizon.truth)


def compared(results: Results, place: int) -> list[dict[str, Any]]:
    """On each series against the model that is best there, and on all against the one that is best on average."""
    rows = []
    for name, (ensemble, *singles) in results.items():
        best = min(singles, key=lambda one: one.horizons[place].scores.mape)
        rows.append(difference(name, best.name, shares(ensemble.horizons[place]), shares(best.horizons[place])))
    count = len(next(iter(results.values())))
    means = [np.mean([each[i].horizons[place].scores.mape for each in results.values()]) for i in range(1, count)]
    index = 1 + int(np.argmin(means))
    pooled = [np.concatenate([shares(each[i].horizons[place]) for each in results.values()]) for i in (0, index)]
    return [*rows, difference("all series", next(iter(results.values()))[index].name, *pooled)]


def difference(series: str, best: str, ensemble: Any, single: Any) -> dict[str, Any]:
    change, low, high = (100 * each for each in bootstrap_difference(ensemble, single, np.random.default_rng(1)))
    verdict = (
        "ensemble higher beyond noise" if low > 0 else ("ensemble lower beyond noise" if high < 0 else "no difference")
    )
    return {"series": series, "best single": best, "difference": change, "low": low, "high": high, "verdict": verdict}


def beaten(results: Results, place: int) -> list[dict[str, Any]]:
    """Over all series: geometric mean of relative RMSE, average of MAPE."""
    rmses, mapes = (
        {row["model"]: row[whole] for row in table(results, place, field, combine)}
        for field, combine, whole in (
            ("relative_rmse", geometric, "geometric mean"),
            ("mape", average_percent, "average"),
        )
    )
    better = [name for name in rmses if rmses[name] < rmses["ensemble"] and mapes[name] < mapes["ensemble"]]
    return [
        {"models": ", ".join(better) or "none", "ensemble RMSE": rmses["ensemble"], "ensemble MAPE": mapes["ensemble"]}
    ]


def seconds(results: Results) -> list[dict[str, Any]]:
    """Learning the first 70 % of a series (fits included), and learning and forecasting one value after that."""
    return [
        {
            "model": model.name,
            "learning 70 %, s": float(np.mean([each[index].learn_seconds for each in results.values()])),
            "a value, ms": 1000 * float(np.mean([each[index].step_seconds for each in results.values()])),
        }
        for index, model in enumerate(next(iter(results.values())))
    ]
