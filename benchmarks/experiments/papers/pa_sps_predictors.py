"""PA-SPS, Tables 2, 6, 7 and 8: every predictor, and Foretide's mix of all, with CPU use and what Storm would lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.experiments.curves import KINDS, curves
from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.replica_queues import Forecaster, History, Predictive, Result, linear
from benchmarks.experiments.replica_queues import run as run_model

PREDICTORS = {
    "Basic": "last value",
    "LR": "linear regression",
    "FFT": "fft",
    "ANN": "neural net",
    "RF": "random forest",
    "mix": "ensemble",
}
MIX = ("last value", "linear regression", "fft", "ridge", "neural net", "random forest")
SAVED, DEGRADED, PROCESSED, LATENCY = "saved resources", "throughput degradation", "processed events", "latency"
ERROR, ERROR_REPLICAS, CPU = "error of the input", "error of the replicas", "CPU of a plan"
OVER, LATE, BUSY = "beyond queues of 100,000", "timed out after 30 s", "replicas busy"


def forecaster(name: str, before: Sequence[float]) -> Forecaster:
    """A model that has learnt what was before; it learns every interval once."""
    from foretide.forecasting.load.registry import make, make_ensemble

    model: Any = make_ensemble((1,), None, 7, names=MIX) if name == "ensemble" else make(name, (1,), None, 7)
    model.learn(list(before))
    seen = len(before)

    def forecast(history: History) -> float:
        nonlocal seen
        model.learn(list(history[seen:]))
        seen = len(history)
        return float(model.forecast(1).mean[-1])

    return forecast


def run_with(run: Run, label: str) -> Samples:
    """All curves with one predictor: a sample for each of them."""
    results: list[Result] = []
    for kind in KINDS[:2] if run.quick else KINDS:
        for name, (before, rates) in curves(kind, quick=run.quick).items():
            known = before[-300:] if run.quick else before
            planner = Predictive(forecaster(PREDICTORS[label], known))
            result = run_model(linear(max(rates)), rates, planner, known, run.seed)
            results.append(result)
            _note(run, kind, {"curve": name, "predictor": label, **asdict(result)})
    return samples_of(results)


def samples_of(results: Sequence[Result]) -> Samples:
    """The measures of the paper, and ours."""
    return {
        SAVED: [each.saved for each in results],
        DEGRADED: [each.degradation for each in results],
        PROCESSED: [each.processed for each in results],
        LATENCY: [1000 * each.latency for each in results],
        ERROR: [each.error_input for each in results],
        ERROR_REPLICAS: [each.error_replicas for each in results],
        CPU: [each.cpu_ms for each in results],
        OVER: [each.over_limit for each in results],
        LATE: [each.timed_out for each in results],
        BUSY: [each.busy for each in results],
    }


MEASURES = (
    Measure(SAVED, "share", "more"),
    Measure(DEGRADED, "share"),
    Measure(PROCESSED, "share", "more"),
    Measure(LATENCY, "ms"),
    Measure(ERROR, "share"),
    Measure(ERROR_REPLICAS, "share"),
    Measure(CPU, "ms"),
    Measure(OVER, "share"),
    Measure(LATE, "share"),
    Measure(BUSY, "share", "more"),
)


def _note(run: Run, kind: str, row: dict[str, Any]) -> None:
    if run.number == 0:
        run.tables.setdefault(f"{kind}, first repetition", []).append(row)


def _all_processed(found: Outcome) -> Verdict:
    shares = {label: found.median(label, PROCESSED) for label in PREDICTORS}
    worst = min(shares, key=lambda label: shares[label])
    return Verdict(f"at least {shares[worst]:.3f} ({worst})", shares[worst] >= 0.975)


def _most_accurate(found: Outcome) -> Verdict:
    errors = {label: found.median(label, ERROR) for label in PREDICTORS}
    best = min(errors, key=lambda label: errors[label])
    said = ", ".join(f"{label} {error:.3f}" for label, error in errors.items())
    return Verdict(f"{said}: best {best}", best == "LR")


def _fastest(found: Outcome) -> Verdict:
    times = {label: found.median(label, LATENCY) for label in PREDICTORS}
    best = min(times, key=lambda label: times[label])
    return Verdict(", ".join(f"{label} {each:,.0f} ms" for label, each in times.items()), best == "ANN")


def _saved(found: Outcome) -> Verdict:
    shares = [found.median(label, SAVED) for label in PREDICTORS]
    return Verdict(f"{min(shares):.2f} to {max(shares):.2f}", min(shares) >= 0.475)


def _mix(found: Outcome) -> Verdict:
    mix, basic = (found.median(label, ERROR) for label in ("mix", "Basic"))
    return Verdict(f"{mix:.3f} against {basic:.3f}", mix <= basic)


EXPERIMENT = Experiment(
    paper="pa-sps",
    title="Predictors of the load and Foretide's mix: five tweet curves, smoothed and raw, taxi counts and spikes "
    "(Tables 2, 6, 7, 8)",
    kind="simulator",
    sides=tuple(Side(label, partial(run_with, label=label)) for label in PREDICTORS),
    measures=MEASURES,
    claims=(
        Claim("every model processes at least 97.5 % of the events (Tables 2, 6, 7, 8)", _all_processed),
        Claim("smoothed tweets: 47.5 % (ANN) to 56 % (Basic) of resources saved", _saved),
        Claim("smoothed tweets: LR has the lowest error of the input, 0.090", _most_accurate),
        Claim("smoothed tweets: ANN has the lowest latency, 355 ms", _fastest),
        Claim("of Foretide: the mix is no worse than the last value", _mix),
    ),
    scale="a model of queues with Foretide's planner, td 30 s, pools of 8; loads are public tweet and taxi counts, not "
    "the paper's; latencies below a second are not resolved; events beyond queues or the time-out are counted, not "
    "dropped",
    repeat=3,
    minutes=15.0,
    quick_minutes=0.8,
)
