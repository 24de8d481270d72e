"""PA-SPS, errors of the predictors: backtests of every model on five tweet volumes and the taxi counts."""

from __future__ import annotations

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict, not_run
from benchmarks.experiments.outcome import Outcome

LAST, MIX = "last value", "ensemble"
MODELS = (
    LAST, MIX, "seasonal last value", "moving average", "ewma", "linear regression", "fft", "ridge", "neural net",
    "random forest", "gradient boosting", "svr", "arima", "seasonal trend", "global net",
)  # fmt: skip
RMSE, MAPE = "RMSE, relative to the last value's", "MAPE, three steps ahead"
STEPS = 3


def measured(run: Run) -> dict[str, Samples]:
    """A sample for each series, three steps ahead."""
    from benchmarks.forecasting import HORIZONS, QUICK_SERIES, backtests
    from foretide.workloads.traces import TRACES

    place = HORIZONS.index(STEPS)
    found: dict[str, dict[str, list[float]]] = {name: {RMSE: [], MAPE: []} for name in MODELS}
    for series in QUICK_SERIES[:1] if run.quick else TRACES:
        for test in backtests(series, quick=run.quick):
            scores = test.horizons[place].scores
            if test.name in found:
                found[test.name][RMSE].append(scores.relative_rmse)
                found[test.name][MAPE].append(scores.mape)
    return dict(found)


def _mix(found: Outcome) -> Verdict:
    mix = found.median(MIX, RMSE)
    better = [name for name in MODELS if name != MIX and found.median(name, RMSE) < mix]
    return Verdict(f"{mix:.3f}; below it: {', '.join(better) or 'none'}", not better)


def _worst(found: Outcome) -> Verdict:
    worst = max(found.samples(MIX, RMSE))
    return Verdict(f"at most {worst:.3f} of the last value's on any series", worst <= 1.0)


EXPERIMENT = Experiment(
    paper="pa-sps",
    title="Errors of fourteen models and of the mix, three steps ahead, on the last 30 % of six series",
    kind="computed",
    sides=tuple(Side(name, not_run) for name in MODELS),
    measures=(Measure(RMSE), Measure(MAPE, "%")),
    claims=(
        Claim("no single model is best everywhere; of Foretide: the mix is best in the median", _mix),
        Claim("of Foretide: the mix is never worse than the last value", _worst),
    ),
    scale="public series; every model learns value by value",
    together=measured,
    repeat=1,
    quick_repeat=1,
    minutes=29.0,
    quick_minutes=0.0,
)
