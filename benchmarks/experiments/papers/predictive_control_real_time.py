"""Predictive control, section 5: the same disturbance in Spark's real-time mode, from Kafka to Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome

STATIC, OURS = "no control", "Foretide"
USUAL, P50, P99, FAILED, LOST = "p99 before", "p50 from 2 s on", "p99 from 2 s on", "failed tuples", "lost or doubled"


@contextmanager
def cluster(_: Run) -> Iterator[Any]:
    """A session, a broker, and executors with a core each."""
    from benchmarks import real_time_slow_worker as bench
    from foretide.apps.experiment import pin_executors

    with bench.session(bench.MASTER) as (spark, broker):
        bench._one(spark, broker.address, None, 5.0, 10.0, controlled=False)
        yield spark, broker, pin_executors(spark.sparkContext.applicationId)


def run_with(run: Run, *, controlled: bool) -> Samples:
    """Tuples that pass the edge and are read elsewhere, before and while one executor is slow."""
    from benchmarks import real_time_slow_worker as bench

    spark, broker, cores = run.resource
    before, slow = (8.0, 12.0) if run.quick else (10.0, 30.0)
    found = bench._one(spark, broker.address, cores, before, slow, controlled=controlled)
    run.tables.setdefault("decisions", []).extend(found["decisions"])
    later, usual = (bench._chosen(found, *span, slow_source=False) for span in ((2.0, slow), (-before, 0.0)))
    failed = (found["received"].milliseconds > bench.TIMEOUT_MS).sum()
    return {
        USUAL: [usual.p99],
        P50: [later.p50],
        P99: [later.p99],
        FAILED: [float(failed)],
        LOST: [float(found["account"].lost + found["account"].doubled)],
    }


def _settles(found: Outcome) -> Verdict:
    usual, ours, static = found.median(OURS, USUAL), found.median(OURS, P99), found.median(STATIC, P99)
    said = f"p99 {ours:,.0f} ms, {usual:,.0f} ms before; {static:,.0f} ms without control"
    return Verdict(said, ours <= 13 / 11 * usual)


def _times(found: Outcome) -> Verdict:
    times = found.median(STATIC, P99) / found.median(OURS, P99)
    return Verdict(f"{times:,.0f} times lower", times >= 34_000 / 177)


def _failed(found: Outcome) -> Verdict:
    failed, lost = found.median(OURS, FAILED), found.median(OURS, LOST)
    return Verdict(f"{failed:g} failed, {lost:g} lost or doubled", failed == 0)


EXPERIMENT = Experiment(
    paper="predictive-control",
    title="32 busy loops on the core of one of two executors in real time, 300 tuples/s (Figure 10)",
    kind="live",
    sides=(
        Side(STATIC, partial(run_with, controlled=False)),
        Side(OURS, partial(run_with, controlled=True)),
    ),
    measures=(Measure(USUAL, "ms"), Measure(P50, "ms"), Measure(P99, "ms"), Measure(FAILED), Measure(LOST)),
    claims=(
        Claim("11 ms before, 13 ms once settled", _settles),
        Claim("177 ms at most where Storm's latency grows to 34,000 ms (192 times)", _times),
        Claim("no failed tuples", _failed),
    ),
    scale="two executors on two cores, 30 s of disturbance in place of five minutes; tuples whose source task is on "
    "the slow executor are left out, as source tasks cannot be moved within a batch",
    repeat=3,
    quick_repeat=1,
    minutes=18.0,
    quick_minutes=2.0,
    resource=cluster,
)
