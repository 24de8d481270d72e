"""A routed edge beside Spark's own shuffles: rows a second, and the same without any shuffle."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

BY_NUMBER, BY_KEY, ROUTED, NONE = "repartition(n)", "repartition(n, key)", "routed edge", "no exchange"
RATE = "throughput"


def run_with(run: Run, side: str) -> Samples:
    """Batches of lines into nothing; the first two are not counted."""
    from benchmarks.engine import batch_seconds

    rows, batches = (200_000, 3) if run.quick else (2_000_000, 5)
    return {RATE: [rows / seconds for seconds in batch_seconds(_frame(run, side, rows), batches)]}


def _frame(run: Run, side: str, rows: int) -> Any:
    import foretide as ft
    from benchmarks.engine import POOL, lines, urls
    from foretide.spark.edges import barrier

    read = lines(run.resource, rows)
    if side == ROUTED:
        folder = str(run.folder / "control")
        return urls(read.transform(ft.edge("parse", ft.Dynamic(by=("value",)), replicas=POOL, control_folder=folder)))
    if side == BY_NUMBER:
        return urls(barrier(read.repartition(POOL)))
    return urls(read.repartition(POOL, "value").transform(barrier)) if side == BY_KEY else urls(read)


def _beside(found: Outcome, rival: str, least: float) -> Verdict:
    change = found.change(ROUTED, RATE, rival)
    noise = found.noise(RATE) or 0.0
    return Verdict(f"{change:+.1%} rows a second, noise {noise:.1%}", change >= least - noise)


EXPERIMENT = Experiment(
    paper="foretide",
    title="Rows a second over a routed edge, and over Spark's own shuffles",
    kind="live",
    sides=tuple(Side(side, partial(run_with, side=side)) for side in (BY_NUMBER, BY_KEY, ROUTED, NONE)),
    measures=(Measure(RATE, "rows/s", "more"),),
    claims=(
        Claim("of Foretide: at least as fast as repartition(n)", lambda found: _beside(found, BY_NUMBER, 0.0)),
        Claim("of Foretide: within 10 % of repartition(n, key)", lambda found: _beside(found, BY_KEY, -0.1)),
    ),
    scale="one local session on two cores, two million rows of about 50 bytes a batch",
    repeat=4,
    quick_repeat=1,
    minutes=10.0,
    quick_minutes=0.6,
    warm_ups=1,
    resource=lambda _: session(options={"spark.driver.memory": "4g"}),
)
