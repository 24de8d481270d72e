"""PA-SPS, Figure 11 and Table 5: an application that branches, beside five replicas of every operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.experiments.curves import curves
from benchmarks.experiments.experiment import Claim, Experiment, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.papers.pa_sps_predictors import (
    BUSY,
    LATENCY,
    MEASURES,
    PROCESSED,
    SAVED,
    forecaster,
    samples_of,
)
from benchmarks.experiments.replica_queues import Application, Planner, Predictive
from benchmarks.experiments.replica_queues import run as run_model

POOL = 5
FIXED, OURS = "r = 5", "PA-SPS with Foretide's mix"
FLOWS = {
    ("read", "classify"): 1.0,
    ("classify", "news"): 0.4,
    ("classify", "opinion"): 0.6,
    ("news", "source"): 1.0,
    ("opinion", "mood"): 1.0,
    ("source", "merge"): 1.0,
    ("mood", "merge"): 1.0,
    ("merge", "store"): 1.0,
}
NAMES = ("read", "classify", "news", "opinion", "source", "mood", "merge", "store")
SYSTEMS: dict[str, Callable[[Sequence[float]], Planner]] = {
    FIXED: lambda _: Planner(POOL),
    OURS: lambda before: Predictive(forecaster("ensemble", before)),
}


def application(peak: float) -> Application:
    """Eight operators; those before and after the branches need the whole pool at the peak."""
    return Application(dict.fromkeys(NAMES, POOL / peak), FLOWS, POOL)


def run_with(run: Run, name: str) -> Samples:
    """The tweet curves with one system."""
    results = []
    for before, rates in curves("smoothed tweets", quick=run.quick).values():
        known = before[-300:] if run.quick else before
        results.append(run_model(application(max(rates)), rates, SYSTEMS[name](known), known, run.seed))
    return samples_of(results)


def _saved(found: Outcome) -> Verdict:
    saved, processed = found.median(OURS, SAVED), found.median(OURS, PROCESSED)
    return Verdict(f"{saved:.1%} saved, {processed:.3f} processed", saved >= 0.688 and processed >= 0.999)


def _price(found: Outcome) -> Verdict:
    ours, fixed = found.median(OURS, LATENCY), found.median(FIXED, LATENCY)
    return Verdict(f"{ours:,.0f} against {fixed:,.0f} ms, {ours / fixed:.1f} times", ours / fixed <= 6.54)


def _busy(found: Outcome) -> Verdict:
    ours, fixed = found.median(OURS, BUSY), found.median(FIXED, BUSY)
    return Verdict(f"replicas {ours:.0%} busy against {fixed:.0%}; the model has no cost of idle threads", None)


EXPERIMENT = Experiment(
    paper="pa-sps",
    title="An application that branches into news and opinions, beside five replicas of each operator (Table 5)",
    kind="simulator",
    sides=tuple(Side(name, partial(run_with, name=name)) for name in SYSTEMS),
    measures=MEASURES,
    claims=(
        Claim("68.8 % of the replicas saved, all events processed", _saved),
        Claim("209 ms against 32 ms of latency: 6.5 times", _price),
        Claim("9.57 % of the CPU against 14.66 %, as idle replicas cost threads", _busy),
    ),
    scale="a model of queues with Foretide's planner; eight operators with the flow of Figure 11's kind, our own rates",
    repeat=3,
    minutes=2.0,
    quick_minutes=0.2,
)
