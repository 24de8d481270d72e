"""Aj-Stream: hot keys that move, planned for what is forecast, for the last window, and not at all."""

from __future__ import annotations

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict, not_run
from benchmarks.experiments.outcome import Outcome

NONE, LAST, NET, BEST, REACTIVE = "no plan", "last window", "net (forecast)", "best of late (as live)", "reactive"
SIDES = (NONE, LAST, "smoothed", NET, BEST, REACTIVE)
MEAN, P90 = "LI of the next window, mean", "LI of the next window, p90"


def measured(run: Run) -> dict[str, Samples]:
    """All choices over the same windows."""
    from benchmarks.joins_moving import moving_keys

    rows = {row["choice"]: row for row in moving_keys(quick=run.quick)}
    return {name: {MEAN: [rows[name]["LI mean"]], P90: [rows[name]["LI p90"]]} for name in SIDES}


def _forecast(found: Outcome) -> Verdict:
    net, last, none = (found.median(name, MEAN) for name in (NET, LAST, NONE))
    return Verdict(
        f"LI {net:.2f} forecast, {last:.2f} by the last window, {none:.2f} without a plan", net < last < none
    )


def _reactive(found: Outcome) -> Verdict:
    net, reactive = found.median(NET, MEAN), found.median(REACTIVE, MEAN)
    return Verdict(f"LI {net:.2f} against {reactive:.2f} once balance is lost", net < reactive)


EXPERIMENT = Experiment(
    paper="aj-stream",
    title="Moving hot keys, planned one window ahead: forecast on and off (section 4.3, Figures 17 to 20)",
    kind="computed",
    sides=tuple(Side(name, not_run) for name in SIDES),
    measures=(Measure(MEAN), Measure(P90)),
    claims=(
        Claim("plans for forecast key frequencies balance better than those for what was", _forecast),
        Claim("acting ahead is better than acting once the load is uneven", _reactive),
    ),
    scale="generated Zipf windows of 400 keys whose hot keys come and go, 8 partitions; the net as it comes, one seed",
    together=measured,
    repeat=1,
    quick_repeat=1,
    minutes=2.0,
    quick_minutes=0.5,
)
