"""PA-SPS, Tables 3 and 4: fixed replicas, reactive, restart-based and the pool with the basic predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.experiments.curves import KINDS, curves
from benchmarks.experiments.experiment import Claim, Experiment, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.papers.pa_sps_predictors import (
    LATE,
    LATENCY,
    MEASURES,
    PROCESSED,
    SAVED,
    forecaster,
    samples_of,
)
from benchmarks.experiments.replica_queues import Planner, Predictive, Threshold, linear
from benchmarks.experiments.replica_queues import run as run_model

OURS, RESTARTS, BASIC = "PA-SPS with Foretide's mix", "restart-based, LR (DABS-like)", "pool, basic (PSPS-like)"
RESTART_SECONDS = 30.0

SYSTEMS: dict[str, Callable[[Sequence[float]], Planner]] = {
    OURS: lambda before: Predictive(forecaster("ensemble", before)),
    "r = 1": lambda _: Planner(1),
    "r = 4": lambda _: Planner(4),
    "r = 8": lambda _: Planner(8),
    "reactive": lambda _: Threshold(1),
    RESTARTS: lambda before: Predictive(forecaster("linear regression", before), restarts=True),
    BASIC: lambda before: Predictive(forecaster("last value", before)),
}


def run_with(run: Run, name: str) -> Samples:
    """Smoothed and raw tweet curves with one system."""
    results = []
    for kind in KINDS[:1] if run.quick else KINDS[:2]:
        for before, rates in curves(kind, quick=run.quick).values():
            known = before[-300:] if run.quick else before
            made = SYSTEMS[name](known)
            results.append(run_model(linear(max(rates)), rates, made, known, run.seed, RESTART_SECONDS))
    return samples_of(results)


def _fixed(found: Outcome) -> Verdict:
    shares = {name: found.median(name, PROCESSED) for name in ("r = 1", "r = 4", "r = 8")}
    ours = found.median(OURS, PROCESSED)
    said = ", ".join(f"{share:.3f} with {name}" for name, share in shares.items())
    return Verdict(f"{ours:.3f}; {said}", ours >= 0.999 and shares["r = 1"] < shares["r = 4"] <= 1)


def _half(found: Outcome) -> Verdict:
    saved = found.median(OURS, SAVED)
    return Verdict(f"{saved:.1%} saved", saved >= 0.475)


def _restarts(found: Outcome) -> Verdict:
    late, ours = found.median(RESTARTS, LATE), found.median(OURS, LATE)
    change = found.change(RESTARTS, LATENCY)
    return Verdict(
        f"restarts: {late:.1%} of the events timed out, {ours:.1%} of ours; latency {change:+.0%}", ours < late
    )


def _basic(found: Outcome) -> Verdict:
    latency, saved = found.change(BASIC, LATENCY), found.median(BASIC, SAVED) / found.median(OURS, SAVED) - 1
    better = latency > 0 and found.differs(BASIC, LATENCY) is not False
    return Verdict(f"basic: latency {latency:+.0%}, saved {saved:+.1%}", better)


EXPERIMENT = Experiment(
    paper="pa-sps",
    title="PA-SPS beside fixed, reactive, restart-based and PSPS-like systems, five tweet curves (Tables 3, 4)",
    kind="simulator",
    sides=tuple(Side(name, partial(run_with, name=name)) for name in SYSTEMS),
    measures=MEASURES,
    claims=(
        Claim("all events processed; 33.1 % with r = 1, 98.7 % with r = 4, all with r = 8 (Table 3)", _fixed),
        Claim("47.5 % of the replicas of r = 8 saved (Table 3)", _half),
        Claim("DABS-Storm, which restarts, processes 17.2 % less, with 291 % more latency (Table 4)", _restarts),
        Claim("PSPS, with the basic predictor, has 490 % more latency and saves 15 % more (Table 4)", _basic),
    ),
    scale="a model of queues with Foretide's planner, td 30 s; a restart stops everything for 30 s (Storm takes one to "
    "two minutes); what times out or finds a full queue is counted, not dropped",
    repeat=3,
    minutes=6.0,
    quick_minutes=0.4,
)
