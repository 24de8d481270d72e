"""Predictive control, live: disturbances that announce themselves, that do not, and false signals."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome

AHEAD, WITHOUT = "announced, forecasts", "announced, no forecasts"
SIDES = {
    AHEAD: ("announced", "on"),
    WITHOUT: ("announced", "off"),
    "unannounced": ("unannounced", "on"),
    "false signal": ("false", "on"),
}
BEFORE, OTHERS, P99 = "taken out before", "others taken out", "p99 while disturbed"


def run_with(run: Run, case: str, foresight: str) -> Samples:
    """One disturbance, in a process of its own."""
    from contextlib import redirect_stdout
    from io import StringIO

    from benchmarks.announced_live import one

    with redirect_stdout(StringIO()):
        found = one(case, foresight, run.seed)
    act = found["victim_out"]
    return {
        BEFORE: [float(act is not None and act < 0)],
        OTHERS: [float(found["others_out"])],
        P99: [1000 * found["p99"]],
    }


def _ahead(found: Outcome) -> Verdict:
    shares = {side: sum(found.samples(side, BEFORE)) / len(found.samples(side, BEFORE)) for side in (AHEAD, WITHOUT)}
    return Verdict(f"{shares[AHEAD]:.0%} of the runs, {shares[WITHOUT]:.0%} without forecasts", shares[AHEAD] > 0.5)


def _never(found: Outcome) -> Verdict:
    wrong = sum(found.samples("false signal", BEFORE)) + sum(found.samples("false signal", OTHERS))
    return Verdict(f"{wrong:g} workers taken out in {len(found.repetitions)} runs", wrong == 0)


EXPERIMENT = Experiment(
    paper="predictive-control",
    title="Disturbances of real executors that announce themselves, that do not, and signals without one",
    kind="live",
    sides=tuple(Side(name, partial(run_with, case=case, foresight=way)) for name, (case, way) in SIDES.items()),
    measures=(Measure(BEFORE, "share", "more"), Measure(OTHERS), Measure(P99, "ms")),
    claims=(
        Claim("a worker is taken out before it is slow", _ahead),
        Claim("of Foretide: a signal that is followed by nothing takes no worker out", _never),
    ),
    scale="two executors with a core each, a net that has learnt nothing on this machine",
    repeat=2,
    minutes=25.0,
    quick_minutes=0.0,
)
