"""Foretide's own cost: CPU time of the same query without a follower, audited, monitored and controlled."""

from __future__ import annotations

from functools import partial

from benchmarks.experiments.experiment import Claim, Experiment, Measure, Run, Samples, Side, Verdict
from benchmarks.experiments.outcome import Outcome
from benchmarks.experiments.sessions import session

WAYS = ("no follower at all", "audit only", "monitored", "monitored and controlled")
CPU = "CPU s for a million rows"


def run_with(run: Run, way: str) -> Samples:
    """CPU of all processes over some batches."""
    from benchmarks.control_cost import one_round

    batches, rows = (4, 300_000) if run.quick else (12, 500_000)
    return {CPU: [one_round(run.resource, way, batches, rows).total() / batches / rows * 1e6]}


def _few(found: Outcome) -> Verdict:
    change = found.change(WAYS[-1], CPU)
    return Verdict(f"{change:+.1%}, noise {found.noise(CPU) or 0:.1%}", change <= 0.05)


EXPERIMENT = Experiment(
    paper="foretide",
    title="CPU time of a query without Foretide's follower, audited, monitored and controlled",
    kind="live",
    sides=tuple(Side(way, partial(run_with, way=way)) for way in WAYS),
    measures=(Measure(CPU, "s"),),
    claims=(Claim("of Foretide: monitoring and control cost less than 5 % of the CPU", _few),),
    scale="one local session on two cores, 500,000 rows a batch",
    repeat=5,
    quick_repeat=1,
    minutes=12.0,
    quick_minutes=0.0,
    warm_ups=1,
    resource=lambda _: session(options={"spark.driver.memory": "4g"}),
)
