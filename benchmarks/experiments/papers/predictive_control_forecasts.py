"""Predictive control, Table 2: error of forecasts of workers beside ARIMA and SVR."""

from __future__ import annotations

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict, not_run
from benchmarks.experiments.outcome import Outcome

NET, PRINTED, LAST, ARIMA, SVR = "two-tier", "two-tier as printed", "last value", "ARIMA", "SVR"
SIDES = (NET, "plain", "flat", PRINTED, LAST, ARIMA, SVR)
RMSE = "RMSE over its target's width"


def measured(run: Run) -> dict[str, Samples]:
    """A sample for each target of the recordings."""
    from benchmarks import workers

    samples: dict[str, list[float]] = {side: [] for side in SIDES}
    for recording in list(workers.recordings())[-1:] if run.quick else workers.recordings():
        tables = workers.compare(recording, quick=run.quick)
        rows = {row["model"]: row for row in tables[f"RMSE one step ahead, {recording.name}"]}
        run.tables |= tables
        for side in SIDES:
            samples[side] += [float(rows[side][target]) for target in recording.targets if target in rows[side]]
    return {side: {RMSE: values} for side, values in samples.items()}


def _below(found: Outcome, rival: str, least: float, most: float) -> Verdict:
    pairs = zip(found.samples(NET, RMSE), found.samples(rival, RMSE), strict=True)
    below = [1 - ours / other for ours, other in pairs]
    mean = sum(below) / len(below)
    return Verdict(
        f"{mean:+.0%} below on average, {min(below):+.0%} to {max(below):+.0%} (paper {least:.0%} to {most:.0%})",
        mean >= least,
    )


EXPERIMENT = Experiment(
    paper="predictive-control",
    title="Error of forecasts of workers one step ahead, on recordings: the two-tier net, ARIMA, SVR (Table 2)",
    kind="computed",
    sides=tuple(Side(name, not_run) for name in SIDES),
    measures=(Measure(RMSE),),
    claims=(
        Claim("RMSE 8 to 56 % below ARIMA", lambda found: _below(found, ARIMA, 0.08, 0.56)),
        Claim("RMSE 10 to 19 % below SVR", lambda found: _below(found, SVR, 0.10, 0.19)),
    ),
    scale="recordings of executors on one machine, and generated workers; the quick form has the generated ones only",
    together=measured,
    repeat=1,
    quick_repeat=1,
    minutes=25.0,
    quick_minutes=0.0,
)
