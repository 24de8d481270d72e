"""Aj-Stream, Figures 13 to 18: throughput, latency and imbalance of a join over its skew z, live."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

OURS, STOCK = "Foretide", "Spark's join"
VARIANTS = {OURS: "foretide", STOCK: "stock"}
CASES = {0.0: "z = 0", 1.0: "z = 1", 1.5: "z = 1.5", 2.0: "z = 2"}
RIVALS = {"salted by hand": "salted by hand", "ContRand-like": "ContRand-like", "BiStream-like": "BiStream-like"}
HOT = 1.5
LI, THROUGHPUT, LATENCY, CPU = "LI", "throughput", "p99 batch", "CPU"


@contextmanager
def bench(run: Run) -> Iterator[Any]:
    """The joins of `benchmarks.joins` in a session of two cores, after Java has compiled them."""
    from benchmarks.joins import WARM_UP, Bench

    options = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
    with session(options=options) as spark:
        made = Bench(spark, Path(run.folder) / "joins")
        made.folder.mkdir()
        for variant in () if run.quick else ("stock", "foretide"):
            made.one(WARM_UP, variant)
        yield made
        shutil.rmtree(made.folder, ignore_errors=True)


def run_with(run: Run, z: float, variant: str) -> Samples:
    """One run over the files of a skew."""
    from benchmarks.joins import CASES as WORKLOADS

    return run_case(run, next(each for each in WORKLOADS if each.name == CASES[z]), variant)


def run_case(run: Run, case: Any, variant: str) -> Samples:
    """One run over all files of a workload."""
    with redirect_stdout(StringIO()):
        found = run.resource.one(case, variant)
    sums = run.tables.setdefault("checksums", [])
    sums.append({"workload": case.name, "run": variant, "checksum": str(found["checksum"])})
    return {
        LI: [found["LI"]],
        THROUGHPUT: [found["rows/s"]],
        LATENCY: [found["p99 batch s"]],
        CPU: [found["CPU s"]],
    }


def name(z: float, way: str) -> str:
    """The name of a side."""
    return f"{CASES[z]}, {way}"


def _throughput(found: Outcome) -> Verdict:
    change = found.change(name(HOT, OURS), THROUGHPUT, name(HOT, STOCK))
    return Verdict(f"{change:+.1%} at z = 1.5 against Spark's join", change >= 0.221)


def _latency(found: Outcome) -> Verdict:
    change = found.change(name(HOT, OURS), LATENCY, name(HOT, STOCK))
    return Verdict(f"{change:+.1%} at z = 1.5 against Spark's join", change <= -0.455)


def _balance(found: Outcome) -> Verdict:
    known = [z for z in CASES if found.samples(name(z, OURS), LI)]
    pairs = [(z, found.median(name(z, OURS), LI), found.median(name(z, STOCK), LI)) for z in known]
    said = ", ".join(f"{ours:.2f} against {stock:.2f} at {CASES[z]}" for z, ours, stock in pairs)
    return Verdict(said, all(ours < stock for z, ours, stock in pairs if z >= 1))


def same_rows(found: Outcome) -> Verdict:
    """Whether all runs of a workload returned the same rows."""
    sums: dict[str, set[str]] = {}
    for row in found.tables["checksums"]:
        sums.setdefault(row["workload"], set()).add(row["checksum"])
    return Verdict(f"{len(found.tables['checksums'])} runs", all(len(each) == 1 for each in sums.values()))


EXPERIMENT = Experiment(
    paper="aj-stream",
    title="Throughput, latency and imbalance of a join over its skew z, beside Spark's join and the papers' rivals "
    "(Figures 9 to 18)",
    kind="live",
    sides=(
        *(
            Side(name(z, way), partial(run_with, z=z, variant=VARIANTS[way]), way, z, in_quick=z == HOT)
            for z in sorted(CASES, key=lambda each: each != HOT)
            for way in (STOCK, OURS)
        ),
        *(
            Side(name(HOT, way), partial(run_with, z=HOT, variant=variant), in_quick=False)
            for way, variant in RIVALS.items()
        ),
    ),
    measures=(Measure(LI), Measure(THROUGHPUT, "rows/s", "more"), Measure(LATENCY, "s"), Measure(CPU, "s")),
    claims=(
        Claim("+22.1 % throughput against BiStream and ContRand", _throughput),
        Claim("-45.5 % latency against BiStream and ContRand", _latency),
        Claim("imbalance stays low under every skew", _balance),
        Claim("of Foretide: every run returns the same rows", same_rows),
    ),
    scale="two cores and 8 partitions in place of 24 and 48 instances; the rivals' schemes as plans of Spark",
    repeat=2,
    quick_repeat=1,
    minutes=25.0,
    quick_minutes=1.8,
    resource=bench,
    axis="z",
)
