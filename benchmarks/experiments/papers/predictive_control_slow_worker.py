"""Predictive control, section 5: a program that hogs the core of one executor, live in micro-batches."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome

LOOPS = 24
STATIC, SPECULATION, OURS, UNDISTURBED = "static Spark", "speculation", "Foretide", "undisturbed"
VARIANTS = {STATIC: "static", SPECULATION: "speculation", OURS: "foretide", UNDISTURBED: "undisturbed"}
SETTLED, FIRST, LOST, MISSING = "p99 once settled", "p99 from the first moment", "batches over 30 s", "rows lost"


def run_with(run: Run, side: str) -> Samples:
    """One run in a process, a cluster and a session of its own."""
    from contextlib import redirect_stdout
    from io import StringIO

    from benchmarks import slow_worker

    loops = 0 if side == UNDISTURBED else LOOPS
    with redirect_stdout(StringIO()):
        found = slow_worker.one("stateless", VARIANTS[side], loops)
    for decision in found["decisions"]:
        row = {"at, s": decision["at"], "hog at, s": found["hog_at"], "did": "; ".join(decision["says"])}
        run.tables.setdefault("decisions", []).append(row)
    return {
        SETTLED: [1000 * slow_worker.p99(found, slow_worker.SETTLED)],
        FIRST: [1000 * slow_worker.p99(found, 0.0)],
        LOST: [float(sum(each["p99"] > 30.0 for each in found["batches"]))],
        MISSING: [float(found["missing"])],
    }


def _settles(found: Outcome) -> Verdict:
    ours, usual, static = (found.median(side, SETTLED) for side in (OURS, UNDISTURBED, STATIC))
    said = f"{ours:,.0f} ms, undisturbed {usual:,.0f} ms, static {static:,.0f} ms"
    return Verdict(f"{said}: {ours / usual:.2f} times undisturbed", ours <= 13 / 11 * usual)


def _peak(found: Outcome) -> Verdict:
    ours, static = found.median(OURS, FIRST), found.median(STATIC, FIRST)
    return Verdict(f"{static / ours:.1f} times lower with the first seconds counted", static / ours >= 34_000 / 177)


def _failed(found: Outcome) -> Verdict:
    lost = {side: found.median(side, LOST) for side in (STATIC, OURS)}
    missing = found.median(OURS, MISSING)
    return Verdict(
        f"{lost[OURS]:g} batches over 30 s, {lost[STATIC]:g} without control; {missing:g} rows lost",
        lost[OURS] == 0 and missing == 0,
    )


EXPERIMENT = Experiment(
    paper="predictive-control",
    title="24 busy loops on the core of one of two executors, micro-batches: static, speculation, Foretide (Figure 10)",
    kind="live",
    sides=tuple(Side(side, partial(run_with, side=side), in_quick=False) for side in VARIANTS),
    measures=(Measure(SETTLED, "ms"), Measure(FIRST, "ms"), Measure(LOST), Measure(MISSING, "rows")),
    claims=(
        Claim("11 ms before, 13 ms once settled; 34,000 ms without control", _settles),
        Claim("peaks at 177 ms where Storm's latency grows to 34,000 ms (192 times)", _peak),
        Claim("no failed tuples; Storm 1,739 a second", _failed),
    ),
    scale="two executors on two cores, a minute of disturbance in place of five; micro-batches take longer than tuples",
    repeat=2,
    minutes=24.0,
    quick_minutes=0.0,
)
