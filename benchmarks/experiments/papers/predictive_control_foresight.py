"""Predictive control: trouble that announces itself: how soon each policy acts, simulated."""

from __future__ import annotations

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict, not_run
from benchmarks.experiments.outcome import Outcome

NET, MEASURED, PAPER, REACTIVE, STATIC = "bypass, net", "bypass, measured only", "paper rule, net", "reactive", "static"
SIDES = (NET, MEASURED, PAPER, "paper rule, last value", REACTIVE, STATIC)
FIRST, P99, WRONG = "first act, seconds from the trouble", "p99 after the trouble", "out for nothing"


def measured(run: Run) -> dict[str, Samples]:
    """All policies on the same trouble, ten times with other seeds."""
    from benchmarks.announced import announced

    found = {}
    for row in announced(quick=run.quick):
        act = row["first_act_s"]
        found[row["policy"]] = {
            FIRST: [] if act == "never" else [float(act)],
            P99: [1000 * row["latency_p99_s_after"]],
            WRONG: [row["out_for_nothing"]],
        }
    return found


def _before(found: Outcome) -> Verdict:
    net, now = found.median(NET, FIRST), found.median(MEASURED, FIRST)
    return Verdict(
        f"{net:+.1f} s by the net, {now:+.1f} s by what is measured (0 is when it begins)", net < min(now, 0.0)
    )


def _latency(found: Outcome) -> Verdict:
    net, static = found.median(NET, P99), found.median(STATIC, P99)
    return Verdict(f"p99 {net:,.0f} ms, {static:,.0f} ms without control", net < static)


EXPERIMENT = Experiment(
    paper="predictive-control",
    title="A slow worker that is announced by disk reads: how soon each policy acts, with the net and without",
    kind="simulator",
    sides=tuple(Side(name, not_run) for name in SIDES),
    measures=(Measure(FIRST, "s"), Measure(P99, "ms"), Measure(WRONG)),
    claims=(
        Claim("a forecast of a worker's performance lets the controller act before it is slow", _before),
        Claim("latency stays near the usual one", _latency),
    ),
    scale="four simulated workers; all reading is followed by trouble, which is easier than life",
    together=measured,
    repeat=1,
    quick_repeat=1,
    minutes=3.0,
    quick_minutes=0.6,
)
