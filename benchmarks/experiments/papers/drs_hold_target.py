"""DRS, Figure 9, live in micro-batches: a latency target held with executors that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome

MOST, OURS, REACTIVE = "6 executors", "foretide", "reactive"
COUNTS = ("3 executors", "4 executors", MOST)
SECONDS = 120.0
HELD, COST, P99, LOST = "seconds in which the target is held", "executor-seconds", "p99", "rows lost"
TARGET = "p99 of six executors, 1.5 times"


@contextmanager
def cluster(_: Run) -> Iterator[Any]:
    """Six executors, with what Java compiles first; the target is 1.5 times the p99 of all six."""
    import foretide as ft
    from benchmarks import hold_target as bench

    with bench.spark_session() as spark:
        bench.live(spark, ft.Curve.constant(bench.BASE_RATE, 25.0), bench.STATIC, 6, 6)
        usual = bench.live(spark, bench.load(SECONDS), bench.STATIC, 6, 6)
        yield spark, 1.5 * usual.p99


def run_with(run: Run, side: str) -> Samples:
    """The load that doubles, halves and wanders, under one strategy."""
    from benchmarks import hold_target as bench

    spark, target = run.resource
    curve = bench.load(SECONDS, seed=run.seed)
    if side in COUNTS:
        found = bench.live(spark, curve, bench.STATIC, int(side[0]), int(side[0]))
    else:
        found = bench.live(spark, curve, bench.policies_of(side, target), 1, 6, target)
    return {HELD: [found.held(target)], COST: [found.executor_seconds], P99: [found.p99], LOST: [float(found.lost)]}


def _held(found: Outcome) -> Verdict:
    ours, all_six = found.median(OURS, HELD), found.median(MOST, HELD)
    return Verdict(f"{ours:.0%} of the seconds, {all_six:.0%} with six executors", ours >= 0.95)


def _cheap(found: Outcome) -> Verdict:
    change = found.change(OURS, COST)
    return Verdict(f"{change:+.0%} executor-seconds against six executors", change < 0)


EXPERIMENT = Experiment(
    paper="drs",
    title="T_max held with executors that come and go while the load doubles and wanders, live (Figure 9)",
    kind="live",
    sides=tuple(Side(side, partial(run_with, side=side)) for side in (MOST, *COUNTS[:2], REACTIVE, OURS)),
    measures=(Measure(HELD, "share", "more"), Measure(COST, "s"), Measure(P99, "s"), Measure(LOST, "rows")),
    claims=(
        Claim("T_max is held but for the minutes after a change", _held),
        Claim("processors are given back where they are not needed", _cheap),
    ),
    scale="six executors that wait rather than compute, on two cores; two minutes of load in place of 48",
    repeat=2,
    minutes=28.0,
    quick_minutes=0.0,
    resource=cluster,
)
