"""Aj-Stream, Figures 15 to 17: joins of streams of other sizes, and of one whose rate changes, live."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.papers.aj_stream_skew import (
    CPU,
    LATENCY,
    LI,
    OURS,
    STOCK,
    THROUGHPUT,
    VARIANTS,
    bench,
    run_case,
    same_rows,
)

FLUCTUATING = "rate between 2,000 and 8,000"
WORKLOADS = (FLUCTUATING, "1,000 rows", "2,000 rows", "4,000 rows")


def run_with(run: Run, workload: str, variant: str) -> Samples:
    """One run over the files of a workload."""
    from benchmarks import joins

    return run_case(run, next(each for each in (joins.FLUCTUATING, *joins.SIZES) if each.name == workload), variant)


def name(workload: str, way: str) -> str:
    """The name of a side."""
    return f"{workload}, {way}"


def _fluctuating(found: Outcome) -> Verdict:
    rates, batches = (
        found.change(name(FLUCTUATING, OURS), each, name(FLUCTUATING, STOCK)) for each in (THROUGHPUT, LATENCY)
    )
    return Verdict(f"throughput {rates:+.1%}, longest batch {batches:+.1%}", rates > 0 > batches)


def _balance(found: Outcome) -> Verdict:
    pairs = [(each, *(found.median(name(each, way), LI) for way in (OURS, STOCK))) for each in WORKLOADS]
    said = ", ".join(f"{ours:.2f} against {stock:.2f} ({each})" for each, ours, stock in pairs)
    return Verdict(said, all(ours < stock for _, ours, stock in pairs))


EXPERIMENT = Experiment(
    paper="aj-stream",
    title="Joins of streams of other sizes at z = 1.5, and with half of all rows on one key at a rate that changes "
    "(Figures 15 to 17)",
    kind="live",
    sides=tuple(
        Side(name(workload, way), partial(run_with, workload=workload, variant=VARIANTS[way]))
        for workload in WORKLOADS
        for way in (STOCK, OURS)
    ),
    measures=(Measure(LI), Measure(THROUGHPUT, "rows/s", "more"), Measure(LATENCY, "s"), Measure(CPU, "s")),
    claims=(
        Claim("less throughput and latency are lost when the rate changes", _fluctuating),
        Claim("imbalance stays low at every size", _balance),
        Claim("of Foretide: every run returns the same rows", same_rows),
    ),
    scale="two cores and 8 partitions in place of 24 and 48 instances; rows are those of a batch and side",
    repeat=2,
    minutes=20.0,
    quick_minutes=0.0,
    resource=bench,
)
