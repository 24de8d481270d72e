"""PA-SPS, live: replicas of a bolt under an hour of tweets in some minutes; static, reactive, forecast."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

FIXED = "fixed for the peak"
VARIANTS = {FIXED: "static", "reactive": "reactive", "replicas, forecast": "replicas, forecast"}
OURS = "replicas, forecast"
HOURS, MEAN, P99, LOST = "replica-hours", "latency, mean", "latency, p99", "rows lost"
POOL = 12


def run_with(run: Run, side: str) -> Samples:
    """The tweets of an hour within some minutes."""
    import foretide as ft
    from benchmarks.live_load import live, needed

    seconds = 45.0 if run.quick else 180.0
    curve = ft.Curve.from_trace("tweets-goog", seconds=seconds, mean_rate=350.0, first=1500, samples=12)
    found = live(run.resource, curve, VARIANTS[side], needed(max(curve.rates)))
    return {
        HOURS: [found["replica_hours"]],
        MEAN: [1000 * found["latency_mean_s"]],
        P99: [1000 * found["latency_p99_s"]],
        LOST: [float(found["rows_lost"])],
    }


def _saved(found: Outcome) -> Verdict:
    saved = -found.change(OURS, HOURS)
    return Verdict(f"{saved:.1%} of the replicas for the peak saved", saved >= 0.475)


def _latency(found: Outcome) -> Verdict:
    ours, fixed = found.median(OURS, MEAN), found.median(FIXED, MEAN)
    return Verdict(
        f"{ours:,.0f} ms, {fixed:,.0f} ms with replicas for the peak: {ours / fixed:.2f} times", ours <= 2.32 * fixed
    )


def _whole(found: Outcome) -> Verdict:
    lost = max(found.samples(OURS, LOST))
    return Verdict(f"{lost:g} rows lost", lost == 0)


EXPERIMENT = Experiment(
    paper="pa-sps",
    title="An hour of tweets in three minutes, live: replicas for the peak, reactive, by forecast (Tables 3 and 4)",
    kind="live",
    sides=tuple(Side(side, partial(run_with, side=side)) for side in VARIANTS),
    measures=(Measure(HOURS, "h"), Measure(MEAN, "ms"), Measure(P99, "ms"), Measure(LOST, "rows")),
    claims=(
        Claim("47.5 % of the replicas for the peak saved", _saved),
        Claim("latency 2.32 times that of replicas for the peak", _latency),
        Claim("all events processed", _whole),
    ),
    scale="one bolt that waits 4 ms a tuple, pool of 12, micro-batches on two cores; the mix of forecasts",
    repeat=2,
    quick_repeat=1,
    minutes=26.0,
    quick_minutes=0.0,
    resource=lambda _: session(f"local[{POOL + 2}]"),
)
